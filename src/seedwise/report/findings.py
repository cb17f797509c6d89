"""The declared comparisons as sentences in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seedwise.report.facts import BASE, PRIMARY, Facts
from seedwise.report.footer import cautions_of
from seedwise.report.results import Design, Results
from seedwise.report.wording import known, listed, p_phrase, percent, plain, points


@dataclass(frozen=True)
class Finding:
    """One sentence.  verdict: of the comparison; ``not tested`` or ``withheld`` where there is none.

    cautions: what to know before believing it, e.g. ``underdispersed``.
    """

    model: str
    setting: str
    method: str
    verdict: str
    sentence: str
    cautions: tuple[str, ...] = ()


def findings(results: Results, facts: Facts, designs: Mapping[tuple[str, str], Design]) -> list[Finding]:
    """One Finding per comparison of the primary family, in the order of the declaration."""
    rows = results.contrasts[results.contrasts["family"] == PRIMARY].to_dict("records")
    order = facts.compare.family
    rows = sorted(rows, key=lambda row: order.index(row["method"]))
    places = [(model, setting) for model, setting, _ in results.places()]
    rows = sorted(rows, key=lambda row: places.index((row["model"], row["setting"])))
    return [
        Finding(
            row["model"],
            row["setting"],
            row["method"],
            _verdict(row),
            _sentence(row, facts, designs[row["model"], row["setting"]]),
            tuple(cautions_of(row)) if isinstance(row["verdict"], str) else (),
        )
        for row in rows
    ]


def _verdict(row: dict) -> str:
    if isinstance(row["withheld"], str):
        return "withheld"
    return row["verdict"] if isinstance(row["verdict"], str) else "not tested"


def _sentence(row: dict, facts: Facts, design: Design) -> str:
    method = "the untrained model" if row["method"] == BASE else row["method"]
    reference, small = facts.compare.reference, f"{percent(facts.compare.smallest_effect)} points"
    if isinstance(row["withheld"], str):
        seen = f"difference {points(row['difference'])}, 95 % interval {points(row['low'])} to {points(row['high'])}"
        return f"{_upper(method)} against {reference}: {seen}; no verdict, {row['withheld']}."
    if not isinstance(row["verdict"], str):
        return f"{_upper(method)} was not tested against {reference}: {row['reason']}."
    d, low, high = row["difference"], row["low"], row["high"]
    by = f"{plain(abs(100 * d))} points"
    interval = f"95 % interval {points(low)} to {points(high)}, " if known(low) else ""
    seen = f"{interval}adjusted {p_phrase(row['p_adjusted'])}"
    full = f"difference {points(d)}, {seen}"
    equal = f"equivalence {p_phrase(row['tost_p_adjusted'])}" if known(row["tost_p_adjusted"]) else ""
    sentences = {
        "superior": f"{method} beats {reference} by {by} ({seen}).",
        "inferior": f"{method} falls behind {reference} by {by} ({seen}).",
        "equivalent": f"{method} and {reference} are equivalent within {small} ({full}, {equal}).",
        "superior-but-small": f"{method} beats {reference}, but by less than {small} ({seen}, {equal}).",
        "inferior-but-small": f"{method} falls behind {reference}, but by less than {small} ({seen}, {equal}).",
        "inconclusive": f"{method} against {reference} is undecided ({full}). {_remedy(design)}",
    }
    return _upper(sentences[row["verdict"]].strip()).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def _remedy(design: Design) -> str:
    return f"{_upper(design.remedy.removeprefix('inconclusive: '))}." if design.remedy else ""


def _upper(text: str) -> str:
    # method names keep their spelling: only our own words are capitalised
    return text[0].upper() + text[1:] if text.startswith(("the ", "no ", "not ", "at ", "up ")) else text


def headline(found: list[Finding]) -> str:
    """``Of 4 declared comparisons, 1 is superior and 3 are inconclusive.``"""
    if not found:
        return "No comparison of the declared family could be made: its methods or the reference have no runs."
    verdicts = list(dict.fromkeys(finding.verdict for finding in found))
    counts = {verdict: sum(finding.verdict == verdict for finding in found) for verdict in verdicts}
    parts = [f"{count} {'is' if count == 1 else 'are'} {verdict}" for verdict, count in counts.items()]
    noun = "comparison" if len(found) == 1 else "comparisons"
    return f"Of {len(found)} declared {noun}, {listed(parts)}."
