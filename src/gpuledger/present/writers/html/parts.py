"""What a page is made of: sections of parts, each a plain value with its texts in the reader's language.

A part says what is to be shown; `templates/parts.j2` has a macro for each `kind`. Text that came from a profile is
put in as it is: the templates escape every value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from gpuledger.messages import translated
from gpuledger.present.charts.svg import Picture

TALL: Final = 28

Tell = Callable[[str], str]
"""Says a message in the reader's language."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a page may hold of what a profile has without limit."""

    rows: int
    """Of the longest table."""
    letters: int
    """Of one name."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a page: the language, how much room there is, and how the page is made again."""

    language: str
    room: Room
    command: str
    version: str
    """Of gpuledger."""

    def tell(self, text: str) -> str:
        """A message in the reader's language; other text as it is."""
        return translated(text, self.language)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Short lines under a title of their own."""

    kind: ClassVar[str] = "listing"
    title: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands where something would be that the profile cannot tell."""

    kind: ClassVar[str] = "unknown"
    text: str


@dataclass(frozen=True, slots=True)
class Head:
    """The heading of a column."""

    text: str
    number: bool
    names: bool = False
    """Whether the column holds names that are cut already, so that they need not be broken."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `value` is the exact number, to sort by and to compare with the JSON."""

    text: str
    value: str = ""
    whole: str = ""
    """The whole of a name that is shortened in `text`."""
    share: float | None = None
    """Drawn as a bar under the text."""
    tone: str = ""
    """A swatch before the text."""
    badge: str = ""
    """good, warn or bad: a verdict."""
    depth: int = 0
    """How far it is set in, in a tree."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Rows of `foot` stay at the bottom however it is sorted."""

    kind: ClassVar[str] = "table"
    caption: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    foot: tuple[tuple[Cell, ...], ...] = ()
    sorts: bool = True
    filters: bool = False
    name: str = ""
    """What the element is called, for links and tests."""
    quiet: bool = False
    """Whether the caption is for screen readers only, as a heading says the same."""

    @property
    def tall(self) -> bool:
        """Whether it has so many rows that it scrolls in a box of its own."""
        return len(self.rows) > TALL


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its legend, and a sentence under it."""

    kind: ClassVar[str] = "chart"
    picture: Picture
    caption: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class StepStrip:
    """The strip of steps with the panel that a click fills; without scripts, what stands in `still` is all there is."""

    kind: ClassVar[str] = "strip"
    chart: Chart
    label: str
    still: Table
    json: str


@dataclass(frozen=True, slots=True)
class Card:
    """A finding."""

    code: str
    claim: str
    saving: str
    share: str
    facts: tuple[tuple[str, str], ...]
    evidence: tuple[str, ...]
    command: str
    saving_ns: int
    saving_ns_per_step: int | None
    explained: str
    """Our own page about the code as HTML; empty where another card has it."""
    elsewhere: str = ""
    """The code's id on the page, where another card explains it."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Findings, the most to gain first."""

    kind: ClassVar[str] = "cards"
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy."""

    kind: ClassVar[str] = "command"
    text: str


Part = Text | Heading | Listing | Unknown | Table | Chart | StepStrip | Cards | Command


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at a glance."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer. `name` is the id that links lead to."""

    name: str
    title: str
    parts: tuple[Part, ...]
    short: str = ""
    """For the list of sections, where the title is long."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    name: str
    headline: str
    verdict: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
