"""What a table says about its look, its declaration, its audit and its broken runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import synthetic

from seedwise import tables
from seedwise.report.build import analyse, load, views_of
from seedwise.report.decisions import withhold
from seedwise.report.facts import Facts, Look
from seedwise.report.findings import Finding, findings, headline
from seedwise.report.layout import markdown
from seedwise.report.page import page
from seedwise.report.results import Results, design
from seedwise.stats.sequential import spend

PLANNED = (3, 5, 10)
FIRST = Look(1, 3, PLANNED, (3,), "aaaa1111", "aaaa1111")

Shown = tuple[dict[str, str], list[Finding]]


def shown(study: dict[str, pd.DataFrame], out: Path, look: Look | None, **options) -> Shown:
    """Tables as Markdown, and the findings."""
    analyse(study["runs"], study["counts"], None, synthetic.COMPARE, out, look=look, **{"simulations": 0, **options})
    return read(load(out, study["runs"]))


def read(results: Results) -> Shown:
    facts = Facts.of(synthetic.FACTS)
    designs = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    texts = {name: markdown(views) for name, views in views_of(results, facts, designs).items()}
    return texts, findings(results, facts, designs)


def test_a_planned_look_prints_its_level_and_decides_by_it(study, tmp_path):
    plain, before = shown(study, tmp_path / "once", None)
    texts, found = shown(study, tmp_path / "first", FIRST)
    assert "Look 1 at the data, at 3 seeds per method; declared are looks at 3, 5 and 10" in texts["main"]
    # 0.05/4 for each of four comparisons; 3 of 10 seeds
    level = 4 * spend([0.3], 0.05 / 4)[0].nominal_p
    assert f"A claim at this look needs an adjusted p of at most {level:.2g}." in texts["main"]
    assert "alpha/4 to spend for each over the looks" in texts["main"]
    assert "Look" not in plain["main"]
    verdicts = [{each.method: each.verdict for each in group} for group in (before, found)]
    assert verdicts[0]["qae.K0.4"] == "superior"
    assert verdicts[1]["qae.K0.4"] == "inconclusive"


def test_one_declared_look_is_said(study, tmp_path):
    texts, found = shown(study, tmp_path, Look(1, 3, None, (3,), "aaaa1111", "aaaa1111"))
    assert "Look 1 at the data, at 3 seeds per method, as declared." in texts["main"]
    assert "changed" not in texts["main"]
    assert "superior" in {each.verdict for each in found}


def test_an_undeclared_look_prints_estimates_without_verdicts(study, tmp_path):
    look = Look(
        2, 4, PLANNED, (3, 4), "aaaa1111", "aaaa1111", "4 seeds per method, and the declared looks are at 3, 5, 10"
    )
    texts, found = shown(study, tmp_path, look)
    rows = [line for line in texts["main"].splitlines() if line.startswith("| qae.K0.4 | 3")]
    assert rows[0].endswith("| – | withheld |")
    assert "superior" not in texts["main"].replace("Bold: superior", "")
    assert "Look 2 at the data, not declared: 4 seeds per method" in texts["main"]
    assert "Verdicts are withheld, estimates stand: look 2 was not declared." in texts["main"]
    assert headline(found) == "Of 4 declared comparisons, 4 are withheld."
    assert "no verdict, look 2 was not declared." in found[0].sentence


def test_a_changed_declaration_is_said_in_every_table(study, tmp_path):
    texts, _ = shown(study, tmp_path, Look(1, 3, None, (3,), "bbbb2222", "aaaa1111"))
    assert texts["main"].count("It changed after the first look at the data, where its hash was aaaa1111") == 2


def test_a_failed_audit_withholds_and_says_why(study, tmp_path):
    shown(study, tmp_path, None, simulations=100)
    results = load(tmp_path, study["runs"])
    assert "Self-audit: of 100 simulated families" in read(results)[0]["main"]
    # what the analysis writes when the audit fails
    why = "verdicts withheld: identical methods would be told apart in 12.0 % of families"
    failed = withhold(results.contrasts, {("embedded", "G8"): why})
    tables.write(tables.CONTRASTS, failed, tmp_path / "analysis" / "contrasts.parquet")
    texts, found = read(load(tmp_path, study["runs"]))
    assert f"Verdicts are withheld, estimates stand: {why}." in texts["main"]
    assert {each.verdict for each in found} == {"withheld"}


def test_runs_that_stopped_are_counted_per_method(study, tmp_path):
    first = study["runs"].head(1)[["run", "model", "method", "setting", "seed"]].assign(step=7, reason="loss is nan")
    texts, _ = shown(study, tmp_path / "one", FIRST, stops=first)
    assert (
        "Runs that stopped before their last step, counted with the weights at their stop: clip_higher 1."
        in texts["main"]
    )
    assert "(stopped_early=1)" in texts["main"]
    texts, _ = shown(study, tmp_path / "none", FIRST)
    assert "No run stopped before its last step." in texts["main"]


def test_a_caution_stands_beside_its_verdict_on_the_page():
    found = [Finding("m", "G8", "a", "superior", "a beats ref.", ("underdispersed",))]
    text = page(Facts.of(synthetic.FACTS), headline(found), found, [], [])
    assert '<span class="chip superior">superior</span> <span class="caution">underdispersed</span></div>' in text


@pytest.mark.parametrize(
    "name", ["audit", "effects", "ranks", "multiverse", "strata", "curves", "costs", "benchmarks", "grid"]
)
def test_no_further_table_is_bold_or_prints_a_p_of_zero(rendered, name):
    text = (rendered / "tables" / f"{name}.md").read_text()
    assert "0.000" not in text
    assert text.count("**") == 2  # the title's
    assert len(text.splitlines()) > 5


def test_further_tables_say_what_they_are(rendered):
    text = {path.stem: path.read_text() for path in (rendered / "tables").glob("*.md")}
    assert "10 analyses agree with superior" in text["multiverse"]
    assert "anti-conservative at few seeds" in text["multiverse"]
    assert "cannot reach p <= 0.0166667: 0.1 is the smallest" in text["ranks"]
    assert "| qae.K0.4 | embedded, G8 | never solved |" in text["strata"]
    assert "| trained tokens |" in text["costs"]
    assert "| entropy_nats.log_volatility | qae.K0.4 |" in text["curves"]
    assert "(FDR, exploratory)" in text["grid"]
    assert "| qae_eapo | embedded, G8 | mixed | 36 |" in text["benchmarks"]


def test_the_mean_of_three_checkpoints_is_said_and_planned_with(study, tmp_path):
    compare = replace(synthetic.COMPARE, checkpoint="mean_of_last_3")
    analyse(study["runs"], study["counts"], None, compare, tmp_path, simulations=0)
    results, facts = load(tmp_path, study["runs"]), Facts.of(synthetic.FACTS | {"compare": compare})
    places = {(model, setting): design(results, facts, model, setting) for model, setting, _ in results.places()}
    text = markdown(views_of(results, facts, places)["main"])
    assert "Scored: the mean of the last three checkpoints." in text
    last = design(results, Facts.of(synthetic.FACTS), "embedded", "G8")
    assert places["embedded", "G8"].alone != last.alone
