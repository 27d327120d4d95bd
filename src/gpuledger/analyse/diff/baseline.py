"""A side as a JSON document, to be compared with later: a baseline for CI, without the profile it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gpuledger.analyse.diff.run_side import WHOLES, RunSide
from gpuledger.errors import UnreadableProfile
from gpuledger.ledger.lines import Line

SCHEMA: Final = "gpuledger.baseline/1"

_MOST: Final = 2**56
"""Two years in nanoseconds: the sum of some steps of that still has room in 64 bits."""


def is_baseline(head: bytes) -> bool:
    """Whether a file that begins so is a baseline."""
    return SCHEMA.encode() in head[:200]


def to_document(side: RunSide) -> dict[str, Any]:
    """The document; `from_document` gives an equal side back."""
    content: dict[str, Any] = msgspec.to_builtins(side, str_keys=True, enc_hook=str)  # a sentence is just its text
    return {"schema": SCHEMA, **content}


def from_document(content: bytes, name: str) -> RunSide:
    """The side that was saved; `name` is what a refusal calls it."""
    try:
        raw = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        schema = msgspec.json.decode(raw.pop("schema", b'""'), type=str)
        if schema != SCHEMA:
            raise UnreadableProfile(f"{name}: a document {schema or 'without a schema'}, not {SCHEMA}")
        side = msgspec.json.decode(msgspec.json.encode(raw), type=RunSide, dec_hook=_line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unusable(name, str(error)) from None
    return _checked(side, name)


def _line(kind: type[Line], name: str) -> Line:
    """A line of the books by its name; what is none is a ValueError, which msgspec turns into its own."""
    return kind(name)


def _checked(side: RunSide, name: str) -> RunSide:
    """Refuse what no side can be: later arithmetic relies on it."""
    if any(abs(number) >= _MOST for number in _numbers(msgspec.to_builtins(side, str_keys=True, enc_hook=str))):
        raise _unusable(name, "a number in it is beyond what 64 bits hold")
    steps = side.steps
    by_step = [*side.kernel_steps.values(), *side.range_steps.values()]
    if side.launches is not None:
        by_step.append(side.launches.per_step)
    wrong = {
        "it has no steps": not steps or min(side.length_ns) < 0,
        "its runs do not have its steps": sum(side.run_steps) != steps or min(side.run_steps) < 1,
        f"whole is none of {', '.join(WHOLES)}": side.whole not in WHOLES,
        "its books do not balance": bool(side.lines)
        and [sum(row) for row in side.books_ns if len(row) == len(side.lines)] != list(side.length_ns),
        "a figure by step has other steps": any(len(amounts) != steps for amounts in by_step),
        "a range has no instance": any(run_range.instances < 1 for run_range in side.ranges or ()),
        "a kernel has no call": any(kernel.calls < 1 for kernel in (*side.kernels, *side.comm)),
    }
    for reason, holds in wrong.items():
        if holds:
            raise _unusable(name, reason)
    return side


def _numbers(content: object) -> Iterator[int | float]:
    """All numbers of a document."""
    pending = [content]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, int | float):
            yield part


def _unusable(name: str, why: str) -> UnreadableProfile:
    return UnreadableProfile(
        f"{name}: not a whole baseline: {why}", hint="save it again with `gpuledger diff --save-baseline FILE PROFILE`"
    )
