"""A baseline for CI: one side of a comparison saved as gpuledger.baseline/1, without the profile it came from."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from gpuledger.analyse.diff.run_side import WHOLES, RunSide
from gpuledger.errors import UnreadableProfile
from gpuledger.json_types import builtins
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.visible_text import visible_json

_MOST: Final = 2**56  # two years in nanoseconds: the sum of some steps of that still has room in 64 bits


def is_baseline(head: bytes) -> bool:
    """Whether a file that begins so is a baseline."""
    return str(RunSide.__struct_config__.tag).encode() in head[:200]


def baseline_content(side: RunSide) -> bytes:
    """The file; `read_baseline` gives an equal side back."""
    text = json.dumps(builtins(side), ensure_ascii=False, indent=1)
    # names of files need not be UTF-8, and JSON holds nothing else
    return visible_json(text.encode(errors="replace").decode()).encode() + b"\n"


def read_baseline(content: bytes, name: str) -> RunSide:
    """The side that was saved; `name` is what a refusal calls it."""
    try:
        # a line of the books by its name; what is none is a ValueError, which msgspec turns into its own
        side = msgspec.json.decode(content, type=RunSide, dec_hook=lambda kind, line: kind(line))
        problem = _problem(side)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = str(error)
    if problem is not None:
        raise UnreadableProfile(
            f"{name}: not a whole baseline: {problem}",
            hint="save it again with `gpuledger diff --save-baseline FILE PROFILE`",
        )
    return side


def _problem(side: RunSide) -> str | None:
    """Why this cannot be a side, as later arithmetic relies on it; None where it can."""
    pending: list[object] = [msgspec.to_builtins(side, str_keys=True, enc_hook=str)]
    while pending:
        part = pending.pop()
        if isinstance(part, int | float) and abs(part) >= _MOST:
            return "a number in it is beyond what 64 bits hold"
        pending += part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
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
        "its idle time is not that of its books": bool(side.idle_ns)
        and (
            any(trigger not in TRIGGERS for trigger in side.idle_ns)
            or sum(side.idle_ns.values()) != int(side.line_steps(lambda line: line.is_idle).sum())
        ),
        "a figure by step has other steps": any(len(amounts) != steps for amounts in by_step),
        "its busy time is not its compute": side.busy_ns is not None
        and (min(side.busy_ns) < 0 or sum(side.busy_ns) != side.line_steps(lambda line: line.is_compute).sum()),
        "a range has no instance": any(run_range.instances < 1 for run_range in side.ranges or ()),
        "a kernel has no call": any(kernel.calls < 1 for kernel in (*side.kernels, *side.comm)),
    }
    return next((reason for reason, holds in wrong.items() if holds), None)
