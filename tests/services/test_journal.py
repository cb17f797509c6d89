"""The journal of a run: names that MLflow takes, lines that concurrent or killed writers cannot spoil."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric_name, _validate_tag_name

from seedwise.trainer.journal import MAX_NAME, append, original_name, parse, safe_name
from seedwise.trainer.progress import advanced, unread, whole_lines


@given(st.text(max_size=30))
@example("pass@16")
@example("lr=0.1 (%)")
@example("../x")
@example("a//b")
@example("/a/")
@example("a:b::c:")
@example("")
@example(".")
@example("..")
@example("κ_low\n")
def test_names_are_allowed_by_mlflow_and_can_be_read_back(name: str):
    safe = safe_name(name)
    assert original_name(safe) == name  # so different names stay different
    _validate_metric_name(safe)
    _validate_tag_name(f"seedwise.undefined.{safe}")


def test_names_stay_readable():
    assert safe_name("same/avg@16") == "same/avg:at:16"
    assert safe_name("lr=0.1") == "lr:eq:0.1"
    assert safe_name("entropy_nats") == "entropy_nats"


def test_names_that_cannot_be_kept_are_refused():
    safe_name("x" * MAX_NAME)
    with pytest.raises(ValueError, match="takes 231 characters, 230 are allowed: shorten it"):
        safe_name("x" * (MAX_NAME + 1))
    for text in ("a:b", "a:nothing:b", "a:ux:"):
        with pytest.raises(ValueError, match="name"):
            original_name(text)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"event": "metric", "step": 1}, "event: .*'metrics'"),
        ({"event": "metrics", "step": -1, "values": {}}, "metrics.step: .*greater than or equal to 0, got -1"),
        ({"event": "metrics", "step": 1, "values": {"loss": "low"}}, "metrics.values.loss.*got 'low'"),
        ({"event": "metrics", "step": 1, "values": {"loss": 10**400}}, "valid number, got 1000+[.][.][.]$"),
        ({"event": "artifact", "path": "../../secret"}, "must lie inside the run folder"),
        ({"event": "end", "status": "DONE"}, "end.status"),
    ],
)
def test_what_is_no_event_is_refused_and_not_written(tmp_path: Path, record: dict, said: str):
    with pytest.raises(ValueError, match=said):
        append(tmp_path / "tracking.jsonl", record)
    assert not (tmp_path / "tracking.jsonl").exists()


def test_the_file_is_plain_json_with_nan_and_infinity_as_text(tmp_path: Path):
    path = tmp_path / "tracking.jsonl"
    append(path, {"event": "metrics", "step": 1, "values": {"a": float("nan"), "b": float("-inf"), "c": True}})
    record = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["values"] == {"a": "NaN", "b": "-Infinity", "c": 1.0}
    (event,), damaged = parse(path.read_bytes())
    assert (event.values["b"], damaged) == (float("-inf"), 0)


def test_a_line_torn_by_a_kill_costs_only_itself(tmp_path: Path):
    path = tmp_path / "tracking.jsonl"
    append(path, {"event": "metrics", "step": 1, "values": {"a": 1}})
    with path.open("ab") as file:
        file.write(b'{"event":"metr')
    torn = path.read_bytes()
    assert len(parse(whole_lines(torn))[0]) == 1  # the torn line may still be on its way
    append(path, {"event": "end"})
    events, damaged = parse(path.read_bytes())
    assert ([event.event for event in events], damaged) == (["metrics", "end"], 1)


def test_concurrent_writers_do_not_mix_their_lines(tmp_path: Path):
    path = tmp_path / "tracking.jsonl"
    program = (
        "import sys; from seedwise.trainer.journal import append\n"
        f"for step in range(100): append({str(path)!r}, {{'event': 'metrics', 'step': step, 'values': "
        "{sys.argv[1] * 100: step}})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, letter]) for letter in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    events, damaged = parse(path.read_bytes())
    assert (len(events), damaged) == (300, 0)


def test_appending_imports_no_mlflow():
    program = "import sys, seedwise.trainer.mirror; sys.exit('mlflow' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_rewritten_journal_or_a_repeated_step_is_not_a_continuation(tmp_path: Path):
    path = tmp_path / "tracking.jsonl"
    append(path, {"event": "metrics", "step": 1, "time": 5.0, "values": {"a": 1}})
    first = path.read_bytes()
    cursor = advanced("id", None, {"journal": first}, parse(first)[0])
    assert unread(cursor, {"journal": first}) == []
    append(path, {"event": "metrics", "step": 1, "values": {"b": 1}})  # another metric of the same step
    longer = path.read_bytes()
    assert len(unread(cursor, {"journal": longer}) or []) == 1
    assert unread(cursor, {"journal": longer.replace(b"5.0", b"6.0")}) is None
    assert unread(cursor, {"journal": b""}) is None
    append(path, {"event": "metrics", "step": 1, "values": {"a": 2}})
    assert unread(cursor, {"journal": path.read_bytes()}) is None
