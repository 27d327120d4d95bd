"""Recorded call stacks: each a run of frames, the innermost first.

A frame is the code of its text in the trace's `Strings`: a function, for Python with file and line. A stack is known
by its position; columns called `stack` hold such positions, or -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Codes, Strings

_TORCH_FUNCTION: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """Stack `i` is `frames[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    frames: Codes = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self, stack: int, strings: Strings) -> list[str]:
        """The frames of one stack, the innermost first; none for stack -1."""
        if stack < 0:
            return []
        codes = self.frames[self.offsets[stack] : self.offsets[stack + 1]]
        return [text or "" for text in strings.decode(codes)]


def python_frame(function: str, file: str, line: int) -> str:
    """`function (file.py:12)`, a package's file with its path in the package; where it lies is nobody's business."""
    path = file.replace("\\", "/")
    standard = re.search(r"/lib/(python[\d.]+/.+)", path)
    if "-packages/" in path:
        path = path.rpartition("-packages/")[2]
    elif standard:
        path = standard[1]
    elif path.startswith(("/", "<")):
        path = path.rsplit("/", 1)[-1]
    return f"{function} ({path}:{line})"


def torch_frame(name: str) -> str:
    """torch's `file.py(12): function` as every frame is written; a built-in function as it is."""
    match = _TORCH_FUNCTION.match(name)
    return python_frame(match["function"], match["file"], int(match["line"])) if match else name
