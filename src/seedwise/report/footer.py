"""The sentences under the main table: what was compared, on what, and what the design could have found."""

from __future__ import annotations

from collections.abc import Mapping

from seedwise.report.audits import AS_ESTIMATED
from seedwise.report.decisions import look_of
from seedwise.report.facts import BASE, PRIMARY, Facts, Look
from seedwise.report.results import Design, Results
from seedwise.report.wording import DASH, known, listed, percent, plain, spread

MEANING = {
    "df<=2": "df<=2: two seeds, so the spread over seeds is hardly known.",
    "underdispersed": "underdispersed: seeds differ less than the sampling of answers alone would make them.",
    "dropped_problems": "dropped_problems: left out because some seed has no answer to them.",
    "stopped_early": "stopped_early: some run ended before the others and counts with the weights at its stop; with "
    "their number where the training recorded it.",
}


def footer(results: Results, facts: Facts, model: str, setting: str, design: Design) -> tuple[str, ...]:
    """S, P, n, unit of replication, shared randomness, variance shares, df, reach, declaration."""
    rows = results.contrasts
    place = (rows["model"] == model) & (rows["setting"] == setting) & (rows["metric"] == results.primary(facts))
    macro = rows[place & rows["benchmark"].isna() & (rows["estimand"] == "new_problems")].to_dict("records")
    family = [row for row in macro if row["family"] == PRIMARY]
    look = look_of(results.look)
    sentences = (
        *((_withheld(family),) if family else ()),
        _size(design, facts),
        _seed(facts),
        _compared(facts, macro, family),
        _look(facts, look, family),
        _variance(family or macro),
        _cautions(macro),
        _stopped(results, model, setting) if look is not None else "",
        _audited(results, facts, model, setting),
        _reach(facts, design),
        _declared(facts, look, macro),
    )
    return tuple(filter(None, sentences))


def _size(design: Design, facts: Facts) -> str:
    problems = ", ".join(f"{name} {count}" for name, count in design.problems.items())
    counts = sorted({n for ns in design.samples.values() for n in ns})
    n = "n = " + " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else "n = 0"
    S = spread(design.seeds, 0) if design.seeds else "0"
    seeds = _plural("seed", 1 if S == "1" else 2)
    return (
        f"S = {S} training {seeds} per method, P = {sum(design.problems.values())} problems ({problems}), "
        f"{n} samples per problem. The unit of replication is a training run: one seed, evaluated on every problem. "
        "Macro: benchmarks have equal weight. Intervals: 95 %, for new seeds and new problems."
        + (" Scored: the mean of the last three checkpoints." if facts.compare.checkpoint == "mean_of_last_3" else "")
    )


def _seed(facts: Facts) -> str:
    if not facts.seed_varies and not facts.seed_fixed:
        return ""
    return f"A seed varies {listed(facts.seed_varies)}; fixed for all seeds: {listed(facts.seed_fixed)}."


def _compared(facts: Facts, macro: list[dict], family: list[dict]) -> str:
    if not macro:
        return f"The reference {facts.compare.reference} was not run in this setting: no differences."
    tested = sum(known(row["p"]) for row in family)
    untested, several = (
        len(family) - tested,
        any(known(row["level"]) and row["level"] != facts.compare.alpha for row in family),
    )
    rule = f"alpha/{tested} to spend for each over the looks" if several else f"Holm at {facts.compare.alpha:g}"
    others = len(macro) - len(family)
    return (
        f"{tested} {_plural('comparison', tested)} in the declared family, {rule}, for the difference and for "
        f"equivalence alike"
        + (f"; {untested} declared but not tested" if untested else "")
        + (f"; {others} {_plural('row', others)} outside it, descriptive only" if others else "")
        + ". Bold: superior after adjustment, never the largest number."
    )


def _variance(rows: list[dict]) -> str:
    tested = [row for row in rows if known(row["se"])]
    if not tested:
        return ""
    each = "; ".join(f"{row['method']} {shares(row)} (df {plain(row['df'])})" for row in tested)
    return f"Variance shares of the difference, % seed / problem / rest: {each}."


def cautions_of(row: Mapping) -> list[str]:
    """The cautions of a test, as they stand beside its verdict."""
    return row["flags"].split(",") if row["flags"] else []


def _cautions(rows: list[dict]) -> str:
    flagged = [f"{row['method']} {', '.join(cautions_of(row))}" for row in rows if row["flags"]]
    if not flagged:
        return ""
    meaning = [text for flag, text in MEANING.items() if any(flag in row["flags"] for row in rows)]
    return f"Cautions: {'; '.join(flagged)}. {' '.join(meaning)}".strip()


def _reach(facts: Facts, design: Design) -> str:
    smallest = f"Smallest effect of interest: {percent(facts.compare.smallest_effect)} points."
    if design.alone is None:
        return f"{smallest} Smallest detectable effect: undefined ({design.reason})."
    alone = f"{percent(design.alone)} points for a single comparison"
    family = f", {percent(design.in_family)} points for one of {design.tested} at alpha/m" if design.tested > 1 else ""
    return (
        f"{smallest} Smallest effect this design finds with 80 % power (planner, estimated variances): {alone}{family}."
    )


def _withheld(family: list[dict]) -> str:
    reasons = list(dict.fromkeys(row["withheld"] for row in family if isinstance(row["withheld"], str)))
    return f"Verdicts are withheld, estimates stand: {'; '.join(reasons)}." if reasons else ""


def _look(facts: Facts, look: Look | None, family: list[dict]) -> str:
    if look is None:
        return ""
    if look.reason is not None:
        return f"Look {look.number} at the data, not declared: {look.reason}."
    if look.planned is None or len(look.planned) == 1:
        return f"Look {look.number} at the data, at {look.seeds} seeds per method, as declared."
    levels = [row["level"] for row in family if known(row["level"])]
    claim = f" A claim at this look needs an adjusted p of at most {levels[0]:.2g}." if levels else ""
    return (
        f"Look {look.number} at the data, at {look.seeds} seeds per method; declared are looks at "
        f"{listed([str(S) for S in look.planned])} ({_SPENDING[facts.compare.spending]}).{claim} "
        "Family intervals are repeated ones, valid at every look."
    )


_SPENDING = {"obf": "alpha spent late, after O'Brien and Fleming", "pocock": "alpha spent evenly, after Pocock"}


def _stopped(results: Results, model: str, setting: str) -> str:
    stops = results.stops
    here = stops[(stops["model"] == model) & (stops["setting"] == setting)] if len(stops) else stops
    if not len(here):
        return "No run stopped before its last step."
    counts = ", ".join(f"{method} {count}" for method, count in here.groupby("method", sort=False).size().items())
    return f"Runs that stopped before their last step, counted with the weights at their stop: {counts}."


def _audited(results: Results, facts: Facts, model: str, setting: str) -> str:
    data = results.audit
    rows = data[(data["model"] == model) & (data["setting"] == setting)].to_dict("records") if len(data) else []
    if not rows:
        return ""
    if reasons := [row["reason"] for row in rows if isinstance(row["reason"], str)]:
        return f"Self-audit: none ({reasons[0]})."
    calm, unstable = sorted(rows, key=lambda row: row["design"] != AS_ESTIMATED)
    return (
        f"Self-audit: of {calm['simulations']} simulated families like this one, without any difference, "
        f"{_rate(calm)} had a false claim (declared: {100 * facts.compare.alpha:g} %); with one arm's seed SD three "
        f"times as large {_rate(unstable)}. Of 95 % intervals {percent(calm['coverage'])} % held the true difference."
    )


def _rate(row: Mapping) -> str:
    return f"{percent(row['rate'])} % [{percent(row['low'])}, {percent(row['high'])}]"


def _declared(facts: Facts, look: Look | None, macro: list[dict]) -> str:
    base = f" {BASE}: the untrained model, evaluated once." if any(row["method"] == BASE for row in macro) else ""
    changed = (
        f" It changed after the first look at the data, where its hash was {look.first}: what it declares now was not "
        "declared beforehand."
        if look is not None and look.changed
        else ""
    )
    return f"{facts.declared_in}, hash {facts.compare_hash}.{changed}{base}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def shares(row: Mapping) -> str:
    """``62 / 51 / -13``: seed, problem and rest as per cent of their sum, or a dash."""
    if not all(known(row[name]) for name in ("V_seed", "V_prob", "V_res")):
        return DASH
    total = row["V_seed"] + row["V_prob"] - row["V_res"]
    if total <= 0:
        return DASH
    parts = (row["V_seed"] - row["V_res"], row["V_prob"] - row["V_res"], row["V_res"])
    return " / ".join(plain(100 * part / total, 0) for part in parts)
