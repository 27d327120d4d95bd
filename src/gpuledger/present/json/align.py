"""An alignment for programs: gpuledger.align/1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from gpuledger.analyse.align.alignment import Alignment
from gpuledger.analyse.align.kernel_sequences import ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.json_types import Json
from gpuledger.present.json.types import HealthJson, Shape, fill, health_json
from gpuledger.trace.model import Note


class KnownDifferenceJson(Json):
    what: str
    reason: str


class AlignCheckJson(Json):
    check: Literal["names", "counts", "missing", "extra", "latency", "graph", "shape"]
    verdict: Literal["PASS", "KNOWN", "WARN", "UNDECIDED", "FAIL", "NOT MEASURED"]
    figures: dict[str, int | float | str | None]
    evidence: list[str]
    remedy: Annotated[str | None, Meta(description="What to do; null where the check does not warn or fail.")]
    known: Annotated[list[KnownDifferenceJson], Meta(description="What was found and accepted by --known.")]


class IsolationJson(Json):
    by: Literal["range", "pattern", "auto"]
    expression: str | None


class ForwardsJson(Json):
    """Forwards in the steady steps of each side, the first included."""

    mock: int
    e2e: int


class OperationSideJson(Json):
    profile: str
    gpu: str | None
    steps: int | None
    ranks: int
    compared: Annotated[int, Meta(description="Forwards that could stand for the side.")]
    alike: Annotated[int, Meta(description="Of these, those with the sequence of kernels shown.")]
    gpu_ns: Annotated[int, Meta(description="The kernels' own times in the median forward.")]
    elapsed_ns: Annotated[int | None, Meta(description="From first start to last end, the median.")]
    spread_ns: Annotated[list[int], Meta(min_length=2, max_length=2)] | None
    """10th and 90th percentile of a forward's GPU time."""


class AlignSidesJson(Json):
    mock: OperationSideJson
    e2e: OperationSideJson


class ForwardKernelJson(Json):
    name: str
    time_ns: int
    grid: Shape | None
    block: Shape | None
    stream: int | None
    in_graph: bool | None


class AlignRowJson(Json):
    position: int
    mock: ForwardKernelJson | None
    e2e: ForwardKernelJson | None
    ratio: Annotated[float | None, Meta(description="The mock's time over the model's.")]
    match: Literal["exact", "function", "family", "none", "inserted", "missing"]
    moved: bool
    same_shape: bool | None


class AlignJson(Json):
    """What `gpuledger align --format=json` prints. Times are integer nanoseconds; shares run from 0 to 1."""

    schema: Literal["gpuledger.align/1"]
    verdict: Literal["PASS", "WARN", "UNDECIDED", "FAIL"]
    """The worst of the checks; known and unmeasured ones do not count."""
    conclusion: str
    checks: Annotated[list[AlignCheckJson], Meta(min_length=7, max_length=7)]
    isolated_by: IsolationJson
    forwards: ForwardsJson
    sides: AlignSidesJson
    kernels: Annotated[list[AlignRowJson], Meta(description="Both forwards side by side, in order of execution.")]
    notes: list[str]
    health: list[HealthJson]


def align_json(made: Alignment, health: Sequence[Note]) -> AlignJson:
    """The alignment; `health` is that of both profiles."""
    mock, e2e = made.sides.mock, made.sides.e2e
    return fill(
        AlignJson,
        made,
        schema="gpuledger.align/1",
        checks=[
            fill(
                AlignCheckJson,
                check,
                known=[
                    KnownDifferenceJson(what=known.sentence, reason=known.difference.reason) for known in check.accepted
                ],
            )
            for check in made.checks
        ],
        isolated_by=fill(IsolationJson, made.isolation),
        forwards=ForwardsJson(mock=mock.forwards, e2e=e2e.forwards),
        sides=AlignSidesJson(mock=_side(mock), e2e=_side(e2e)),
        kernels=[
            fill(
                AlignRowJson,
                row,
                position=position,
                mock=_kernel(row.mock),
                e2e=_kernel(row.e2e),
                match=row.level,
            )
            for position, row in enumerate(made.sides.rows, 1)
        ],
        health=health_json(health),
    )


def _side(side: OperationSide) -> OperationSideJson:
    return fill(OperationSideJson, side, gpu=side.gpu_name or None, steps=side.steps or None)


def _kernel(kernel: ForwardKernel | None) -> ForwardKernelJson | None:
    return None if kernel is None else fill(ForwardKernelJson, kernel)
