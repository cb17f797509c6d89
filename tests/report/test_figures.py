from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedwise.report.figures import learning, sparsity
from seedwise.report.style import SETTINGS, apart, inline, palette, save, svg


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12))
def test_labels_keep_their_order_and_their_distance(values):
    placed = apart(values, 0.5)
    pairs = sorted(zip(values, placed, strict=True))
    gaps = [b - a for (_, a), (_, b) in pairwise(pairs)]
    assert all(gap >= 0.5 - 1e-9 for gap in gaps)


def test_labels_that_do_not_touch_stay():
    assert apart([3.0, 1.0, 2.0], 0.5) == [3.0, 1.0, 2.0]
    # two at 0 move half the distance each
    assert apart([0.0, 0.0], 0.5) == [-0.25, 0.25]


def test_one_hue_per_family_of_methods():
    colours = palette(["base", "ref", "qae.K0.2", "qae.K0.4", "eapo"], "ref")
    assert colours["qae.K0.2"] == colours["qae.K0.4"] != colours["eapo"]
    assert len({colours["base"], colours["ref"], colours["eapo"]}) == 3


def curves(name, values):
    return pd.DataFrame(
        [
            {"model": "m", "setting": "G8", "method": "a", "seed": seed, "step": step, "name": name, "value": value}
            for seed, line in enumerate(values)
            for step, value in enumerate(line, start=1)
        ]
    )


def test_mean_line_ends_where_a_seed_stops():
    fig = learning(curves("reward", [[0.1, 0.2, 0.3], [0.3, 0.4]]), "ref")
    *seeds, mean = fig.axes[0].lines
    assert [len(line.get_xdata()) for line in seeds] == [3, 2]
    assert mean.get_ydata() == pytest.approx([0.2, 0.3])


def test_shares_add_up_to_one():
    shares = [("positive_advantage_share", 0.2), ("zero_advantage_share", 0.7), ("negative_advantage_share", 0.1)]
    fig = sparsity(pd.concat([curves(name, [[value, value]]) for name, value in shares]), "a")
    tops = [band.get_paths()[0].vertices[:, 1].max() for band in fig.axes[0].collections]
    assert tops == pytest.approx([0.2, 0.9, 1.0])


def test_names_are_not_read_as_formulas_or_markup():
    fig = learning(curves("reward", [[0.1, 0.2]]).assign(method="$x^2$ <b>"), "ref")
    text = svg(fig)
    assert "$x^2$ &lt;b&gt;" in text
    assert 'id="f-' in inline(text, "f", "caption")
    assert "#1b1f24" not in inline(text, "f", "caption")


def test_pdf_embeds_truetype_fonts_and_is_the_same_every_time(monkeypatch, tmp_path):
    monkeypatch.setitem(SETTINGS, "pdf.fonttype", 42)
    written = []
    for name in ("first", "second"):
        save(learning(curves("reward", [[0.1, 0.2]]), "ref"), "f", tmp_path / name)
        written.append((tmp_path / name / "f.pdf").read_bytes())
    assert written[0] == written[1]
    assert b"/FontFile2" in written[0]
