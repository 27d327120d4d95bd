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
_MANY: Final = 8
_SOME: Final = 3
_PRINTS_AS_ZERO: Final = 0.0005

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
class TimelinePlace:
    """A place on the page's timeline. Instants are told from the run's zero."""

    stretch: int
    start_ns: int
    end_ns: int


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
    place: TimelinePlace | None = None
    """Where on the timeline what the row is about is shown."""


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

    families: int | None = None
    """The column that holds families, where rows can be chosen by theirs."""

    @property
    def tall(self) -> bool:
        """Whether it has so many rows that it scrolls in a box of its own."""
        return len(self.rows) > TALL

    @property
    def searches(self) -> bool:
        """Whether rows can be searched for: where one would look for them."""
        return self.filters or len(self.rows) > _MANY

    @property
    def copies(self) -> bool:
        """Whether it can be copied as CSV: where nobody would type it."""
        return len(self.rows) >= _SOME

    @property
    def zero_rows(self) -> tuple[bool, ...]:
        """Which rows are folded away: their shares are there and all print as 0.0 %. One alone stays."""
        folded = tuple(_is_zero(row) for row in self.rows)
        return folded if 1 < sum(folded) < len(folded) else (False,) * len(folded)

    @property
    def family_names(self) -> tuple[str, ...]:
        """The families of its rows, each once, where rows can be chosen by theirs."""
        if self.families is None:
            return ()
        return tuple(dict.fromkeys(row[self.families].text for row in self.rows))


def _is_zero(row: tuple[Cell, ...]) -> bool:
    shares = [cell.share for cell in row if cell.share is not None]
    return bool(shares) and max(shares) < _PRINTS_AS_ZERO


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
    place: TimelinePlace | None = None
    """Where on the timeline it is seen."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Findings, the most to gain first."""

    kind: ClassVar[str] = "cards"
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class TopFinding:
    """A finding on the first screen."""

    code: str
    claim: str
    saving: str
    interval: str
    """From where to where the saving may lie."""
    place: TimelinePlace | None


@dataclass(frozen=True, slots=True)
class TopFindings:
    """The few findings with the most to gain, each a link to where it happens."""

    kind: ClassVar[str] = "top"
    title: str
    findings: tuple[TopFinding, ...]


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """Stretches of the run that can be zoomed, moved and searched; without scripts there is a sentence instead."""

    kind: ClassVar[str] = "timeline"
    json: str
    label: str


@dataclass(frozen=True, slots=True)
class FlamePart:
    """Trees of time that can be zoomed and searched; without scripts, the picture is all there is."""

    kind: ClassVar[str] = "flame"
    json: str
    label: str
    still: Chart | None


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy."""

    kind: ClassVar[str] = "command"
    text: str


Part = (
    Text
    | Heading
    | Listing
    | Unknown
    | Table
    | Chart
    | StepStrip
    | Cards
    | TopFindings
    | TimelinePart
    | FlamePart
    | Command
)


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
    opening: tuple[Part, ...] = ()
    """What stands on the first screen, before the sections."""
