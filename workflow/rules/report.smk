TABLES = ["main", "differences", "passk", "trends", "audit", "effects", "ranks", "multiverse", "strata", "curves"]
TABLES += ["costs", "spent", "benchmarks", "grid", "measures", "resampling", "course", "words", "forcing", "outcomes"]
TABLES += ["runs"]
FIGURES = ["forest", "learning", "entropy", "length", "pass_at_k", "pass_at_k_benchmarks", "sparsity", "course"]
FIGURES += ["forcing"]
FIGURES += [f"trend_{axis}" for axis in GRID.study.compare.trends]


rule report:
    input:
        ancient(LAYOUT.marker("analysis")),
        ancient(REPORTED),
        ancient(MEASURED),
    output:
        LAYOUT.marker("report"),
        page=report(
            LAYOUT.report,
            caption="../report/page.rst",
            category="Report",
            labels={"what": "everything on one page"},
        ),
        main=report(
            LAYOUT.folder / "tables/main.csv",
            caption="../report/main.rst",
            category="Tables",
            labels={"what": "scores, differences, verdicts"},
        ),
        trends=report(
            LAYOUT.folder / "tables/trends.csv",
            caption="../report/trends.rst",
            category="Tables",
            labels={"what": "trends"},
        ),
        multiverse=report(
            LAYOUT.folder / "tables/multiverse.csv",
            caption="../report/multiverse.rst",
            category="Tables",
            labels={"what": "the same comparison, analysed otherwise"},
        ),
        audit=report(
            LAYOUT.folder / "tables/audit.csv",
            caption="../report/audit.rst",
            category="Tables",
            labels={"what": "self-audit"},
        ),
        measures=report(
            LAYOUT.folder / "tables/measures.csv",
            caption="../report/measures.rst",
            category="Tables",
            labels={"what": "what else was measured"},
        ),
        resampling=report(
            LAYOUT.folder / "tables/resampling.csv",
            caption="../report/resampling.rst",
            category="Tables",
            labels={"what": "continuation resampling"},
        ),
        forest=report(
            LAYOUT.folder / "figures/forest.svg",
            caption="../report/forest.rst",
            category="Figures",
            labels={"what": "differences to the reference"},
        ),
        learning=report(
            LAYOUT.folder / "figures/learning.svg",
            caption="../report/learning.rst",
            category="Figures",
            labels={"what": "learning curves"},
        ),
        entropy=report(
            LAYOUT.folder / "figures/entropy.svg",
            caption="../report/entropy.rst",
            category="Figures",
            labels={"what": "entropy curves"},
        ),
        pass_at_k=report(
            LAYOUT.folder / "figures/pass_at_k.svg",
            caption="../report/pass_at_k.rst",
            category="Figures",
            labels={"what": "pass@k"},
        ),
        pass_at_k_benchmarks=report(
            LAYOUT.folder / "figures/pass_at_k_benchmarks.svg",
            caption="../report/pass_at_k_benchmarks.rst",
            category="Figures",
            labels={"what": "pass@k of every benchmark"},
        ),
        sparsity=report(
            LAYOUT.folder / "figures/sparsity.svg",
            caption="../report/sparsity.rst",
            category="Figures",
            labels={"what": "shares of advantages"},
        ),
        course=report(
            LAYOUT.folder / "figures/course.svg",
            caption="../report/course.rst",
            category="Figures",
            labels={"what": "success along a response"},
        ),
        files=expand(
            LAYOUT.folder / "tables/{name}.{ending}",
            name=TABLES,
            ending=["md", "tex"],
        ),
        figures=expand(LAYOUT.folder / "figures/{name}.pdf", name=FIGURES),
    log:
        f"results/logs/{NAME}.report.log",
    params:
        id=LAYOUT.report_id,
    shell:
        "seedwise report 2>&1 | tee {log:q}"


# MLflow mirrors the files and nothing reads it back, so a store that refuses does not fail the study.
rule track:
    input:
        ancient(LAYOUT.marker("report")),
    output:
        LAYOUT.marker("tracking"),
    log:
        f"results/logs/{NAME}.track.log",
    params:
        id=LAYOUT.report_id,
    shell:
        "seedwise sync --record {output:q} > {log:q} 2>&1"
