from __future__ import annotations

import pandas as pd
import pytest

from seedwise.report.layout import Cell, TableView, csv, latex, markdown, row
from seedwise.report.wording import known, p_phrase, percent, point_bounds, points, probability, spread

VIEW = TableView(
    "t", "a_b & <script>", (("Method", "l"), ("Score", "r")),
    (row("qae_eapo|x", Cell("1.0", "[0.5, 1.5]")), row("*win*", Cell("superior", strong=True))), ("100 % of 2_3",),
    pd.DataFrame({"method": ["=1+1", "b"], "score": [0.5, None]}),
)  # fmt: skip


def test_markdown_escapes_only_what_would_be_markup():
    text = markdown([VIEW])
    assert "| qae_eapo\\|x | 1.0 [0.5, 1.5] |" in text
    assert "| \\*win\\* | **superior** |" in text
    assert "a_b & \\<script>" in text
    assert "|:---|---:|" in text


@pytest.mark.parametrize(
    ("text", "shown"), [("[a](javascript:b)", "[a\\](javascript:b)"), ("_x_", "\\_x\\_"), ("&lt;", "\\&lt;")]
)
def test_markdown_links_emphasis_and_entities_stay_text(text, shown):
    assert shown in markdown([TableView("t", text, (), (), (), pd.DataFrame())])


def test_latex_escapes_names():
    text = latex([VIEW])
    assert "qae\\_eapo|x & 1.0 {[}0.5, 1.5{]} \\\\" in text
    assert "\\textbf{superior}" in text
    assert "a\\_b \\& \\textless{}script\\textgreater{}" in text
    assert "\\begin{tabular}{lr}" in text


def test_latex_of_every_special_character():
    view = TableView("t", "\\ { } $ & # % _ ^ ~", (), (), (), pd.DataFrame())
    assert r"\textbackslash{} \{ \} \$ \& \# \% \_ \textasciicircum{} \textasciitilde{}" in latex([view])


def test_csv_is_unrounded_empty_where_undefined_and_inert():
    assert csv([VIEW]) == "method,score\n'=1+1,0.5\nb,\n"


def test_numbers_in_words():
    assert [probability(p) for p in (0.0, 0.0009, 0.001, 0.04999, 1.0, None)] == [
        "<0.001",
        "<0.001",
        "0.001",
        "0.050",
        "1.000",
        "–",
    ]
    assert p_phrase(1e-9) == "p < 0.001"
    assert [points(d) for d in (0.0421, -0.0421, -0.00001, None)] == ["+4.2", "−4.2", "0.0", "–"]
    assert point_bounds(-0.1, 0.2) == "[−10.0, +20.0]"
    assert point_bounds(None, 0.2) == ""
    assert percent(float("nan")) == "–"
    assert spread([1.0, 2.5, float("nan")]) == "1.0 to 2.5"
    assert not known(float("nan"))
