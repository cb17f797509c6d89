from __future__ import annotations

import re
from html.parser import HTMLParser

import pandas as pd
import synthetic
from synthetic import build

EVIL = "<script>alert('m')</script>"


class Tags(HTMLParser):
    """Every tag with its attributes, and whether all that was opened was closed."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_page_is_self_contained(rendered):
    text = (rendered / "report.html").read_text()
    tags = parsed(text)
    assert not {"script", "link", "iframe", "img", "object", "form"} & set(tags.tags)
    targets = [value for _, name, value in tags.attributes if name in ("href", "src", "xlink:href")]
    assert targets
    assert all(value.startswith("#") for value in targets)
    assert "url(http" not in text
    assert "@import" not in text
    ids = [value for _, name, value in tags.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in targets} <= set(ids)
    assert tags.tags.count("svg") == 10


def test_page_answers_in_words(rendered):
    text = (rendered / "report.html").read_text()
    assert "Which method of training with verifiable rewards gives the more accurate model?" in text
    assert re.search(r"Of 4 declared comparisons, \d (is|are) ", text)
    assert "qae.K0.4 beats clip_higher by" in text
    assert "The untrained model falls behind clip_higher by" in text
    assert re.search(r"is undecided \(difference .*seeds would detect 2 points with 80 % power\.", text)
    for value in ("5f2c9a01", "91ab23cd", "1.16.0", "chain_sum, 2,000 problems"):
        assert value in text


def test_texts_from_models_are_text(rendered):
    text = (rendered / "report.html").read_text()
    assert (
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; \\boxed{&lt;b&gt;7&lt;/b&gt;} {{ 7 * 7 }} &amp; so on" in text
    )
    assert "let me see: 3 + 4 = 7, wait, 7 - 2 = 5\nso the answer is 5" in text


def test_a_response_worked_through_is_text(rendered, study):
    text = (rendered / "report.html").read_text()
    part = text[text.index('<section id="resampling">') : text.index('<section id="runs">')]
    # the response whose windows differ more, of the second run
    assert study["runs"]["run"].iloc[1] in part
    assert study["runs"]["run"].iloc[0] not in part
    assert "&lt;script&gt;alert(&#39;w&#39;)&lt;/script&gt; 3 + 4 = <mark>{{ 7 }}</mark>" in part
    assert "&lt;i&gt;3 + 4 - 2&lt;/i&gt;?" in part
    assert part.count("&lt;/pre&gt;&lt;b&gt;wait 0&lt;/b&gt; &amp; so on") == 2
    assert "wait 3" not in part  # three of four are shown
    assert "Tokens 701 to 707, mean entropy 1.50 nats. Cut before it, 3 of 4 continuations end correct" in part
    assert "mean entropy 0.10 nats. Cut before it, 1 of 4 continuations end correct" in part


def test_success_along_a_response_and_words_are_on_the_page(rendered):
    text = (rendered / "report.html").read_text()
    assert 'id="figure-course"' in text
    assert "Success along a response, with 95 % interval" in text
    # three runs of 8 of 60 words of the tail and 10 of 200 words: (24/60) / (30/600)
    assert "try 8.0 (24 of 30)" in text
    assert "6 of 8 problems wanted in each run" in text


def test_names_from_a_study_are_text_in_page_figures_and_tables(small_study, tmp_path):
    def renamed(frame):
        return frame.replace({"method": {"qae.K0.4": EVIL}}) if "method" in frame else frame

    facts = synthetic.FACTS | {
        "study": EVIL, "question": EVIL, "seed_varies": (EVIL,), "versions": {EVIL: EVIL},
        "compare": synthetic.Comparison("clip_higher", "avg@n", (EVIL, "base"), ("K",), 0.02, 0.05),
    }  # fmt: skip
    page = build({name: renamed(frame) for name, frame in small_study.items()}, tmp_path, facts)
    text = page.read_text()
    assert "script" not in parsed(text).tags
    assert "&lt;script&gt;" in text
    for path in (tmp_path / "figures").glob("*.svg"):
        assert "<script" not in path.read_text()
    assert "<script" not in (tmp_path / "tables" / "main.md").read_text().replace("\\<", "")


def test_same_input_gives_the_same_bytes(study, rendered, tmp_path):
    again = build({name: frame.copy() for name, frame in study.items()}, tmp_path).parent
    files = sorted(path.relative_to(rendered) for path in rendered.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    different = [str(name) for name in files if (rendered / name).read_bytes() != (again / name).read_bytes()]
    assert different == []


def test_figures_carry_no_date_and_no_randomness(rendered):
    names = {path.name for path in (rendered / "figures").iterdir()}
    assert {"forest.svg", "learning.pdf", "entropy.svg", "pass_at_k.svg", "sparsity.svg", "trend_K.svg"} <= names
    for path in (rendered / "figures").iterdir():
        data = path.read_bytes()
        assert b"CreationDate" not in data
        assert b"dc:date" not in data


def test_study_without_curves_or_samples_still_has_a_page(small_study, tmp_path):
    bare = small_study | {"metrics": small_study["metrics"].iloc[:0], "samples": pd.DataFrame(), "windows": None}
    declared = synthetic.Comparison("clip_higher", "avg@n", ("qae.K0.4",), (), 0.02, 0.05)
    text = build(bare, tmp_path, synthetic.FACTS | {"compare": declared}).read_text()
    assert "reward was not recorded" in text
    assert "advantage shares were not recorded" in text
    assert "Sample answers" not in text
