"""docs/benchmarks.md says what the benchmarks' files say, and its example is a study's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from seedwise.reading import parse
from seedwise.study import Forcing
from seedwise.tasks.sources import GymSource, HubSource, shipped, source


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_every_benchmark_is_on_the_page_with_its_commit_and_size(page: str) -> None:
    lines = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", page, re.MULTILINE))
    assert set(shipped()) <= set(lines)
    for name in shipped():
        found = source(name)
        if isinstance(found, HubSource):
            assert f"| {found.revision[:7]} |" in lines[name]
            assert lines[name].rsplit("|", 1)[1].strip() == f"{found.size:,}"
            assert lines[name].split("|")[2].strip() == (found.split or "its only one")
        if isinstance(found, GymSource) and not found.params:
            assert lines[name].strip() == "the generator's defaults"


def test_the_example_is_a_valid_part_of_a_study(page: str) -> None:
    example, forcing = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert Forcing.model_validate(yaml.safe_load(forcing)["evaluate"]["forcing"]).continuations == 4
    study = parse(
        {
            "study": "example",
            "models": {"embedded": {"kind": "embedded"}},
            "seeds": [0],
            "methods": {"clip_higher": {"preset": "clip_higher"}},
            "compare": {"reference": "clip_higher", "primary": {"metric": "avg@n", "family": ["base"]}},
            **yaml.safe_load(example),
        }
    )
    assert study.evaluate.samples_of("zebra") == 16
    assert study.train_data.task == "benchmark"
