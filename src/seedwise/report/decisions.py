"""What may be claimed: adjusted p, level and verdict of a declared family at this look at the data.

With one look Holm decides inside the family.  With several, alpha is spent over them (Lan-DeMets) and
each of m comparisons has alpha/m to spend, since Holm's enlarged levels would need new boundaries at
every rejection; intervals of the family are then repeated ones (statistics, section 7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from seedwise import tables
from seedwise.report.facts import Compare, Look
from seedwise.stats.families import Member, family, holm
from seedwise.stats.results import Contrast, Target
from seedwise.stats.sequential import spend

CLAIMS = ("p_adjusted", "level", "tost_p_adjusted", "verdict")


def sequential(look: Look | None) -> bool:
    """Whether several looks were declared."""
    return look is not None and look.planned is not None and len(look.planned) > 1


def nominal(compare: Compare, look: Look, m: int) -> float:
    """Level that the p of each of m comparisons has at this look."""
    return spend(look.shares, compare.alpha / max(m, 1), compare.spending)[-1].nominal_p


def decide(
    contrasts: Mapping[str, Contrast], compare: Compare, look: Look | None, target: Target = "E2"
) -> dict[str, dict]:
    """Name -> the family's columns of CONTRASTS; a contrast without p has no place in it.

    target: what all of them were tested for.  At one of several looks p_adjusted is m p and level is m
    times the nominal level, so both read as in a single look: a claim needs p_adjusted at most level.
    """
    tested = {name: contrast for name, contrast in contrasts.items() if contrast.p is not None}
    if look is None or not sequential(look) or look.reason is not None or not tested:
        decided = family(tested, alpha=compare.alpha, smallest_effect=compare.smallest_effect, estimand=target)
        return {name: _columns(member, 1, compare.alpha) for name, member in decided.members.items()}
    m, level = len(tested), nominal(compare, look, len(tested))
    alone = {
        name: family({name: contrast}, alpha=level, smallest_effect=compare.smallest_effect, estimand=target).members[
            name
        ]
        for name, contrast in tested.items()
    }
    return {name: _columns(member, m, m * level) for name, member in alone.items()}


def _columns(member: Member, m: int, level: float) -> dict:
    return {
        "p_adjusted": _times(m, member.p_adjusted), "level": level, "family_low": member.lo, "family_high": member.hi,
        "tost_p": member.tost_p, "tost_p_adjusted": _times(m, member.tost_p_adjusted), "verdict": member.verdict,
    }  # fmt: skip


def _times(m: int, p: float | None) -> float | None:
    return None if p is None else min(1.0, m * p)


def adjusted(p: Sequence[float | None], compare: Compare, look: Look | None) -> tuple[list[float | None], float | None]:
    """Adjusted p of a family without verdicts, and the level they are read at; no p, no level, where withheld."""
    m = sum(value is not None for value in p)
    if m == 0 or (look is not None and look.reason is not None):
        return [None] * len(p), None
    if look is None or not sequential(look):
        return list(holm(p)), compare.alpha
    return [_times(m, value) for value in p], m * nominal(compare, look, m)


def withhold(contrasts: pd.DataFrame, reasons: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """CONTRASTS without claims where (model, setting) has a reason; estimates and intervals stay."""
    rows = contrasts.copy()
    for (model, setting), reason in reasons.items():
        here = (rows["model"] == model) & (rows["setting"] == setting) & rows["verdict"].notna()
        rows.loc[here, list(CLAIMS)] = None
        rows.loc[here, "withheld"] = reason
    return rows


def look_rows(look: Look | None) -> pd.DataFrame:
    """LOOK: one row, or none where the analysis belongs to no study."""
    names = [column[0] for column in tables.LOOK.columns]
    if look is None:
        return pd.DataFrame(columns=pd.Index(names))
    lists = {"planned": json.dumps(look.planned) if look.planned else None, "taken": json.dumps(look.taken)}
    numbers = {"look": look.number, "seeds": look.seeds, "reason": look.reason}
    row = numbers | lists | {"registration": look.registration, "first": look.first}
    return pd.DataFrame([row], columns=pd.Index(names))


def look_of(rows: pd.DataFrame) -> Look | None:
    """The Look that ``look_rows`` wrote."""
    if not len(rows):
        return None
    (row,) = rows.to_dict("records")
    planned = tuple(json.loads(row["planned"])) if isinstance(row["planned"], str) else None
    reason = row["reason"] if isinstance(row["reason"], str) else None
    taken = tuple(json.loads(row["taken"]))
    return Look(row["look"], row["seeds"], planned, taken, row["registration"], row["first"], reason)
