"""The record of an untrained model's folder covers every file of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from study_file import changed

from seedwise import stages
from seedwise.grid import expand
from seedwise.identity import file_digest
from seedwise.layout import Layout
from seedwise.models.fingerprint import EMBEDDED
from seedwise.reading import parse


def test_a_chat_template_is_part_of_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    shutil.copytree(EMBEDDED, tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    study = changed(
        **{"models.embedded": {"kind": "folder", "path": str(tmp_path / "model"), "template": "{compact}="}}
    )
    layout = Layout(expand(parse(study)), tmp_path / "results")
    (name,) = layout.grid.models
    stages.base(layout, name)
    stages.base(layout, name)  # the record does not count itself
    folder = layout.model(name)
    written = {path.name: file_digest(path) for path in folder.iterdir() if path.name != "files.json"}
    assert json.loads((folder / "files.json").read_text())["sha256"] == written
    assert "chat_template.jinja" in written
