"""What the user asks to look at: which GPU, which stretch of time, and what a step is."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SLOWEST: Final = "slowest"


class Selection(Struct, frozen=True):
    """What the user asks for: how steps are found (all None: find out), and kernel families of their own."""

    range_pattern: str | None = None
    kernel_pattern: str | None = None
    level: str | None = None
    """The name of the level that is to be the step, or a part of it."""
    any_level: bool = False
    """Where no level is the step, the outermost that repeats through the window is taken, to compare like with like."""
    families: tuple[tuple[str, str], ...] = ()
    device: int | None = None
    time_ns: tuple[int | None, int | None] | None = None
    """A stretch of the window, from its start."""
    rank: int | str | None = None
    """Of several ranks in a profile or a folder this one, by its number, or SLOWEST: whom the others wait for."""
    scope_pattern: str | None = None
    """Only what was launched inside ranges that match; see `ledger.window`."""
