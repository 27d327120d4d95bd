"""Pages for tests: a report as HTML, read back with the standard library's parser; exports with any names."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gpuledger.present.writers import write
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.verbs.profiled_report import Report
from gpuledger.verbs.report import build_report
from support.profiles.nsys_exports import TID, call, insert, kernel, push

VOID = {"meta", "link", "input", "br", "img", "hr"}

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}}{% raw %}",
    "\u202egnp.exe\u200f",
    "esc\x1b[31mred\x07\x00\x85",
    "</title></style><svg onload=alert(2)>",
    "' onmouseover=alert(3) x='\" onclick=\"alert(4)",
    "<!--<script>",
    "`code` & &lt;b&gt; `",
)
"""Names that would run, hide or turn something if they were not shown as text."""


@dataclass
class Element:
    """One element."""

    tag: str
    attrs: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """With the spaces between numbers and units as they are in other outputs."""
        text = "".join(each if isinstance(each, str) else each.text for each in self.children)
        return text if self.tag == "script" else text.replace("\xa0", " ")

    def walk(self) -> Iterator[Element]:
        """All elements inside it, in the order of the page."""
        ahead: list[Element | str] = self.children[::-1]
        while ahead:
            each = ahead.pop()
            if isinstance(each, Element):
                yield each
                ahead += each.children[::-1]

    def all(self, *tags: str) -> list[Element]:
        return [each for each in self.walk() if each.tag in tags]

    def one(self, name: str) -> Element:
        (found,) = [each for each in self.walk() if each.attrs.get("id") == name]
        return found


class _Reader(HTMLParser):
    """Builds the tree, and fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        assert len(made.attrs) == len(attrs), f"an attribute of <{tag}> is there twice"
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(page: str) -> Element:
    """The tree of a page."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def held(page: Element) -> dict[str, Any]:
    """The document inside a page."""
    found: dict[str, Any] = json.loads(page.one("document").text)
    return found


def values(table: Element, column: int, *, foot: bool = False) -> list[float]:
    """The exact numbers of one column."""
    (body,) = table.all("tfoot" if foot else "tbody")
    cells = [row.all("td", "th")[column] for row in body.all("tr")]
    return [float(cell.attrs["data-value"]) for cell in cells if "data-value" in cell.attrs]


def reported(path: Path, wanted: Selection | None = None) -> Report:
    """A report of a profile."""
    return build_report(open_trace(path), path.name, wanted or Selection())


def page_of(report: Report, language: str = "en") -> str:
    """Its page."""
    return write(report.document(), "html", language=language, command="gpuledger report run.sqlite")


def named_export(path: Path, names: Sequence[str], *, steps: int = 4, ranges: Sequence[str] = ()) -> Path:
    """An export of some steps, each a range `step` around one kernel of each name, in the ranges given."""
    launched, kernels, around = [], [], []
    at, number = 1_000, 1
    for _ in range(steps):
        begun = at
        for code, _ in enumerate(names, 10):
            launched.append(call(at, at + 500, correlationId=number))
            kernels.append(kernel(at + 700, at + 1_700, correlationId=number, demangledName=code, shortName=code))
            at, number = at + 2_000, number + 1
        around.append(push(begun - 100, at, "step"))
        around += [push(begun - 50 + deep, at - 10 - deep, name) for deep, name in enumerate(ranges)]
    with sqlite3.connect(path) as database:
        texts = [(2, "cudaLaunchKernel_v7000"), *enumerate(names, 10)]
        insert(database, "StringIds", [{"id": code, "value": text} for code, text in texts])
        insert(database, "CUPTI_ACTIVITY_KIND_RUNTIME", [{**each, "globalTid": TID} for each in launched])
        insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", kernels)
        insert(database, "NVTX_EVENTS", around)
    database.close()
    return path


Unpacked = Callable[[str], Path]
