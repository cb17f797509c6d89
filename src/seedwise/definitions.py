"""What each metric of a checkpoint on a benchmark is: name, unit, definition, source, and what null means.

docs/metrics.md is generated from these; a test holds them against what is measured.  A name with <k>, <n>, <band>,
<scorer> or <word> stands for all metrics that fill it in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

Unit = Literal["share", "0..1", "tokens", "per 1,000 tokens", "samples"]
GROUPS = {
    "verdicts": "Verdicts",
    "accuracy": "Accuracy",
    "problems": "Difficulty and diversity of answers",
    "responses": "Length and words",
}
_FILLED = {"<k>": r"\d+", "<n>": r"\d+", "<band>": r"[\d.]+-[\d.]+", "<scorer>": "[a-z_]+", "<word>": ".+"}
_ALWAYS = "never null"


@dataclass(frozen=True)
class Definition:
    """One metric, or all of one form.

    group: key of ``GROUPS``.  unit: a share lies in 0..1 and is printed in %.  over: how the values of problems make
    that of a benchmark.
    """

    name: str
    group: str
    unit: Unit
    what: str
    null: str = _ALWAYS
    source: str = "this project"
    over: str = "mean"

    def names(self, metric: str) -> bool:
        """Whether a metric is one of these."""
        pattern = re.escape(self.name)
        for form, filled in _FILLED.items():
            pattern = pattern.replace(re.escape(form), filled)
        return re.fullmatch(pattern, metric) is not None


_CUT = "a sample was cut by evaluate.max_tokens below the budget, so its outcome within it is not known"
_NO_BASE = "no problem of the benchmark is that hard for the untrained model"
_EAPO = "EAPO, arXiv 2609.33781"
DEFINITIONS = (
    *(
        Definition(
            f"{verdict}_samples", "verdicts", "samples", f"samples of the benchmark that {what}", over="sum",
            source="the grader's verdict",
        )
        for verdict, what in {
            "correct": "equal the gold answer",
            "wrong": "have an answer that does not",
            "unparsed": "have no answer that can be read",
            "timeout": "could not be verified within grading.time_limit_s",
        }.items()
    ),
    Definition(
        "avg@n", "accuracy", "share", "share of the n samples of a problem that are correct; wrong, unparsed and timed "
        "out alike are not", source="pass@1 of arXiv 2107.03374",
    ),
    Definition(
        "pass@<k>", "accuracy", "share", "probability that at least one of k samples is correct, with c of n correct "
        "1 - C(n-c, k) / C(n, k); at k = n it only says whether any was", source="arXiv 2107.03374",
    ),
    Definition(
        "majority@<k>", "accuracy", "share", "probability that the most frequent answer of k samples is correct, over "
        "all subsets of k; equally frequent ones by lot; a sample without an answer has no vote",
        source="self-consistency, arXiv 2203.11171; the expectation over subsets as for pass@k",
    ),
    Definition(
        "best@<k>_<scorer>", "accuracy", "share", "best-of-k: probability that the sample a scorer ranks highest among "
        "k is correct, over all subsets of k; equal ranks by lot; a sample without a score ranks last",
        "the samples keep nothing that the scorer looks at, as log_probability without log-probabilities",
    ),
    Definition(
        "accuracy_within_<n>_tokens", "accuracy", "share", "share of samples that are correct and ended within n "
        "tokens: methods compared at equal cost, a longer response counting as wrong", _CUT,
    ),
    Definition(
        "accuracy_of_base_<band>", "problems", "share", "avg@n over the problems that the untrained model solves in a "
        "share of its samples within the band, lower edge inside; its own accuracy there is off by selection",
        "no problem lies in the band",
    ),
    Definition(
        "answer_entropy", "problems", "0..1", "normalised answer entropy: -sum p ln p / ln n over the shares p of the "
        "different answers among the n samples of a problem, 1 where all differ; each sample without an answer is an "
        "answer of its own; only problems that the untrained model solves in less than metrics.hard_below",
        f"{_NO_BASE}, or it has fewer than 2 samples", f"{_EAPO}, table 4, which gives no formula",
    ),
    Definition(
        "answer_entropy_distinct", "problems", "0..1", "the same over ln of the number of different answers",
        f"{_NO_BASE}, or all samples of each give one answer",
    ),
    Definition(
        "collision_rate", "problems", "share", "probability that two samples of a problem give the same answer, "
        "sum c (c - 1) / (n (n - 1)); without an answer a sample agrees with none; problems as for answer_entropy",
        f"{_NO_BASE}, or it has fewer than 2 samples", f"{_EAPO}, table 4, which gives no formula",
    ),
    Definition("unanswered_share", "problems", "share", "share of samples in which no answer was found"),
    Definition("length_tokens", "responses", "tokens", "mean tokens of a response, its stop token included"),
    Definition(
        "length_tokens_correct", "responses", "tokens", "the same of correct responses, over the problems that have "
        "any",
        "no correct sample",
    ),
    Definition(
        "length_tokens_incorrect", "responses", "tokens", "the same of all other responses", "no incorrect sample"
    ),
    Definition("truncated_share", "responses", "share", "share of samples cut at evaluate.max_tokens"),
    Definition(
        "markers_per_1000_tokens", "responses", "per 1,000 tokens", "occurrences of the words in metrics.markers as "
        "whole words in any case", "no tokens", f"{_EAPO}, figure 4; words of arXiv 2603.15500", "ratio of the sums",
    ),
    Definition(
        "<word>_per_1000_tokens", "responses", "per 1,000 tokens", "the same of each word by itself", "no tokens",
        f"{_EAPO}, figure 4; words of arXiv 2603.15500", "ratio of the sums",
    ),
)  # fmt: skip


@cache
def definition(metric: str) -> Definition:
    """What a metric is.  Raises KeyError on a name that is none."""
    found = next((each for each in DEFINITIONS if each.names(metric)), None)
    if found is None:
        raise KeyError(metric)
    return found


HEAD = """# Metrics

Generated by `seedwise docs` from `src/seedwise/definitions.py`; a test fails when it is stale.

The stage `measure` computes these for every checkpoint and benchmark from the samples and their verdicts, into
`results/runs/<run>/measures/<id>.parquet`: a row per problem, and one over the problems (`problem` null). The
study's section `metrics` says which k, budgets, bands, words and scorers. `results/<study>/measures.parquet` holds the
rows over the problems of all runs; `results/<study>/tables/measures.csv` their means over seeds at the checkpoint that
is scored.

- They describe. Intervals are 95 % t intervals over training seeds on exactly these problems; only declared families
  are tested, and only they get verdicts.
- Everything is exact over the samples that were drawn: where k of them are looked at, it is the expectation over all
  subsets of k, so no number depends on the order of the samples.
- A *share* lies in 0..1; tables for reading print it in %.
- *null* has its reason beside it in the column `reason`; it is never 0. A mean over problems leaves out those that
  are null and `problems` says how many count, but for budgets and best-of-k, which one null problem makes null.
- All correct answers are one answer. Wrong ones are one where their texts are, or with
  `metrics.same_answer: math_verify` where math-verify holds them equal.
- Bands and the problems of answer entropy and collision rate are chosen by the samples of the untrained model, before
  any method is looked at, and are the same for all.

A new scorer of best-of-k takes a function and a line in `seedwise.evals.scorers.SCORERS`, and its name in
`seedwise.study.Scorer`.
"""


def page() -> str:
    """docs/metrics.md: every metric, as Markdown."""
    lines = [HEAD]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", "| metric | unit | what it is | over the problems | null | source |"]
        lines.append("|---|---|---|---|---|---|")
        for each in DEFINITIONS:
            if each.group == group:
                lines.append(
                    f"| `{each.name}` | {each.unit} | {each.what} | {each.over} | {each.null} | {each.source} |"
                )
        lines.append("")
    return "\n".join(lines)
