"""The tables of docs/skipping.md are those of benchmarks/results.json."""

from __future__ import annotations

import sys


def test_the_tables_of_the_document_are_those_of_the_results(repository, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(repository), *sys.path])
    from benchmarks.tables import tables

    assert tables() in (repository / "docs" / "skipping.md").read_text(encoding="utf-8")
