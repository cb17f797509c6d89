"""Documents about methods: the page made from the classes is fresh and whole, the diff that adds a method applies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import yaml
from algos.made import ALL_PRESETS
from jsonschema import Draft202012Validator
from pydantic import Field
from typer.testing import CliRunner

from seedwise import catalogue, reference
from seedwise.algos.algorithm import Algorithm
from seedwise.algos.part import Part
from seedwise.algos.presets import PRESETS
from seedwise.cli import app
from seedwise.explain import algorithm_of
from seedwise.points import points
from seedwise.study import Study, StudyError

CLASSES = [part for members in catalogue.axes().values() for part in members]


def test_the_page_is_fresh(repository):
    assert reference.write(repository / "docs", check=True) == [], "run `seedwise docs`"


def test_a_stale_page_is_named_and_written(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    reference.write(docs)
    (docs / "methods.md").write_text("# Methods of last year\n")
    assert reference.write(docs, check=True) == [docs / "methods.md"]
    assert (docs / "methods.md").read_text() == "# Methods of last year\n"
    assert reference.write(docs) == [docs / "methods.md"]
    assert reference.write(docs, check=True) == []


def test_one_command_writes_and_checks_both_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("config", "docs"):
        (tmp_path / folder).mkdir()
    assert CliRunner().invoke(app, ["docs"]).exit_code == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == [
        "config/README.md",
        "config/schema.json",
        "docs/methods.md",
        "docs/metrics.md",
    ]
    assert CliRunner().invoke(app, ["docs", "--check"]).exit_code == 0
    (tmp_path / "docs" / "methods.md").write_text("")
    assert str(CliRunner().invoke(app, ["docs", "--check"]).exception) == "docs/methods.md: stale: run seedwise docs"


def test_the_text_does_not_depend_on_the_process():
    code = "import sys; from seedwise import catalogue; sys.stdout.write(catalogue.page())"
    other = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77"}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=other).stdout == (
        catalogue.page()
    )


def test_every_part_stands_on_the_page_once():
    page = catalogue.page()
    for part in CLASSES:
        assert page.count(f"- class: `{part.__module__}.{part.__name__}`\n") == 1, part
    assert [part.__name__ for part in catalogue.axes()["made by other settings"]] == ["KLPenalty"]
    assert next(iter(catalogue.axes())) == "baseline"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_stands_with_an_expression_that_gives_it(name):
    section = catalogue.page().partition(f"### preset {name}\n")[2].partition("\n### ")[0]
    expression = re.search(r"```yaml\n(.*)\n```", section)
    required = {
        key: json.loads(value) for key, value in re.findall(r"`(\w+)=([\d.]+)`", section.partition("Expression")[2])
    }
    assert expression is not None
    assert algorithm_of(expression[1]) == (PRESETS[name](**required) if required else ALL_PRESETS[name])


def test_an_expression_holds_every_setting_that_is_not_default():
    algorithm = Algorithm.model_validate(
        {
            "baseline": [{"kind": "fixed_baseline", "b": 0.5}, {"kind": "divide_by_group_std", "eps": 1e-4}],
            "credit": {"kind": "entropic", "kappa": 0.7, "decay_steps": 9},
            "objective": {"surrogate": {"kind": "clipped", "dual": 3}, "kl": 0.01},
            "penalty": {"max_length": 10, "cache": 2},
        }
    )
    text = catalogue.expression(algorithm)
    assert algorithm_of(text) == algorithm
    assert "b: 0.5" in text
    assert "eps: 0.0001" in text
    assert "high" not in text


class Made(Part):
    """Do something (Someone, arXiv:2401.00001, equation 2).

    The rule is ``x + y``.

    level, share: where it begins, in nats,
        and where it ends.  mode: ``a`` or ``b``.
    """

    experimental: ClassVar[bool] = True
    kind: Literal["made"] = "made"
    level: float = Field(default=1e-6, gt=0, le=2)
    share: int | None = Field(default=None, ge=1)
    mode: Literal["a", "b"] = "a"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"ids"} if self.mode == "b" else ())

    @property
    def row_local(self) -> bool:
        return False


def test_what_is_said_of_a_part(monkeypatch):
    monkeypatch.setattr(catalogue, "axes", lambda: {"credit": [Made]})
    section = catalogue.page().partition("## credit\n\n")[2]
    assert section == (
        "### made\n\n"
        "Do something (Someone, arXiv:2401.00001, equation 2).\n\n"
        "The rule is `x + y`.\n\n"
        "- `level, share`: where it begins, in nats, and where it ends.\n"
        "- `mode`: `a` or `b`.\n\n"
        "| field | type | default | bounds |\n"
        "|---|---|---|---|\n"
        "| `level` | number | `1e-06` | > 0, <= 2 |\n"
        "| `share` | whole number or `null` | `null` | >= 1 |\n"
        "| `mode` | `a` or `b` | `a` |  |\n\n"
        "- needs: nothing; with `mode: b` `ids`\n"
        "- sees: group\n"
        "- row local: no\n"
        "- status: experimental\n"
        "- source: [arXiv:2401.00001](https://arxiv.org/abs/2401.00001), equation 2\n"
        f"- class: `{__name__}.Made`\n"
    )


@pytest.fixture(scope="module")
def methods() -> Draft202012Validator:
    """What may stand under a method of a study."""
    whole = json.loads(reference.schema())
    return Draft202012Validator({"$defs": whole["$defs"], **whole["properties"]["methods"]["additionalProperties"]})


@pytest.mark.parametrize(
    "entry",
    [
        {"preset": "qae", "K": [0.2, 0.4]},
        {"preset": "eapo", "kappa": ["log 2", "log 4"], "baseline": [{"kind": "leave_one_out"}]},
        {"preset": "dapo", "length": 64, "cache": 16, "sampler": {"kind": "dynamic", "surplus": ["keep", "discard"]}},
        {"preset": "dapo", "length": 64, "penalty": None},
        {"preset": "gspo", "objective": {"kl": 0.01}, "penalty": {"kind": "overlong_filter"}},
        {"baseline": [{"kind": "scheduled_quantile", "schedule": 0.4}, {"kind": "divide_by_group_std"}]},
        {"baseline": [{"kind": "scheduled_quantile", "schedule": {"kind": "adaptive", "signal": "gradient_variance"}}]},
        {"baseline": [{"kind": "group_mean"}], "penalty": {"max_length": 64, "cache": [8, 16]}},
    ],
    ids=str,
)
def test_the_schema_takes_what_a_study_takes(methods, entry):
    assert [error.message for error in methods.iter_errors(entry)] == []
    assert list(points("method", entry, "study"))


@pytest.mark.parametrize(
    "entry",
    [
        {"preset": "qea"},
        {"preset": "qae", "k": 0.4},
        {"preset": "dapo"},
        {"preset": "qae", "K": []},
        {"preset": "qae", "sampler": {"kind": "dynamo"}},
        {"preset": "qae", "interpolation": "cubic"},
        {"baseline": [{"kind": "quantile", "K": 1.5}]},
        {"credit": {"kind": "entropic"}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_a_study_refuses(methods, entry):
    assert not methods.is_valid(entry)
    with pytest.raises(StudyError, match="methods.method"):
        list(points("method", entry, "study"))


@pytest.mark.parametrize("study", sorted(Path("config").glob("*.yaml")), ids=lambda path: path.name)
def test_the_schema_takes_the_studies_that_are_shipped(methods, study, repository):
    for entry in yaml.safe_load((repository / study).read_text())["methods"].values():
        assert [error.message for error in methods.iter_errors(entry)] == []


def test_what_is_experimental_is_marked_in_the_schema_and_on_the_pages():
    marked = {name for name, made in json.loads(reference.schema())["$defs"].items() if "x-status" in made}
    classes = {part.__name__ for part in CLASSES if getattr(part, "experimental", False)}
    assert {"Hapo", "Rlrt", "NetworkBaseline", "AdaptiveK"} <= classes
    assert not {"Ucas", "Less", "OverlongFilter", "Quantile"} & classes
    presets = {name for name in PRESETS if any(type(part).__name__ in classes for part in ALL_PRESETS[name].parts)}
    assert {"hapo", "rlrt", "qae_adaptive"} <= presets
    assert marked == classes | {f"preset {name}" for name in presets}
    for name in PRESETS:
        section = catalogue.page().partition(f"### preset {name}\n")[2].partition("\n### ")[0]
        assert ("Status: experimental" in section) == (name in presets), name
        (row,) = re.findall(rf"^\| `{name}` \|.*$", reference.readme(), re.MULTILINE)
        assert row.endswith("| experimental |" if name in presets else "| stable |")


def test_no_part_shares_its_name_with_a_section_of_the_study():
    # both stand under $defs of the schema
    assert not {part.__name__ for part in CLASSES} & set(Study.model_json_schema()["$defs"])


@pytest.fixture(scope="module")
def diff(repository) -> str:
    text = (repository / "docs" / "adding-a-method.md").read_text()
    blocks = re.findall(r"^```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    return blocks[0]


def test_the_methods_on_the_page_are_methods(repository):
    text = (repository / "docs" / "adding-a-method.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name, entry in yaml.safe_load(block)["methods"].items():
        assert [point.name for point in points(name, entry, "page")] == [name]


def test_the_diff_is_short(diff):
    changed = [line for line in diff.splitlines() if re.match(r"[+-](?!--|\+\+)", line)]
    assert len(changed) <= 30


def test_the_diff_adds_a_method(diff, repository, tmp_path):
    for folder in ("src", "tests/algos"):
        shutil.copytree(repository / folder, tmp_path / folder)
    subprocess.run(
        ["git", "apply", "-"],
        input=diff,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )
    command = [sys.executable, "-m", "seedwise.cli", "explain", "midrange", "--rewards", "[1, 0, 0, 0]", "--json"]
    environment = {"PYTHONPATH": str(tmp_path / "src")}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    # best 1, worst 0: the middle is 1/2
    assert (run.stderr, json.loads(run.stdout)) == (
        "",
        {"baseline": 0.5, "advantages": [0.5, -0.5, -0.5, -0.5], "token_advantages": None},
    )
    assert '("midrange", ' in (tmp_path / "tests/algos/test_presets.py").read_text()
