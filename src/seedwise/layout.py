"""Where every file of a study lies, and the id each stage's result rests on.

A stage depends only on what it uses: its id covers the settings it reads, the ids of what it takes in, and
the code it runs.  The id stands in the path, so a changed value or changed code is a new path, going back
finds the old results in place, and lost or copied Snakemake metadata cannot make a stale result look fresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from seedwise import behaviour
from seedwise.evals.store import Wanted
from seedwise.grading.verify import declared_version
from seedwise.grid import Grid, data_name, expand
from seedwise.identity import canonical, digest
from seedwise.reading import load
from seedwise.reruns import ledger
from seedwise.study import StudyError

RESULTS = Path("results")
WORK = Path("work")
BESIDE = ("chosen", "along", "words", "example")  # the continuations


@dataclass(frozen=True)
class Layout:
    """Paths and ids of a study's stages.  A *subject* is what is evaluated: a run, or a base.

    code: stage -> id of its code, where that is to be another than the present one.
    """

    grid: Grid
    root: Path = RESULTS
    code: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def with_code(self, stage: str, digests: Mapping[str, str]) -> Layout:
        """The layout as it was when a stage's code, accepted edits put back, had these digests."""
        code = digest(digests)
        if (stage, code) not in self._earlier:
            self._earlier[stage, code] = replace(self, code={**self.code, stage: code})
        return self._earlier[stage, code]

    @cached_property
    def _earlier(self) -> dict[tuple[str, str], Layout]:
        return {}

    @property
    def folder(self) -> Path:
        """The study's own folder: analysis, tables, figures, report."""
        return self.root / self.grid.study.study

    @property
    def planned(self) -> Grid:
        """All that the study declares, whatever became of it."""
        return self.grid

    @property
    def cautions(self) -> tuple[str, ...]:
        """What must be said beside every table of this analysis; nothing where it is whole."""
        return ()

    @property
    def subjects(self) -> list[str]:
        """Everything that is evaluated: runs, then bases."""
        return [*self.grid.runs, *self.grid.bases]

    @property
    def report(self) -> Path:
        """The page of the study."""
        return self.folder / "report.html"

    @property
    def looks(self) -> Path:
        """The record of every comparison of this study; no stage makes it anew."""
        return self.folder / "looks.jsonl"

    def check(self, name: str) -> None:
        """Raise StudyError where a job was planned for something that the study, as it is now, does not have."""
        if name not in {*self.subjects, *self.grid.models, *self.grid.problems}:
            raise StudyError(
                f"{name}: not part of study {self.grid.study.study}: the study or the code changed since this was "
                "planned: start Snakemake again"
            )

    def problems(self, name: str) -> Path:
        """The file of problems of this name with id."""
        return self._path(f"data/{name}.parquet")

    def model(self, name: str) -> Path:
        """The folder of an untrained model."""
        return self._path(f"models/{name}")

    def run(self, subject: str) -> Path:
        """The folder of a run or a base."""
        return self._path(f"runs/{subject}")

    def file(self, subject: str, name: str) -> Path:
        """A file that the training of a run publishes, e.g. trained.json."""
        return self._path(f"runs/{subject}/{name}")

    def backbone(self, name: str) -> Path:
        """What says that an untrained model is there."""
        return self._path(f"models/{name}/files.json")

    def weights(self, subject: str) -> Path:
        """What says that the weights of a run or a base are there."""
        base = self.grid.bases.get(subject)
        return self.file(subject, "trained.json") if base is None else self.backbone(base.folder)

    def _path(self, key: str) -> Path:
        """The path of this key, made once: planning a large study asks for each of thousands many times."""
        if key not in self._paths:
            self._paths[key] = Path(f"{self._root}/{key}")
        return self._paths[key]

    @cached_property
    def _paths(self) -> dict[str, Path]:
        return {}

    @cached_property
    def _root(self) -> str:
        return self.root.as_posix()

    def steps(self, subject: str) -> tuple[int, ...]:
        """Checkpoints evaluated; a base has the one of step 0."""
        if subject not in self.grid.runs:
            return (0,)
        every, chosen = self.grid.runs[subject].train.checkpoints, self.grid.study.evaluate.checkpoints
        return every if chosen == "all" else tuple(step for step in every if step in chosen or step == every[-1])

    def benchmarks(self, subject: str) -> dict[str, str]:
        """benchmark -> name of its problems, as the subject's model is asked them."""
        return self._asked[self.base(subject)]

    def base(self, subject: str) -> str:
        """The base that a subject is, or is trained from: all of one base are asked the same."""
        runs = self.grid.runs
        return self.grid.base_of[runs[subject].model_name] if subject in runs else subject

    @cached_property
    def _names(self) -> dict[str, tuple[str, str]]:
        """base -> record of samples; id of their scores."""
        found, forcing, checkpoints = {}, self.grid.study.evaluate.forcing, self.grid.study.evaluate.checkpoints
        for base, labels in self._labels.items():
            forced = [forcing.checkpoints] if forcing else []
            names = sorted([folder, n, *([] if j is None else forced)] for _, folder, n, j in labels.values())
            grading = self.grid.study.grading.model_dump(mode="json")
            names += [] if checkpoints == "all" else [["at", *map(str, checkpoints)]]
            content = [names, grading, self._verifiers(self._asked[base]), self._code["scoring"]]
            found[base] = f"{digest(names)[:8]}.json", digest(content)[:8]
        return found

    @cached_property
    def _labels(self) -> dict[str, dict[str, tuple[str, str, int, int | None]]]:
        """base -> label -> benchmark, folder, samples, forced continuations.

        The id of a folder covers the problems, the sampling settings and the sampling code; not how many samples.
        """
        evaluate = self.grid.study.evaluate
        settings = evaluate.model_dump(mode="json", include={"temperature", "top_p", "top_k", "max_tokens"})
        found: dict[str, dict[str, tuple[str, str, int, int | None]]] = {}
        for base, asked in self._asked.items():
            labels = found.setdefault(base, {})
            for name, problems in asked.items():
                identity = digest([problems, settings, self._code["sampling"]])[:8]
                labels[name] = name, f"{name}-{identity}", evaluate.samples_of(name), None
            if (forcing := evaluate.forcing) is None:
                continue
            said = [forcing.budget or evaluate.max_tokens, forcing.word, forcing.end_of_thinking]
            for name in forcing.benchmarks:
                identity = digest([asked[name], settings, said, self._code["forcing"]])[:8]
                for j in range(forcing.continuations + 1):
                    label = forcing.label(name, j)
                    labels[label] = name, f"{label}-{identity}", forcing.samples or evaluate.samples_of(name), j
        return found

    def _verifiers(self, benchmarks: Iterable[str]) -> dict[str, str]:
        """Verifiers of the benchmarks -> their declared versions, which are not part of their code."""
        tasks = self.grid.study.evaluate.benchmarks
        return {name: declared_version(name) for name in (tasks[benchmark].verified_by for benchmark in benchmarks)}

    @cached_property
    def _asked(self) -> dict[str, dict[str, str]]:
        """base -> benchmark -> name of its problems; Snakemake asks for every job, again and again."""
        study = self.grid.study
        return {
            name: {benchmark: data_name(study, base.model, benchmark) for benchmark in study.evaluate.benchmarks}
            for name, base in self.grid.bases.items()
        }

    def samples(self, subject: str) -> dict[str, Wanted]:
        """label -> the samples that the study rests on.  A label is a benchmark, or one with forced continuations."""
        folder, steps = self.run(subject) / "samples", self.steps(subject)
        forcing = self.grid.study.evaluate.forcing
        forced = steps if forcing and forcing.checkpoints == "all" else steps[-1:]
        return {
            label: Wanted(label, folder / name, benchmark, steps if j is None else forced, n, j)
            for label, (benchmark, name, n, j) in self._labels[self.base(subject)].items()
        }

    def sampled(self, subject: str) -> Path:
        """The record of the samples a study rests on, with digests; the parts lie beside it and are kept."""
        return self._path(f"runs/{subject}/samples/{self._names[self.base(subject)][0]}")

    def scores(self, subject: str) -> Path:
        """The verdicts on all samples of a subject."""
        return self._path(f"runs/{subject}/evals/{self._names[self.base(subject)][1]}/scores.parquet")

    def measured_from(self, subject: str) -> list[Path]:
        """What a subject's measures are made from; the scores of its base choose the problems for some of them."""
        base = self.scores(self.base(subject))
        return list(dict.fromkeys([self.sampled(subject), self.scores(subject), base]))

    def measures(self, subject: str) -> Path:
        """What is measured of a subject's checkpoints beside the comparison."""
        read = [self._key(path) for path in self.measured_from(subject)]
        return self.run(subject) / "measures" / f"{digest([read, self._measuring])[:8]}.parquet"

    @cached_property
    def _measuring(self) -> str:
        """What the measures of all subjects rest on alike."""
        study = self.grid.study
        settings = study.metrics.model_dump(mode="json") | {"budgets": study.metrics.within(study.evaluate.max_tokens)}
        code = [self._code["measuring"]]
        if study.metrics.same_answer == "math_verify":
            code.append(digest(behaviour.of_modules(behaviour.COMPARING_ANSWERS)))
        return digest([settings, code])

    @property
    def measured(self) -> list[str]:
        """The subjects whose measures the report shows."""
        return self.subjects

    def continuations(self, subject: str) -> Path | None:
        """The file that says the continuation experiment is done, or None where the study leaves the subject out."""
        if subject not in self._continued:
            self._continued[subject] = self._continuations(subject)
        return self._continued[subject]

    @cached_property
    def _continued(self) -> dict[str, Path | None]:
        return {}

    def _continuations(self, subject: str) -> Path | None:
        wanted = self.grid.study.resample.methods
        method = self.grid.runs[subject].method if subject in self.grid.runs else "base"
        if wanted is not None and method not in wanted:
            return None
        own = canonical(self._key(self.scores(subject)))
        text = f"{self._resampling},{own},{canonical(self._code['resampling'])}"
        identity = hashlib.sha256(f"[{text}]".encode()).hexdigest()[:8]
        return self._path(f"runs/{subject}/resample/{identity}.parquet")

    @cached_property
    def _resampling(self) -> str:
        """Settings of the continuation experiment and its benchmark, canonical: all subjects share them."""
        settings = self.grid.study.resample.model_dump(mode="json", exclude={"methods"})
        return f"{canonical(settings)},{canonical(self.resampled)}"

    def resampling(self, subject: str) -> dict[str, Path]:
        """The experiment's files by what they hold (``tables.RESAMPLED``), the one that says it is done first.

        None where the study leaves the subject out.
        """
        path = self.continuations(subject)
        if path is None:
            return {}
        return {"continuations": path} | {name: path.with_name(f"{path.stem}.{name}.parquet") for name in BESIDE}

    @property
    def resampled(self) -> str:
        """The benchmark whose responses are continued."""
        study = self.grid.study
        return study.resample.benchmark or next(iter(study.evaluate.benchmarks))

    @cached_property
    def analysis_id(self) -> str:
        """Of the comparison: every file it reads, what was declared, and the code of the statistics."""
        read = sorted(self._key(self.scores(subject)) for subject in self.subjects)
        read += sorted(self._key(path) for subject in self.subjects if (path := self.continuations(subject)))
        rows = [[run.model_name, run.method, run.setting, name] for name, run in self.grid.runs.items()]
        declared = self.grid.study.compare.model_dump(mode="json")
        return digest([read, sorted(rows), self.grid.base_of, declared, self._code["analysis"]])[:8]

    @cached_property
    def report_id(self) -> str:
        """Of the tables, figures and page: the analysis, the measures, and the code that renders them."""
        thresholds = self.grid.study.stability.model_dump(mode="json")
        measured = sorted(self._key(self.measures(subject)) for subject in self.measured)
        return digest([self.analysis_id, thresholds, measured, self._code["rendering"]])[:8]

    def marker(self, stage: str) -> Path:
        """A record whose name holds the stage's id; only the newest is kept, so it is there only while it is true."""
        identity = {"analysis": self.analysis_id, "report": self.report_id, "tracking": self.report_id}[stage]
        return self.folder / stage / f"{identity}.json"

    def _key(self, path: Path) -> str:
        """A path as an id sees it: wherever the results lie."""
        return path.as_posix().removeprefix(f"{self._root}/")

    @cached_property
    def _code(self) -> dict[str, str]:
        modules = {
            "forcing": behaviour.FORCING,
            "measuring": behaviour.MEASURING,
            "analysis": behaviour.ANALYSIS,
            "rendering": behaviour.RENDERING,
        }
        found = {stage: digest(behaviour.of_modules(paths)) for stage, paths in modules.items()}
        found |= {stage: digest(ledger.equated(ledger.evaluation(stage), stage=stage)) for stage in ledger.EVALUATION}
        return {**found, **self.code}


def record_of(path: Path) -> Path:
    """The record beside scores or continuations: their digest, and the code that made them."""
    return path.with_suffix(".json")


def read(path: str | Path) -> Layout:
    """The layout of a study file.  Raises StudyError, also where a run starts from one that nobody has trained."""
    layout = Layout(expand(load(path), str(path)))
    for run in layout.grid.runs.values():
        origin = run.init_from
        if origin and origin not in layout.grid.runs and not (layout.run(origin) / "trained.json").exists():
            raise StudyError(
                f"{path}: methods.{run.method}.init_from: {origin}: not a run of this study, and "
                f"{layout.run(origin)} is not there: train it first, or name a method point"
            )
    return layout
