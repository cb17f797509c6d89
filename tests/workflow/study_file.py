"""A small valid study, and ways to change it."""

from __future__ import annotations

import copy
from typing import Any

CHAIN = {"task": "reasoning_gym", "name": "chain_sum", "params": {"min_terms": 2, "max_terms": 3}}

STUDY: dict[str, Any] = {
    "study": "tiny",
    "models": {"embedded": {"kind": "embedded", "template": "{compact}="}},
    "train_data": {**CHAIN, "size": 20, "seed": 1},
    "seeds": [0, 1],
    "methods": {"clip_higher": {"preset": "clip_higher"}, "qae": {"preset": "qae", "K": [0.4, 0.8]}},
    "group_size": 8,
    "train": {"steps": 4, "completions": 16, "checkpoints": [2, 4], "save_every": 2},
    "evaluate": {"benchmarks": {"same": {**CHAIN, "size": 8, "seed": 2}}, "samples": 4},
    "compare": {"reference": "clip_higher", "primary": {"metric": "avg@n", "family": ["qae.K0.4", "qae.K0.8", "base"]}},
}


def changed(**changes: Any) -> dict[str, Any]:
    """The study with dotted keys replaced: ``changed(**{"train.lr": 1e-3})``; a value of ``...`` removes the key."""
    study = copy.deepcopy(STUDY)
    for place, value in changes.items():
        *path, last = place.split(".")
        node = study
        for key in path:
            node = node.setdefault(key, {})
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return study
