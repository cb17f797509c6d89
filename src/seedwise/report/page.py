"""The report: one self-contained HTML file, without scripts and without network.

Everything that came from a model, a log or a study passes Jinja's autoescape; only figures drawn
here, whose texts matplotlib has escaped, are inserted as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from seedwise.report.examples import Example
from seedwise.report.facts import Facts
from seedwise.report.findings import Finding
from seedwise.report.layout import TableView
from seedwise.report.style import inline
from seedwise.report.worked import Worked

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Picture:
    """A figure of the page.  svg: as written to the figures folder."""

    name: str
    caption: str
    svg: str

    @property
    def markup(self) -> Markup:
        """The drawing as it stands in the page."""
        return Markup(inline(self.svg, self.name, str(escape(self.caption))))


@dataclass(frozen=True)
class Section:
    """A part of the page with an entry in its table of contents.  folded: tables behind the line ``fold``.

    example: one response worked through, text from a model.
    """

    anchor: str
    title: str
    lead: str = ""
    tables: Sequence[TableView] = ()
    pictures: Sequence[Picture] = ()
    folded: Sequence[TableView] = ()
    fold: str = ""
    example: Worked | None = None


def page(
    facts: Facts,
    headline: str,
    found: Sequence[Finding],
    sections: Sequence[Section],
    answers: Sequence[tuple[str, Sequence[Example]]],
) -> str:
    """HTML text of the report."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    several = len({(finding.model, finding.setting) for finding in found}) > 1
    return environment.get_template("page.html.jinja").render(
        facts=facts,
        headline=headline,
        findings=found,
        several=several,
        sections=sections,
        answers=answers,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
    )
