"""Sides of a comparison, made by hand: steps, kernels and ranges that a test can state in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuledger.analyse.diff.run_side import STEP, Call, RunKernel, RunRange, RunSide, StepLaunches
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.books import Line

SHAPE = (1, 1, 1)


def kernel(
    name: str,
    calls: int = 1,
    time_ns: int = 100,
    *,
    grid: tuple[int, int, int] = SHAPE,
    block: tuple[int, int, int] = SHAPE,
    place: tuple[str, ...] = (),
) -> RunKernel:
    return RunKernel(name, parse(name).bare, grid, block, place, family(name), calls, time_ns)


def side(
    lengths: Sequence[int],
    kernels: Sequence[RunKernel] = (),
    *,
    name: str = "side",
    launches: Sequence[int] | None = None,
    launch_ns: int = 1_000,
    ranges: Sequence[RunRange] | None = None,
    runs: Sequence[int] | None = None,
    lines: Mapping[str, Sequence[int]] | None = None,
    peak_bytes: int | None = None,
    gpu_name: str | None = "test GPU",
) -> RunSide:
    """Steps of these lengths. What the kernels and other lines leave of a step is host code."""
    steps = len(lengths)
    busy = sum(each.time_ns for each in kernels)
    shares = [busy // steps + (at < busy % steps) for at in range(steps)]
    columns = {"compute.gemm": shares, **(lines or {})}
    known = [sum(column[at] for column in columns.values()) for at in range(steps)]
    columns["idle.host_code"] = [length - taken for length, taken in zip(lengths, known, strict=True)]
    counts = tuple(launches) if launches is not None else (10,) * steps
    return RunSide(
        name=name,
        tool="test",
        whole=STEP,
        source="a test",
        run_steps=tuple(runs) if runs is not None else (steps,),
        length_ns=tuple(lengths),
        gpu_name=gpu_name,
        gpus={0: sorted(lengths)[steps // 2]},
        lines=tuple(map(Line, columns)),
        books_ns=tuple(zip(*columns.values(), strict=True)),
        kernels=tuple(kernels),
        calls=(Call("cudaLaunchKernel", CallKind.LAUNCH, sum(counts), launch_ns * sum(counts)),),
        launches=StepLaunches(
            counts, (Call("cudaLaunchKernel", CallKind.LAUNCH, sum(counts), launch_ns * sum(counts)),)
        ),
        ranges=None if ranges is None else tuple(ranges),
        range_steps={each.name: _spread(each.host_ns, steps) for each in ranges or ()},
        kernel_steps={each.bare: _spread(each.time_ns, steps) for each in kernels},
        peak_bytes=peak_bytes,
    )


def _spread(total: int, steps: int) -> tuple[int, ...]:
    return tuple(total // steps + (at < total % steps) for at in range(steps))
