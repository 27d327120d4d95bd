"""A baseline for CI: one side of a comparison saved as gpuledger.baseline/1, without the profile it came from."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gpuledger.analyse.diff.run_side import WHOLES, RunSide
from gpuledger.errors import UnreadableProfile
from gpuledger.json_types import Json
from gpuledger.ledger.causes import TRIGGERS

SCHEMA: Final = "gpuledger.baseline/1"

_MOST: Final = 2**56  # two years in nanoseconds: the sum of some steps of that still has room in 64 bits

Grid: TypeAlias = Annotated[list[int], Meta(min_length=3, max_length=3)]


class BaselineKernelJson(Json):
    """Like kernels: of one name, launch shape and place in the program."""

    name: str
    bare: str
    grid: Grid
    block: Grid
    place: list[str]
    family: str
    calls: int
    time_ns: int
    operator: str | UnsetType = UNSET
    inputs: str | UnsetType = UNSET


class BaselineCallJson(Json):
    """The calls of one CUDA function on the host."""

    name: str
    kind: str
    calls: int
    time_ns: int


class BaselineLaunchesJson(Json):
    """The calls that launched the steps' kernels."""

    per_step: list[int]
    functions: list[BaselineCallJson]


class BaselineRangeJson(Json):
    """The ranges of one name, ids left out. null: not known, as from a table."""

    name: str
    instances: int
    host_ns: int
    gpu_ns: int | None
    wait_ns: int | None
    inside: list[str]
    calls: dict[str, int] | None
    work: dict[str, int] | None


class BaselineCopiesJson(Json):
    """The copies of one kind, or the memsets."""

    kind: str
    count: int
    bytes: int | None
    time_ns: int


class BaselineFigureJson(Json):
    """One counter of one kernel, with both ends of its interval."""

    percent: float
    low: float
    high: float


class BaselineUseJson(Json):
    """What kernels of one name and launch shape use of the GPU."""

    name: str
    grid: Grid
    block: Grid
    time_ns: int
    figures: dict[str, BaselineFigureJson]


class BaselineJson(Json):
    """One side of a comparison, saved by gpuledger diff --save-baseline. Keys ending in _ns are integer nanoseconds,
    sums over all steps.
    """

    schema: Literal["gpuledger.baseline/1"]
    name: str
    tool: str
    whole: Literal["step", "window", "kernel time"]
    source: str | None
    run_steps: list[int]
    length_ns: list[int]
    gpu: int
    gpu_name: str | None
    clock_hz: int | None
    gpus: dict[str, int]
    ranks: int | None
    lines: list[str]
    books_ns: Annotated[list[list[int]], Meta(description="a row per step, a column per line")]
    kernels: list[BaselineKernelJson]
    comm: list[BaselineKernelJson]
    calls: list[BaselineCallJson] | None
    launches: BaselineLaunchesJson | None
    ranges: list[BaselineRangeJson] | None
    copies: list[BaselineCopiesJson]
    peak_bytes: int | None
    kernel_steps: dict[str, list[int]]
    range_steps: dict[str, list[int]]
    losses: list[str]
    use: Annotated[
        list[BaselineUseJson],
        Meta(
            description="What kernels use of the GPU, in percent of what it could do while they ran, from samples; by "
            "counter."
        ),
    ]
    busy_clock_hz: Annotated[
        float | None, Meta(description="The mean clock of the multiprocessors while kernels ran, from samples.")
    ]
    idle_ns: Annotated[dict[str, int], Meta(description="Idle time of all steps by what set it off.")] | UnsetType = (
        UNSET
    )
    busy_ns: Annotated[
        list[int] | UnsetType | None,
        Meta(description="Compute as light, lost, avoidable and unknown; null where little of it is known."),
    ] = UNSET
    overlap_ns: (
        Annotated[
            int,
            Meta(description="Of the sum of kernels' times, what ran beside others; absent: they are shares."),
        ]
        | UnsetType
    ) = UNSET
    phases_ns: (
        Annotated[dict[str, int], Meta(description="All steps by phase of a layer; empty where no layers are known.")]
        | UnsetType
    ) = UNSET


def is_baseline(head: bytes) -> bool:
    """Whether a file that begins so is a baseline."""
    return SCHEMA.encode() in head[:200]


def baseline_json(side: RunSide) -> BaselineJson:
    """The document; `read_baseline` gives an equal side back."""
    content = msgspec.to_builtins(side, str_keys=True, enc_hook=str)  # a sentence is just its text
    return msgspec.convert({"schema": SCHEMA, **content}, BaselineJson)


def read_baseline(content: bytes, name: str) -> RunSide:
    """The side that was saved; `name` is what a refusal calls it. Keys that older versions did not write may lack."""
    try:
        raw = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        schema = msgspec.json.decode(raw.pop("schema", b'""'), type=str)
        if schema != SCHEMA:
            raise UnreadableProfile(f"{name}: a document {schema or 'without a schema'}, not {SCHEMA}")
        # a line of the books by its name; what is none is a ValueError, which msgspec turns into its own
        side = msgspec.json.decode(msgspec.json.encode(raw), type=RunSide, dec_hook=lambda kind, line: kind(line))
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
