"""The one model of what we show: a document of blocks in, for any writer to write.

A view makes a document from typed results; a writer makes text, Markdown, CSV, JSON or a page from it. Nothing in it is
in a language yet: texts may be messages, which a writer translates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from gpuledger.present.sheet import Sheet
from gpuledger.present.terminal import Terminal

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

Tell = Callable[[str], str]
"""Says a message in the reader's language; other text as it is."""


class Medium(Enum):
    """Where a block is to be seen, if not everywhere."""

    TEXT = "a terminal"
    MARKDOWN = "a Markdown document"
    PAGE = "a page"


@dataclass(frozen=True, slots=True)
class Opening:
    """What the document is about: the name of a profile or a job, what it is, and more facts about it."""

    name: str
    headline: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer, in a sentence or two."""

    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows; level 1 is the document's."""

    text: str
    level: int = 2
    short: str = ""
    """For a page's list of sections, where the title is long."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Points:
    """Short lines under a title of their own."""

    title: str
    items: tuple[str, ...]
    is_section: bool = False
    """Whether they are a section of their own on a page."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences that close a document, each on a line of its own."""

    items: tuple[str, ...]
    margin: int = 2
    """How far lines are set in after the first."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """A term and what it means, line by line, under a title."""

    title: str
    entries: tuple[tuple[str, str], ...]


class SheetTitle(Enum):
    """What stands over a table in text."""

    NONE = "nothing: a heading, or its first column, says it"
    BARE = "its title"
    NAMED = "its title, and its name in JSON"


@dataclass(frozen=True, slots=True)
class SheetBlock:
    """A table."""

    sheet: Sheet
    title: SheetTitle = SheetTitle.NONE
    tells_hidden: bool = False
    """Whether it says itself which columns a narrow terminal has no room for; else the group does, once for all."""


@dataclass(frozen=True, slots=True)
class ShellCommands:
    """Commands to paste into a shell."""

    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart: on a page only, drawn when the language is known."""

    name: str
    draw: Callable[[Tell], Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Something that is drawn with letters, such as bars or a map: its view knows how."""

    text: Callable[[Terminal, Tell], str]
    markdown: Callable[[Tell], str]


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks that one medium shows and the others do not."""

    medium: Medium
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that belong together: what their tables have no room for is said once, at the end."""

    blocks: tuple[Block, ...]


Block = (
    Opening
    | Conclusion
    | Heading
    | Paragraph
    | Points
    | Remarks
    | Definitions
    | SheetBlock
    | ShellCommands
    | Picture
    | Drawn
    | Only
    | Group
)


@dataclass(frozen=True, slots=True)
class Document:
    """One answer, for every format. Each part is made when a writer asks for it."""

    blocks: Callable[[], tuple[Block, ...]]
    """What people read in a terminal and in Markdown."""
    data: Callable[[], Mapping[str, Any]]
    """What programs read: the versioned JSON document."""
    sheets: Callable[[], tuple[Sheet, ...]]
    """What spreadsheets read."""
    remarks: tuple[str, ...] = ()
    """What is to be said beside CSV, which has no place for it."""
    page: Callable[[Reader], Page] | None = None
    """The page, for a reader; None where there is none."""
