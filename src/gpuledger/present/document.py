"""The one model of what we show: a document of blocks in, for any writer to write.

A view makes blocks from typed results; a writer makes text, Markdown, CSV, JSON or a page from them. Nothing in a block
is in a language, cut or laid out yet: its texts may be messages, which a writer translates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Sheet

if TYPE_CHECKING:
    from functools import partial

    from gpuledger.analyse.timeline.events import EventFinder, FixedStretch, Stretch
    from gpuledger.attribution.flame_trees import FlameTree
    from gpuledger.findings.finding import Finding
    from gpuledger.findings.profiled_run import ProfiledRun
    from gpuledger.ledger.books import Line
    from gpuledger.messages import Message
    from gpuledger.present.charts.svg import Picture
    from gpuledger.present.terminal import Terminal
    from gpuledger.trace.spans import Ints

Tell = Callable[[str], str]
"""Says a message in the reader's language; other text as it is."""


class Medium(Enum):
    """Where a block is to be seen, if not everywhere."""

    TEXT = "a terminal"
    MARKDOWN = "a Markdown document"
    PAGE = "a page"
    WRITTEN = "a terminal, or a Markdown document"


class Opening(Struct, frozen=True):
    """What the document is about: the name of a profile or a job, what it is, and more facts about it."""

    name: str
    headline: str
    facts: tuple[str, ...] = ()


class Conclusion(Struct, frozen=True):
    """The answer, in a sentence or two."""

    text: str


class Heading(Struct, frozen=True):
    """The title of what follows; level 1 is the document's."""

    text: str
    level: int = 2
    short: str = ""
    """For a page's list of sections, where the title is long."""


class Paragraph(Struct, frozen=True):
    """A few sentences. A page sets those with a tone apart: lead, note, or unknown for what was not measured."""

    text: str
    tone: str = ""


class Points(Struct, frozen=True):
    """Short lines under a title of their own."""

    title: str
    items: tuple[str, ...]
    is_section: bool = False
    """Whether they are a section of their own on a page."""


class Remarks(Struct, frozen=True):
    """Sentences that close a document, each on a line of its own."""

    items: tuple[str, ...]
    margin: int = 2
    """How far lines are set in after the first."""


class Definitions(Struct, frozen=True):
    """A term and what it means, line by line, under a title."""

    title: str
    entries: tuple[tuple[str, str], ...]


class SheetTitle(Enum):
    """What stands over a table in text."""

    NONE = "nothing: a heading, or its first column, says it"
    BARE = "its title"
    NAMED = "its title, and its name in JSON"


class TimelinePlace(Struct, frozen=True):
    """A place on the page's timeline. Instants are told from the run's zero."""

    stretch: int
    start_ns: int
    end_ns: int
    triggers: tuple[int, ...] = ()
    """What is marked there, beside the place itself: idle time that these set off, as `TRIGGERS` numbers them,"""
    correlations: tuple[int, ...] = ()
    """launches and their work,"""
    tone: str = ""
    """and all of a color."""


class SheetBlock(Struct, frozen=True):
    """A table, with how text shows it, and then how a page does."""

    sheet: Sheet
    title: SheetTitle = SheetTitle.NONE
    tells_hidden: bool = False
    """Whether it says itself which columns a narrow terminal has no room for; else the group does, once for all."""
    is_quiet: bool = False
    """Whether a page shows its title to screen readers only, as a heading says the same."""
    anchor: str = ""
    """What the table is called in the page, for links and tests."""
    without: tuple[str, ...] = ()
    """Keys of columns that a page leaves out."""
    is_tree: bool = False
    """Whether rows lie below their parents: a tree that is sorted is no tree."""
    families_in: str = ""
    """The key of the column of families, where rows can be searched for and chosen by theirs."""
    rest: Callable[[Sequence[Sequence[Cell]]], tuple[Cell, ...]] | None = None
    """Makes one row of those that a page has no room for, so that the table still adds up."""
    places: tuple[TimelinePlace | None, ...] = ()
    """Where on the timeline what each row is about is shown."""


class ShellCommands(Struct, frozen=True):
    """Commands to paste into a shell."""

    commands: tuple[tuple[str, ...], ...]


class FindingsForm(Enum):
    """How findings look."""

    LIST = "numbered, with what each saves; cards on a page"
    TOP = "the few on a page's first screen: claim, saving and a link each"
    POINTS = "each as a title with its evidence under it"


class ShownFinding(Struct, frozen=True):
    """A finding with what is said of it here."""

    finding: Finding
    saving: Message | None = None
    """What it saves, in words; None: nothing that could be told."""
    fix: Message | None = None
    share: float | None = None
    """What it saves, as a share of the time."""
    place: TimelinePlace | None = None


class Findings(Struct, frozen=True):
    """What to do about what was found, the most to gain first."""

    entries: tuple[ShownFinding, ...]
    form: FindingsForm = FindingsForm.LIST
    most: int | None = None
    """So many are told in text; of the others, the code."""
    is_brief: bool = False
    """Whether text leaves the evidence out."""
    names_gpu: bool = False
    """Whether a page says which GPU each is about."""
    zero_ns: int | None = None
    """What instants of examples are told from; None where ranks have many clocks, and there are none."""


class LedgerRow(Struct, frozen=True):
    """A line of the books, or a sum of lines."""

    name: str
    share: float
    time: str
    """Per step, with its unit."""
    tone: str
    """The kind of time that it is; empty for the total, which has no bar."""


class LedgerBlock(Struct, frozen=True):
    """Lines that sum to a whole: a bar each in text, a table in Markdown, the chart on a page."""

    title: str
    rows: tuple[LedgerRow, ...]
    chart: Chart
    files: tuple[tuple[str, str], ...] = ()
    """Pictures that lie beside a Markdown document: title and name."""


class Shades(Struct, frozen=True, eq=False):
    """Times as shades: a row per rank, a column per step."""

    title: str
    what: str
    ranks: Sequence[str]
    steps: Sequence[int]
    ns: Ints


class Chart(Struct, frozen=True):
    """A picture that pages show: the function that draws it, with what it is drawn from, in no language yet."""

    draw: partial[Picture]
    name: str = ""
    caption: str = ""

    def picture(self, tell: Tell) -> Picture:
        """Drawn with its texts in the reader's language."""
        return self.draw.func(*_worded(self.draw.args, tell), **_worded(self.draw.keywords, tell))


def _worded(value: Any, tell: Tell) -> Any:
    """The same value with every text in it told."""
    if isinstance(value, str):
        return tell(value)
    if isinstance(value, tuple | list):
        return type(value)(_worded(item, tell) for item in value)
    if isinstance(value, dict):
        return {key: _worded(item, tell) for key, item in value.items()}
    if isinstance(value, Struct):
        return replace(value, **{name: _worded(part, tell) for name, part in asdict(value).items()})
    return value


class TimelineBlock(Struct, frozen=True, eq=False):
    """Stretches of a run that can be zoomed, moved and searched on a page."""

    report: ProfiledRun
    finder: EventFinder
    stretches: tuple[Stretch, ...]
    fixed: FixedStretch | None = None
    """The first of them with a finding fixed."""


class FlameBlock(Struct, frozen=True, eq=False):
    """Trees of time that can be zoomed and searched on a page; where there are no scripts, `still` is all there is."""

    trees: tuple[FlameTree, ...]
    still: Chart | None


class StepStrip(Struct, frozen=True, eq=False):
    """The steps of a GPU, a column each, with a panel that shows the ledger of the one that is picked."""

    chart: Chart
    still: SheetBlock
    """The ledger of the median step: what the panel shows first, and all there is without scripts."""
    steps: tuple[int, ...]
    lines: tuple[Line, ...]
    ns: Ints
    """A row per step, a column per line."""
    unusual: tuple[bool, ...]
    warm_up: tuple[bool, ...]
    median_ns: int
    median_lines_ns: Mapping[Line, int]


class Reproduce(Struct, frozen=True):
    """The command that makes a page again, which only its writer knows."""


class Drawn(Struct, frozen=True):
    """Something that is drawn with letters: its view knows how."""

    text: Callable[[Terminal, Tell], str]
    markdown: Callable[[Tell], str]


class Tile(Struct, frozen=True):
    """One figure at a glance."""

    name: str
    value: str
    note: str = ""


class Tiles(Struct, frozen=True):
    """Figures at a glance, on a page."""

    tiles: tuple[Tile, ...]


class Section(Struct, frozen=True):
    """One question and its answer on a page, under a heading. `name` is the id that links lead to."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""
    """For the list of sections, where the title is long."""
    result: str = ""
    """What it says in one line; where that is given, the rest is folded away until it is asked for."""


class Only(Struct, frozen=True):
    """Blocks that one medium shows and the others do not; a function makes them where that takes long."""

    medium: Medium
    blocks: tuple[Block, ...] | Callable[[], Iterable[Block]]

    def shown_in(self, medium: Medium) -> tuple[Block, ...]:
        """The blocks for this medium."""
        if self.medium is not medium and (self.medium is not Medium.WRITTEN or medium is Medium.PAGE):
            return ()
        return tuple(self.blocks() if callable(self.blocks) else self.blocks)


class Group(Struct, frozen=True):
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
    | Findings
    | LedgerBlock
    | Shades
    | Chart
    | TimelineBlock
    | FlameBlock
    | StepStrip
    | Reproduce
    | Tiles
    | Section
    | Drawn
    | Only
    | Group
)


def not_measured(reason: str) -> Paragraph:
    """Stands on a page where something would be that the profile cannot tell."""
    return Paragraph(say("Not measured: {what}.", what=reason), "unknown")


class Page(Struct, frozen=True):
    """A whole page."""

    name: str
    verdict: str
    sections: tuple[Section, ...]
    headline: str = ""
    tiles: tuple[Tile, ...] = ()
    opening: tuple[Block, ...] = ()
    """What stands on the first screen, before the sections."""


def page_of(name: str, blocks: Iterable[Block]) -> Page:
    """What people see in a terminal as a page: the answer as its verdict, a section for each heading and table."""
    verdict, headline, tiles = "", "", tuple[Tile, ...]()
    opening, sections = list[Block](), list[Section]()
    for block in _for_page(blocks):
        match block:
            case Opening(headline=headline):
                pass
            case Tiles(tiles):
                pass
            case Conclusion(text) if not verdict:
                verdict = text
            case LedgerBlock() | Findings(form=FindingsForm.TOP) if not sections:
                opening.append(block)
            case Remarks(items) if not sections:
                opening += [Paragraph(item, "lead") for item in items]
            case Findings(form=FindingsForm.LIST):
                sections.append(Section("findings", say("What to do"), (block,)))
            case Section():
                sections.append(block)
            case _:
                _add(sections, block)
    shown = [section for section in sections if section.blocks]
    says_how = any(isinstance(block, Reproduce) for section in shown for block in section.blocks)
    again = () if says_how else (Section("again", say("Reproduce"), (Reproduce(),)),)
    return Page(name, verdict, (*shown, *again), headline, tiles, tuple(opening))


def _add(sections: list[Section], block: Block) -> None:
    """Put a block into a new section where it has a title, else into the last one that was begun here."""
    last = sections[-1] if sections and sections[-1].name.startswith(_PART) else None
    title, short, inside = "", "", tuple[Block, ...]((block,))
    match block:
        case Heading(text, level, short):
            title, inside = text, ()
            if level == 1:
                return
        case Points(title, items, is_section=True):
            inside = (Points("", items),)
        case Definitions(title, entries):
            inside = (replace(block, title=""),) if entries else ()
        case Shades(title):
            pass
        case Remarks(items):
            inside = tuple(map(Paragraph, items))
        case SheetBlock(sheet):
            has_heading = block.title is SheetTitle.NONE and last is not None and not last.blocks
            title = "" if has_heading else sheet.title
            caption = last.title if last is not None and has_heading else title
            inside = (replace(block, sheet=replace(sheet, title=caption), is_quiet=True),)
    if title or last is None:
        sections.append(Section(f"{_PART}{len(sections)}", title, inside, short))
    else:
        sections[-1] = replace(last, blocks=(*last.blocks, *inside))


_PART: Final = "part-"
"""How names of sections begin that only their order tells apart."""


def _for_page(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks that a page shows."""
    for block in blocks:
        if isinstance(block, Only):
            yield from _for_page(block.shown_in(Medium.PAGE))
        elif isinstance(block, Group):
            yield from _for_page(block.blocks)
        else:
            yield block


class Document(Struct, frozen=True):
    """One answer, for every format. Each part is made when a writer asks for it."""

    blocks: Callable[[], tuple[Block, ...]]
    """What people read in a terminal and in Markdown."""
    data: Callable[[], Struct | Mapping[str, Any]]
    """What programs read: the versioned document, as its type has it."""
    sheets: Callable[[], tuple[Sheet, ...]]
    """What spreadsheets read."""
    remarks: tuple[str, ...] = ()
    """What is to be said beside CSV, which has no place for it."""
    page: Callable[[], Page] | None = None
    """The page; None where there is none."""

    def json(self) -> dict[str, Any]:
        """What programs read, as dicts and lists."""
        from gpuledger.json_types import builtins

        content = self.data()
        return builtins(content) if isinstance(content, Struct) else dict(content)
