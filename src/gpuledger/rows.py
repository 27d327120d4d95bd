"""Rows of tables. A field's `Label` declares a column once: JSON, CSV, text, pages and the reference derive from it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, get_type_hints

from msgspec import Struct


class Digits(Enum):
    """How many digits a number is printed with."""

    TEXT = "text"
    FIGURE = "a number with its unit, as text"
    WHOLE = "whole number"
    TENTH = "one decimal, ties away from zero"
    HUNDREDTH = "two decimals"
    MEGABYTES = "bytes as MB with three decimals"
    TRIPLE = "three whole numbers, each at least four wide"
    ALL = "as many as it has"


class Unit(Enum):
    """What a column's cells count; with the digits they are printed with, and what is added to the heading."""

    TEXT = ("text", Digits.TEXT, "")
    FIGURE = ("a number with its unit, as text", Digits.FIGURE, "")
    COUNT = ("how many", Digits.WHOLE, "")
    MEAN = ("how many on average", Digits.TENTH, "")
    ID = ("the number that something is called by", Digits.WHOLE, "")
    RATIO = ("one number over another", Digits.HUNDREDTH, "")
    TRIPLE = ("a launch shape", Digits.TRIPLE, "")
    NS = ("a length of time", Digits.WHOLE, " (ns)")
    MEAN_NS = ("an average length of time", Digits.TENTH, " (ns)")
    INSTANT_NS = ("a moment, from the instant that `--time` counts from", Digits.WHOLE, " (ns)")
    SHARE = ("a share of a whole, 0 to 1", Digits.ALL, "")
    CHANGE = ("a change as a part of what was before", Digits.ALL, "")
    CHANGE_NS = ("a change of a length of time", Digits.WHOLE, " (ns)")
    AMOUNT = ("a number in the unit that the row names", Digits.ALL, "")
    SHARE_PERCENT = ("a share of a whole", Digits.TENTH, " (%)")
    CHANGE_PERCENT = ("a change, which is no share of a whole", Digits.TENTH, " (%)")
    BYTES = ("bytes", Digits.WHOLE, "")
    BYTES_PER_S = ("bytes a second", Digits.ALL, "")
    MB = ("bytes, printed as MB", Digits.MEGABYTES, "")
    GB_PER_S = ("a rate", Digits.TENTH, " (GB/s)")

    def __init__(self, counts: str, digits: Digits, suffix: str) -> None:
        self.counts = counts
        self.digits = digits
        self.suffix = suffix


class Label(NamedTuple):
    """What people call a field and how it is shown: `time_ns: Annotated[int, Label(say("Time"), Unit.NS)]`."""

    text: str
    unit: Unit = Unit.TEXT
    detail: int = 0
    """On a narrow terminal the columns with the highest number go first; 0 stays."""
    meaning: str = ""
    """For the reference and the JSON schema, where the label does not say it."""
    shorten: Callable[[str], str] | None = None
    """Makes a text shorter where there is no room for it, else it is cut in the middle."""
    words: Callable[[Any], str] | None = None
    """Says a value for people."""
    is_prose: bool = False
    """Whether a text is a sentence, which goes on in the next line."""
    is_summed: bool = False
    """Whether tables for people close with the sum."""
    page_text: str = ""
    """What a page calls it, where that is something else."""
    unknown: str = ""
    """What people see in the place of None."""
    separator: str = " > "
    """What people see between the parts of a list."""
    is_nested: bool = False
    """Whether people see it set in by the row's `depth`."""


class LabelledCode(StrEnum):
    """Base of codes that programs see, each with what people call it."""

    label: str
    badge: str

    def __new__(cls, code: str, label: str = "", badge: str = "") -> LabelledCode:
        """A member is its code. `badge`: good, warn or bad, for a verdict."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.label, member.badge = label, badge
        return member


class Row(Struct, frozen=True):
    """One row of a table. Unknown is None; lists are lists; a field without a label is for programs only."""


class ShareInterval(Struct, frozen=True):
    """A share, and what it is at least and at most. Tables for programs have a column of each."""

    share: float
    low: float
    high: float


class Spread(Struct, frozen=True):
    """A figure over several launches; the mean is weighted by their time."""

    mean: float
    least: float
    most: float


Gpu: TypeAlias = Annotated[int, Label("GPU", Unit.ID, meaning="as nvidia-smi numbers it")]


@cache
def labels_of(kind: type[Struct]) -> dict[str, Label]:
    """The labelled fields of a row type or an answer, in order."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for name in kind.__struct_fields__:
        for part in get_args(hints[name]):
            if isinstance(part, Label):
                found[name] = part
    return found


def share(part: float, whole: float) -> float | None:
    """A share of a whole to a millionth; None where there is no whole."""
    return round(part / whole, 6) if whole else None
