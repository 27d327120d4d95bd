"""Kernels that a compiler made of a loop: a bare name in, the function and the line that it was made of out.

OpenMP of NVHPC names them `nvkernel_FUNCTION_F1LLINE_NUMBER`, of LLVM `__omp_offloading_DEVICE_FILE_FUNCTION_lLINE`;
OpenACC of NVHPC `FUNCTION_LINE_gpu`, with `__red` for the second half of a sum.
"""

from __future__ import annotations

import re
from typing import Final

_FORMS: Final = (
    ("OpenMP", re.compile(r"nvkernel_(?P<function>\w+?)_F\d+L(?P<line>\d+)(?:_\d+)?_?")),
    (
        "OpenMP",
        re.compile(r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(?P<function>[\w.$]+)_l(?P<line>\d+)(?:_\w+)?(?:\.kd)?"),
    ),
    ("OpenACC", re.compile(r"(?P<function>\w+?)_(?P<line>\d+)_gpu(?P<rest>__red)?")),
)
_MANGLED: Final = re.compile(r"_Z(N?)(K?)(?=\d)")
_LENGTH: Final = re.compile(r"\d{1,4}")
_LONGEST: Final = 2000
"""Letters of a name that is looked at."""


def source_label(short: str) -> str | None:
    """`jacobi:45 (OpenACC)` for `jacobi_45_gpu`; None for a name of another form."""
    for model, form in _FORMS if len(short) <= _LONGEST else ():
        if match := form.fullmatch(short):
            rest = " sum" if match.groupdict().get("rest") else ""
            return f"{_demangled(match['function'])}:{match['line']} ({model}{rest})"
    return None


def _demangled(function: str) -> str:
    """A C++ function's name without its parameters, if it has no templates; any other as it is."""
    match = _MANGLED.match(function)
    if match is None:
        return function
    parts, position = list[str](), match.end()
    while (length := _LENGTH.match(function, position)) and (match[1] or not parts):
        position = length.end() + int(length[0])
        parts.append(function[length.end() : position])
    ended = position <= len(function) and (not match[1] or function.startswith("E", position))
    return "::".join(parts) if ended else function
