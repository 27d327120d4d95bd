"""What text is written for: how wide the terminal is, and whether it shows colours. A pipe and a file have neither.

Colour is put on whole lines and finished cells, after they were cut and aligned, so it never counts as width. Names
from profiles have their control characters spelled out before (`safe_text.visible`): every escape that is written is
ours.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Style = Literal["bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan"]

_CODES: Final[dict[Style, int]] = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}
"""The eight colours of every terminal, which its theme chooses to be readable on its own background."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

BADGES: Final[dict[str, Style]] = {"good": "green", "warn": "yellow", "bad": "red"}
"""How a verdict is coloured."""

_LONGEST_LINE: Final = 100

_TONES: Final[dict[str, Style]] = {"compute": "cyan", "idle": "red", "comm": "magenta", "copy": "yellow"}

_LARGE_SHARE: Final = 0.1
_SMALL_SHARE: Final = 0.01


class Terminal(Struct, frozen=True):
    """Where text goes."""

    width: int | None = None
    """Columns; None where nothing limits a line."""
    has_colours: bool = False

    @property
    def prose_width(self) -> int | None:
        """Where sentences end their lines: on a wide terminal sooner than tables, as long lines are hard to follow."""
        return None if self.width is None else min(self.width, _LONGEST_LINE)

    def painted(self, text: str, *styles: Style) -> str:
        """The text in these styles, line by line, so that each line stands alone in a pager."""
        if not self.has_colours or not styles or not text:
            return text
        codes = ";".join(str(_CODES[style]) for style in styles)
        return "\n".join(f"\x1b[{codes}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def bar(share: float, room: int) -> str:
    """A share of a bar that is `room` columns long, to an eighth of a column."""
    eighths = round(min(max(share, 0.0), 1.0) * room * 8)
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def tone_style(tone: str) -> Style:
    """The colour of a bar whose tone on a page is this one: what works is cool, what is lost is warm."""
    kind = tone.partition("-")[0]
    return _TONES.get(kind, "blue")


def saving_style(share: float) -> Style:
    """The colour of what a fix would save: a tenth of the time stands out, under a hundredth hardly counts."""
    if share >= _LARGE_SHARE:
        return "red"
    return "yellow" if share >= _SMALL_SHARE else "dim"
