"""Presets: every published method as one expression over parts, by name.

Every preset takes whole axes beside its own parameters: ``preset("qae", K=0.6, sampler={"kind": "dynamic"})``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from seedwise.algos.algorithm import Algorithm
from seedwise.algos.part import AlgorithmError, one_line
from seedwise.algos.presets_credit import a3po, eapo, entropy_adv, forking, gepo, hapo, less, qae_eapo, rlrt, ucas
from seedwise.algos.presets_group import (
    cispo,
    clip_cov,
    clip_higher,
    dapo,
    dr_grpo,
    grpo,
    gspo,
    kl_cov,
    opo,
    reinforce_pp,
    rloo,
)
from seedwise.algos.presets_quantile import (
    hard_gate,
    neg_mask,
    nsr,
    pos_mask,
    psr,
    qae,
    qae_adaptive,
    qae_clip_cov,
    qae_dithered,
    qae_gspo,
    qae_kl_cov,
    qae_scheduled,
    random_sparsity,
)
from seedwise.algos.settings import nearest

AXES = tuple(Algorithm.model_fields)


PRESETS: dict[str, Callable[..., Algorithm]] = {
    method.__name__: method
    for method in (
        grpo,
        dr_grpo,
        clip_higher,
        dapo,
        rloo,
        gspo,
        qae,
        eapo,
        qae_eapo,
        pos_mask,
        neg_mask,
        random_sparsity,
        opo,
        reinforce_pp,
        psr,
        nsr,
        hard_gate,
        qae_scheduled,
        qae_adaptive,
        qae_dithered,
        entropy_adv,
        hapo,
        forking,
        a3po,
        less,
        ucas,
        gepo,
        rlrt,
        cispo,
        clip_cov,
        kl_cov,
        qae_clip_cov,
        qae_kl_cov,
        qae_gspo,
    )
}


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """A preset's own parameters in order, by name, with type and default; every preset takes whole AXES beside them.

    Raises AlgorithmError on an unknown preset.
    """
    if name not in PRESETS:
        raise AlgorithmError(f"unknown preset {name!r}{nearest(name, PRESETS)}; presets are {', '.join(PRESETS)}")
    return dict(_signature(name).parameters)


@functools.cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(PRESETS[name], eval_str=True)


def preset(name: str, **given: Any) -> Algorithm:
    """The algorithm of a preset: ``preset("qae", K=0.6)``.

    given: parameters of the preset, and whole axes, as parts or as they stand in YAML, which replace the preset's;
    of an objective the keys that are given. ``penalty=None`` takes a penalty away.
    Raises AlgorithmError, one line, on an unknown preset or parameter, a missing one, one that an axis given beside
    it makes void, or a value it cannot have.
    """
    known = parameters(name)
    for key in given:
        if key not in known and key not in AXES:
            words = (*known, *AXES)
            raise AlgorithmError(
                f"preset {name} has no parameter {key!r}{nearest(key, words)}; it has {', '.join(words)}"
            )
    missing = [key for key, parameter in known.items() if parameter.default is parameter.empty and key not in given]
    if missing:
        raise AlgorithmError(f"preset {name} needs {' and '.join(missing)}: set it beside preset")
    params = {key: value for key, value in given.items() if key in known}
    replaced = {axis: value for axis, value in given.items() if axis in AXES}
    try:
        algorithm = _made(name, params, replaced)
        if replaced:
            _check_effect(name, params, replaced)
    except ValidationError as error:
        raise AlgorithmError(f"preset {name}: {one_line(error)}") from None
    return algorithm


def _made(name: str, params: dict[str, Any], replaced: dict[str, Any]) -> Algorithm:
    algorithm = PRESETS[name](**params)
    if not replaced:
        return algorithm
    objective = replaced.get("objective")
    if isinstance(objective, dict):
        replaced = replaced | {"objective": dict(algorithm.objective) | objective}
    return Algorithm.model_validate(dict(algorithm) | replaced)


def _check_effect(name: str, params: dict[str, Any], replaced: dict[str, Any]) -> None:
    """Raise AlgorithmError for a parameter whose part is replaced by an axis given beside it."""
    for key in params:
        others = {other: value for other, value in params.items() if other != key}
        if parameters(name)[key].default is inspect.Parameter.empty:
            continue
        changes = PRESETS[name](**params) != PRESETS[name](**others)
        if changes and _made(name, params, replaced) == _made(name, others, replaced):
            axes = " and ".join(replaced)
            raise AlgorithmError(f"preset {name}: {key} has no effect beside {axes}: set it there")
