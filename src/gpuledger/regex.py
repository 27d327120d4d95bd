"""Regular expressions that are compiled when they are first used: a module full of them is imported in no time.

A profile's names need few of the expressions that tell names apart, and to compile them all took a tenth of a small
report. Type checkers see `re.compile`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as regex
else:
    from typing import Any

    class regex:  # noqa: N801 - stands for a function
        """Whatever a compiled expression has, this has from the first time that it is asked for."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            value = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, value)
            return value


__all__ = ["regex"]
