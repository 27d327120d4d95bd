"""The tables of the books: GPUs, lines, gaps and their causes, steps, findings, and how kernels use the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.step_summary import step_books
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.sql.column_values import ColumnValues, TableValues, flags, fractions, instants, numbers, words
from gpuledger.sql.launched import of_calls, step_of
from gpuledger.sql.subject import QuerySubject
from gpuledger.sql.tables import AXES
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT

_CALL_OF_GAP: Final = ("launch_call", "launch_tid")


def _together(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _gpus(subject: QuerySubject) -> TableValues:
    devices = subject.devices
    described = [subject.trace.origin.gpu(device.gpu) for device in devices]
    windows = [device.ledger.window for device in devices]
    idle = [int(device.ledger.gaps.length_ns.sum()) for device in devices]
    busy = [device.ledger.window_ns - idle_ns for device, idle_ns in zip(devices, idle, strict=True)]

    def times(values: list[int]) -> ColumnValues:
        return instants(np.array(values, np.int64))

    return {
        "gpu": numbers([device.gpu for device in devices]),
        "name": words([gpu.name if gpu else None for gpu in described]),
        "zero_ns": times([device.zero_ns for device in devices]),
        "window_start_ns": times([window.start_ns for window in windows]),
        "window_end_ns": times([window.end_ns for window in windows]),
        "window_ns": times([device.ledger.window_ns for device in devices]),
        "busy_ns": times(busy),
        "idle_ns": times(idle),
        "steady_start_ns": times([device.steady.start_ns for device in devices]),
        "steady_end_ns": times([device.steady.end_ns for device in devices]),
        "steady_ns": times([device.steady_ns for device in devices]),
        "steady_steps": numbers([None if device.steps is None else device.step_count for device in devices]),
        "step_source": words([None if device.steps is None else device.steps.source for device in devices]),
    }


def _lines(subject: QuerySubject) -> TableValues:
    """A row for each line that has time in a tile."""
    parts: list[list[NDArray[Any]]] = []
    names: dict[str, int] = {}
    for device in subject.devices:
        books = device.ledger
        tile, line = np.nonzero(books.books)
        code = np.array([names.setdefault(str(each), len(names)) for each in books.lines], np.int32)
        start = books.tiles_ns[:-1]
        parts.append(
            [
                np.full(len(tile), device.gpu),
                _step_of_tile(device, start)[tile],
                device.steady_tiles[tile],
                start[tile],
                books.tiles_ns[1:][tile],
                code[line],
                books.books[tile, line],
            ]
        )
    gpu, step, steady, start, end, line, amount = (_together(list(column)) for column in zip(*parts, strict=True))
    kinds, details = zip(*((name.partition(".")[0], name.partition(".")[2]) for name in names), strict=True)
    kind, detail = words(kinds), words(details)
    return {
        "gpu": ColumnValues(gpu),
        "step": ColumnValues(step),
        "is_steady": ColumnValues(steady, missing=None),
        "start_ns": instants(start),
        "end_ns": instants(end),
        "line": ColumnValues(line, tuple(names)),
        "kind": ColumnValues(kind.array[line], kind.texts),
        "detail": ColumnValues(detail.array[line], detail.texts),
        "line_ns": instants(amount),
    }


def _step_of_tile(device: Device, start_ns: Ints) -> Ints:
    """The step that each tile is; -1 for what lies beside the steps. A tile may begin where nothing is looked at."""
    if device.steps is None:
        return np.full(len(start_ns), -1, np.int64)
    step = np.searchsorted(device.steps.edges_ns, start_ns, side="right") - 1
    return np.where(step < len(device.steps), step, -1)


def _gaps(subject: QuerySubject) -> TableValues:
    parts: list[list[NDArray[Any]]] = []
    draining: dict[str, int] = {}
    for device in subject.devices:
        gaps = device.ledger.gaps
        drained = [draining.setdefault(name, len(draining)) if name else -1 for name in gaps.draining]
        names = np.append(device.work.name, np.int32(NO_TEXT))
        cause = gaps.by_cause.largest()
        amounts = np.max([gaps.by_cause.of(each) for each in CAUSES], axis=0, initial=0)
        parts.append(
            [
                np.full(len(gaps), device.gpu),
                gaps.start_ns,
                gaps.end_ns,
                gaps.trigger,
                np.array(drained, np.int64)[gaps.drained_by],
                cause,
                amounts,
                names[gaps.before],
                names[gaps.after],
                gaps.call,
                step_of(device, gaps.start_ns),
                device.steady_gaps,
            ]
        )
    columns = [_together(list(column)) for column in zip(*parts, strict=True)]
    gpu, start, end, trigger, drained_by, cause, cause_ns, before, after, call, step, steady = columns
    strings = subject.trace.strings
    return {
        "gap": ColumnValues(np.arange(len(start))),
        "gpu": ColumnValues(gpu),
        "start_ns": instants(start),
        "end_ns": instants(end),
        "duration_ns": "end_ns - start_ns",
        "trigger": ColumnValues(trigger, tuple(map(str, TRIGGERS))),
        "drained_by": ColumnValues(drained_by, tuple(draining)),
        "cause": ColumnValues(cause, tuple(map(str, CAUSES))),
        "cause_ns": instants(cause_ns),
        "before": ColumnValues(before, strings),
        "after": ColumnValues(after, strings),
        "step": ColumnValues(step),
        "is_steady": ColumnValues(steady, missing=None),
        **of_calls(subject.trace, subject.devices[0].host, call, _CALL_OF_GAP),
    }


def _gap_causes(subject: QuerySubject) -> TableValues:
    first, parts = 0, list[list[NDArray[Any]]]()
    for device in subject.devices:
        by_cause = device.ledger.gaps.by_cause
        for cause in by_cause.used:
            amount = by_cause.of(cause)
            [booked] = np.nonzero(amount)
            parts.append(
                [
                    booked + first,
                    np.full(len(booked), device.gpu),
                    np.full(len(booked), CAUSES.index(cause)),
                    amount[booked],
                ]
            )
        first += len(by_cause)
    columns = [_together(list(column)) for column in zip(*parts, strict=True)] or [np.empty(0, np.int64)] * 4
    gap, gpu, cause_at, amounts = columns
    return {
        "gap": ColumnValues(gap),
        "gpu": ColumnValues(gpu),
        "cause": ColumnValues(cause_at, tuple(map(str, CAUSES))),
        "cause_ns": instants(amounts),
    }


def _steps(subject: QuerySubject) -> TableValues:
    varied = [(device, variation(device)) for device in subject.devices]
    rows = [(device, step) for device, steps in varied if steps is not None for step in step_books(device, steps)]

    def times(values: list[int]) -> ColumnValues:
        return instants(np.array(values, np.int64))

    return {
        "gpu": numbers([device.gpu for device, _ in rows]),
        "step": numbers([step.step for _, step in rows]),
        "start_ns": times([step.start_ns + device.zero_ns for device, step in rows]),
        "end_ns": times([step.end_ns + device.zero_ns for device, step in rows]),
        "duration_ns": times([step.length_ns for _, step in rows]),
        "busy_ns": times([step.busy_ns for _, step in rows]),
        "idle_ns": times([step.idle_ns for _, step in rows]),
        "kernels": numbers([step.kernels for _, step in rows]),
        "largest_line": words([step.largest_line for _, step in rows]),
        "phase": words([step.phase for _, step in rows]),
        "note": words([step.note.value for _, step in rows]),
    }


def _findings(subject: QuerySubject) -> TableValues:
    found = subject.findings
    return {
        "rank": numbers(range(1, len(found) + 1)),
        "code": words([each.code for each in found]),
        "claim": words([each.claim for each in found]),
        "saving_ns": numbers([each.saving_ns for each in found]),
        "saving_per_step_ns": numbers([each.saving_ns_per_step for each in found]),
        "low_per_step_ns": numbers([each.saving_low_ns_per_step for each in found]),
        "then_ns": numbers([each.then_ns for each in found]),
        "plain_low_ns": numbers([each.plain.low_ns if each.plain else None for each in found]),
        "plain_high_ns": numbers([each.plain.high_ns if each.plain else None for each in found]),
        "lost_ns": numbers([each.explains_ns for each in found]),
        "is_bound": flags([each.is_bound for each in found]),
        "confidence": words([each.confidence for each in found]),
        "gpu": numbers([each.gpu if each.gpu >= 0 else None for each in found]),
        "assumption": words([each.assumption for each in found]),
        "fix": words([each.fix for each in found]),
    }


def _use(subject: QuerySubject) -> TableValues:
    rows = [(gpu, kernel) for gpu, (used, _) in subject.use.items() for kernel in used.kernels]
    values: TableValues = {
        "gpu": numbers([gpu for gpu, _ in rows]),
        "name": words([kernel.name for _, kernel in rows]),
        "full_name": words([kernel.full_name for _, kernel in rows]),
        "launches": numbers([kernel.launches for _, kernel in rows]),
        "total_ns": numbers([kernel.time_ns for _, kernel in rows]),
        "use_class": words([str(kernel.use_class) for _, kernel in rows]),
    }
    for place, axis in enumerate(AXES):
        values[f"grid_{axis}"] = numbers([kernel.grid[place] for _, kernel in rows])
        values[f"block_{axis}"] = numbers([kernel.block[place] for _, kernel in rows])
    for metric in OF_KERNELS:
        figures = [kernel.figures.get(metric) for _, kernel in rows]
        values[f"{metric}_percent"] = fractions([each.percent if each else None for each in figures])
        values[f"{metric}_low_percent"] = fractions([each.low if each else None for each in figures])
        values[f"{metric}_high_percent"] = fractions([each.high if each else None for each in figures])
    return values


BOOKED: Final[dict[str, Callable[[QuerySubject], TableValues]]] = {
    "gpus": _gpus,
    "lines": _lines,
    "gaps": _gaps,
    "gap_causes": _gap_causes,
    "steps": _steps,
    "findings": _findings,
    "use": _use,
}
"""How each table of the books is made."""
