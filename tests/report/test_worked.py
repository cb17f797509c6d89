"""One response worked through, and the figure of success along responses."""

from __future__ import annotations

import pandas as pd
import pytest
import synthetic

from seedwise.report.courses import courses
from seedwise.report.style import svg
from seedwise.report.worked import AFTER, BEFORE, worked


def test_the_response_whose_windows_differ_most():
    rows = synthetic.continued(synthetic.runs())
    found = worked(rows)
    assert found.origin == f"{synthetic.runs()['run'].iloc[1]}, problem same-003, sample 5"
    high, low = found.branches
    assert (high.entropy - low.entropy, high.right, low.right, low.of) == (pytest.approx(1.4), 3, 1, 4)
    assert [verdict for verdict, _ in low.after] == ["correct", "wrong", "wrong"]


def test_long_texts_are_cut_where_the_window_is_not():
    rows = synthetic.continued(synthetic.runs()).assign(before="a" * 10 + "b" * BEFORE, after="c" * AFTER + "d" * 7)
    high, _ = worked(rows).branches
    assert high.before == "[10 more characters]\n" + "b" * BEFORE
    assert high.after[0][1] == "c" * AFTER + "\n[7 more characters]"


def test_nothing_to_show():
    assert worked(None) is None
    assert worked(synthetic.continued(synthetic.runs()).iloc[:0]) is None


def course(method, *points):
    about = {"model": "m", "setting": "G8", "method": method, "problems": 5, "responses": 9, "reason": None}
    names = ("outcome", "position", "reward", "low", "high")
    return [about | dict(zip(names, point, strict=True)) for point in points]


def test_a_panel_for_each_method_and_a_line_for_each_outcome():
    rows = course(
        "a", ("correct", 0.5, 0.8, 0.7, 0.9), ("correct", 0.0, 0.4, 0.3, 0.5), ("incorrect", 0.0, 0.2, None, None)
    )
    fig = courses(pd.DataFrame([*rows, *course("ref", ("correct", 0.0, 0.5, 0.4, 0.6))]), "ref")
    reference, other = fig.axes
    assert reference.get_title(loc="left") == "ref"
    right, wrong = other.get_lines()
    assert (right.get_xdata().tolist(), right.get_ydata().tolist()) == ([0.0, 0.5], [0.4, 0.8])
    assert wrong.get_ydata().tolist() == [0.2]


def test_a_figure_without_positions_says_so():
    assert "resample.positions" in svg(courses(pd.DataFrame(columns=["model", "setting", "method"]), "ref"))
