"""An operation's forwards in a profile: which kernels belong to which of them.

In the mock a forward is a step, or what of it matches a pattern. In the model it is what was launched inside a range,
or the kernels whose names match, or a stretch of the kernel sequence that is like the mock's. Only the steady steps
count. What belongs to a range is told by launch calls, never by the host's times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, kernels_searched, occurrences, triple
from gpuledger.attribution.launch_places import longest_repeat, place_of_work
from gpuledger.catalog.kernel_names import LEVELS, NONE, label, likeness, without_ids
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.messages import joined, say
from gpuledger.regex import NamePattern
from gpuledger.selection import Selection
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace, thread_number
from gpuledger.trace.spans import pairs_inside
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import count_text

FEWEST_IN_A_STEP = 3
"""A step of the mock that runs one sequence of kernels so many times or more holds as many forwards."""

MOST_WITHOUT_STEPS = 20_000
"""In so many kernels a repeated stretch is looked for where no steps are found; the effort grows with the square."""

LISTED = 12  # so many names are listed where none is found


class Isolation(Struct, frozen=True):
    """How the operation was found in the model."""

    by: str  # range, pattern or auto
    expression: str | None = None

    @property
    def kernel_pattern(self) -> NamePattern | None:
        """What the names of kernels have to match, on both sides; None where names say nothing."""
        return None if self.expression is None or self.by != "pattern" else NamePattern(self.expression)

    def __str__(self) -> str:
        return self.by if self.expression is None else f"{self.by} '{self.expression}'"


_ALL: Final = Isolation("auto")  # a mock is the operation, all of it


class OperationKernels(Struct, frozen=True):
    """Kernels as positions in `device.work`, and for each a number of its forward."""

    kernel: Positions
    forward: Positions
    notes: tuple[str, ...] = ()


def _kernels_on(device: Device) -> Positions:
    """All kernels of the GPU; a graph that was traced whole has no name."""
    work = device.work
    here = work.on(device.gpu)
    kernels: Positions = here[(work.state[here] != State.COPY) & (work.name[here] != NO_TEXT)]
    return kernels


def kernels_or_refuse(device: Device, profile: str) -> Positions:
    """The kernels of the steady steps in order of start; a profile without any is refused.

    Where several processes share the GPU, those of the one that launched the most, whose steps they are.
    """
    kernels = _kernels_on(device)
    kernels = kernels[device.begins_steady(device.work.start_ns[kernels])]
    if len(kernels):
        processes, counts = np.unique(device.work.pid[kernels], return_counts=True)
        most: Positions = kernels[device.work.pid[kernels] == processes[counts.argmax()]]
        return most
    opaque = bool((device.work.name[device.work.on(device.gpu)] == NO_TEXT).any())
    raise NothingRecorded(
        f"{profile}: no kernel in the steady steps of GPU {device.gpu}",
        found="its CUDA graphs were traced whole, without their kernels" if opaque else "",
        hint="record again with --cuda-graph-trace=node" if opaque else "`gpuledger info` says what there is",
    )


def by_steps(device: Device, profile: str) -> OperationKernels:
    """Each steady step is a forward; where there are none, what repeats is, else the whole window."""
    kernels = kernels_or_refuse(device, profile)
    names, step = device.work.name[kernels], _steps(device, kernels)
    if device.steps is None:
        return _without_steps(names, profile, kernels)
    distinct = np.unique(step)
    period = _period(names[step == distinct[len(distinct) // 2]])
    if period is None:
        return OperationKernels(kernels, step)
    inside = (np.arange(len(kernels)) - np.searchsorted(step, step)) // period
    note = say(
        "a step of {profile} runs the same {kernels} several times: each repetition counts as a forward",
        profile=profile,
        kernels=_kernel_count(period),
    )
    return OperationKernels(kernels, group(step, inside)[1], (note,))


def _steps(device: Device, kernels: Positions) -> Positions:
    """The step that each kernel begins in; 0 where there are none."""
    if device.steps is None:
        return np.zeros(len(kernels), np.intp)
    return np.searchsorted(device.steps.edges_ns, device.work.start_ns[kernels], side="right") - 1


def _period(names: NDArray[np.signedinteger]) -> int | None:
    """The shortest sequence of which `names` is nothing but repetitions; None if there are too few."""
    periods = (period for period in range(1, len(names) // FEWEST_IN_A_STEP + 1) if len(names) % period == 0)
    return next((period for period in periods if (names[period:] == names[:-period]).all()), None)


def _kernel_count(count: int) -> str:
    return "kernel" if count == 1 else say("{count} kernels", count=count_text(count))


def _without_steps(names: NDArray[np.signedinteger], profile: str, kernels: Positions) -> OperationKernels:
    start, end = 0, len(names)
    if len(names) <= MOST_WITHOUT_STEPS and (repeats := longest_repeat(names)):
        first, period, count = repeats
        if 2 * period * count >= len(names):
            start, end = first, first + period * count
    period = _period(names[start:end]) or end - start
    forward = np.arange(end - start) // period
    how = say("the whole profile counts as one forward")
    if forward.any():
        how = say("{kernels} that repeat count as a forward", kernels=_kernel_count(period))
    note = say("{profile}: no steps were found; {how} (--mock-range=REGEX overrides this)", profile=profile, how=how)
    return OperationKernels(kernels[start:end], forward, (note,))


def by_range(trace: Trace, device: Device, profile: str, pattern: str) -> OperationKernels:
    """Each instance of a matching range is a forward; the outermost where they nest.

    Where a second file names the work inside graphs, each stretch of a launch under a matching name is one too.
    """
    expression = NamePattern(pattern)
    kernels = _kernels_on(device)
    chosen, notes = _matching_ranges(trace, spans_of_time(trace), expression), tuple[str, ...]()
    placed = _placed_in(trace, device, kernels, expression)
    if not len(chosen) and (placed < 0).all():  # torch's operators and modules, where no annotation is called so
        chosen = _matching_ranges(trace, trace[Table.RANGES], expression)
        note = say(
            "{profile}: no annotation matches '{pattern}'; matching operators or modules are taken as forwards",
            profile=profile,
            pattern=pattern,
        )
        notes = (note,)
        if not len(chosen):
            raise _no_range(trace, profile, pattern)
    forward = _launched_in(device, kernels, chosen)
    forward = np.where((forward < 0) & (placed >= 0), len(chosen) + placed, forward)
    steady = device.begins_steady(device.work.start_ns[kernels])
    kept = (forward >= 0) & ~np.isin(forward, np.unique(forward[~steady]))
    if not kept.any():
        inside = "in none of them was a kernel of the steady steps launched"
        raise NothingRecorded(
            f"{profile}: nothing ran in ranges matching '{pattern}'",
            found=f"{count_text(len(chosen))} such ranges; {inside}",
            hint="kernels of a CUDA graph belong to the range around its launch: try --names-from, --auto or --pattern",
        )
    return OperationKernels(kernels[kept], forward[kept], notes)


def _placed_in(trace: Trace, device: Device, kernels: Positions, expression: NamePattern) -> Positions:
    """For each kernel that a second file names inside a graph the stretch under a matching name; -1 for none."""
    if trace.places is None:
        return np.full(len(kernels), -1, np.intp)
    known: dict[tuple[str, ...], int] = {}
    matching = []
    for path in (place.path for place in trace.places.places):
        depth = next((depth for depth, name in enumerate(path, 1) if expression.search(name)), None)
        matching.append(-1 if depth is None else known.setdefault(path[:depth], len(known)))
    name = np.array([*matching, -1], np.intp)[place_of_work(trace, device.work)[kernels]]
    launch = device.work.launch[kernels]
    order = np.argsort(launch, kind="stable")
    begins = (np.diff(launch[order], prepend=-2) != 0) | (np.diff(name[order], prepend=-2) != 0)
    stretch = np.empty(len(kernels), np.intp)
    stretch[order] = np.cumsum(begins) - 1
    return np.where(name >= 0, stretch, -1)


def _matching_ranges(trace: Trace, ranges: Rows, expression: NamePattern) -> Rows:
    codes = np.unique(ranges.codes("name")).tolist()
    wanted = [code for code in codes if code != NO_TEXT and expression.search(trace.strings.text(code) or "")]
    marks = ranges.codes("kind") == trace.strings.code("mark")
    return ranges.where(np.isin(ranges.codes("name"), wanted) & ~marks)


def _launched_in(device: Device, kernels: Positions, ranges: Rows) -> Positions:
    """For each kernel the outermost of the ranges around its launch call, or -1.

    A range counts what its own thread launches, and what threads launch that never open such a range: autograd has
    threads of its own. Threads that do open them, as where each drives a GPU, count for themselves only.
    """
    ranges = ranges.at(np.lexsort((-ranges["end_ns"], ranges["start_ns"])))
    call = device.work.launch[kernels]
    launched = np.flatnonzero(call >= 0)
    calls = device.host.calls.only("pid", "tid").at(call[launched])
    owner, caller = thread(ranges), thread_number(calls["pid"], calls["tid"])
    alone = ~np.isin(caller, owner)
    outermost = np.full(len(kernels), len(ranges), np.intp)
    for outer_group, inner_group, counted in ((owner, caller, ~alone), (ranges["pid"], calls["pid"], alone)):
        bounds = calls["start_ns"][counted], calls["end_ns"][counted], inner_group[counted]
        outer, inner = pairs_inside(ranges["start_ns"], ranges["end_ns"], outer_group, *bounds)
        np.minimum.at(outermost, launched[np.flatnonzero(counted)[inner]], outer)
    outermost[outermost == len(ranges)] = -1
    return outermost


def _no_range(trace: Trace, profile: str, pattern: str) -> NothingRecorded:
    codes, counts = np.unique(spans_of_time(trace).codes("name"), return_counts=True)
    often = trace.strings.decode(codes[np.argsort(-counts, kind="stable")])
    names = list(dict.fromkeys(without_ids(text or "?") for text in often))
    shown = ", ".join(names[:LISTED]) or "there are none"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return NothingRecorded(
        f"{profile}: no range matches '{pattern}'",
        found=f"ranges in the profile: {shown}{more}",
        hint="without ranges, --pattern=REGEX takes kernel names, --auto looks for the mock's sequence",
    )


def matching_names(
    trace: Trace, device: Device, profile: str, mock: OperationKernels, pattern: NamePattern
) -> OperationKernels:
    """Of the mock's kernels those whose names match; what a forward is does not change."""
    matches = trace.strings.each(device.work.name[mock.kernel], lambda name: bool(pattern.search(name)), np.bool_)
    if matches.all():
        return mock
    rest = _names_with_counts(trace, device, mock.kernel[~matches])
    if not matches.any():
        raise no_match(profile, pattern.pattern, f"its kernels: {rest}")
    note = say("{profile}: left out because they do not match the pattern: {kernels}", profile=profile, kernels=rest)
    return OperationKernels(mock.kernel[matches], mock.forward[matches], (*mock.notes, note))


def no_match(profile: str, pattern: str, found: str) -> NothingRecorded:
    """The refusal where no kernel of a side matches."""
    hint = "the pattern is searched in the whole demangled name, of the mock's kernels and of the model's"
    return NothingRecorded(f"{profile}: no kernel matches '{pattern}'", found=found, hint=hint)


def by_pattern(
    trace: Trace, device: Device, profile: str, pattern: str, mock: Sequence[ForwardKernel]
) -> OperationKernels:
    """Kernels whose names match, cut into forwards where the mock's sequence comes again, else where their own does.

    Between two forwards, a kernel that the mock never runs belongs to the one before; one that it does run is another
    use of a common kernel and is left out, which is said.
    """
    kernels = kernels_or_refuse(device, profile)
    expression = NamePattern(pattern)
    kinds, number = _kinds(trace, device, kernels)
    matching = np.array([bool(expression.search(kind.name)) for kind in kinds], np.bool_)[number]
    if not matching.any():
        raise no_match(profile, pattern, most_alike(mock, kinds))
    kernels, number = kernels[matching], number[matching]
    stretches = occurrences(mock, kinds, number)
    if not stretches:
        return OperationKernels(kernels, _by_own_period(device, kernels))
    forward = np.full(len(kernels), -1, np.intp)
    for index, stretch in enumerate(stretches):
        forward[stretch.start : stretch.end] = index
    run_by_mock = {kernel.bare for kernel in mock}
    foreign = np.array([kind.bare not in run_by_mock for kind in kinds], np.bool_)[number]
    before = np.searchsorted([stretch.start for stretch in stretches], np.arange(len(kernels)), side="right") - 1
    forward = np.where((forward < 0) & foreign, before, forward)
    spare = kernels[forward < 0]
    outside = say(
        "{profile}: left out because they match the pattern outside the mock's sequence: {kernels}",
        profile=profile,
        kernels=_names_with_counts(trace, device, spare),
    )
    return OperationKernels(kernels[forward >= 0], forward[forward >= 0], (outside,) if len(spare) else ())


def _names_with_counts(trace: Trace, device: Device, kernels: Positions) -> str:
    """How often kernels of each name run, in words."""
    codes, counts = np.unique(device.work.name[kernels], return_counts=True)
    shown = [
        f"{count_text(count)} x {label(trace.strings.text(code) or '')}"
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    ]
    listed = joined(say(", "), shown[:3])
    return say("{names} and {count} more", names=listed, count=len(shown) - 3) if len(shown) > 3 else listed


def _by_own_period(device: Device, kernels: Positions) -> Positions:
    """Forwards by what repeats inside each step; the step itself where nothing does."""
    names, step = device.work.name[kernels], _steps(device, kernels)
    inside = np.zeros(len(kernels), np.intp)
    for number in np.unique(step).tolist():
        own = np.flatnonzero(step == number)
        if repeats := longest_repeat(names[own]):
            start, period, count = repeats
            inside[own] = np.clip((np.arange(len(own)) - start) // period, 0, count - 1)
    return group(step, inside)[1]


def by_sequence(trace: Trace, device: Device, profile: str, mock: Sequence[ForwardKernel]) -> OperationKernels:
    """Each stretch of the kernel sequence that is like the mock's is a forward."""
    kernels = kernels_or_refuse(device, profile)
    looked = kernels_searched(mock, len(kernels))
    if looked < len(mock):
        raise NothingRecorded(
            f"a mock's forward of {count_text(len(mock))} kernels is too long to be looked for",
            hint="--mock-range=REGEX takes a part of it; --range=REGEX says where the operation is in the model",
        )
    kinds, number = _kinds(trace, device, kernels)
    stretches = occurrences(mock, kinds, number)
    if not stretches:
        raise NothingRecorded(
            f"{profile}: the mock's sequence of {count_text(len(mock))} kernels does not occur",
            found=most_alike(mock, kinds),
            hint="--range=REGEX or --pattern=REGEX says where the operation is",
        )
    cut = say(
        "{profile}: looked for the operation among the first {count} kernels only",
        profile=profile,
        count=count_text(looked),
    )
    unseen = say("found by sequence: what the model runs before the mock's first kernel and after its last is not seen")
    rows = [kernels[stretch.start : stretch.end] for stretch in stretches]
    forward = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return OperationKernels(np.concatenate(rows), forward, (cut, unseen) if looked < len(kernels) else (unseen,))


def _kinds(trace: Trace, device: Device, kernels: Positions) -> tuple[list[ForwardKernel], Positions]:
    """The kernels that differ in name or shape, and which of them each one is."""
    rows = trace[Table.KERNELS].at(device.work.row[kernels])
    grid, block = rows["grid"], rows["block"]
    first, number = group(device.work.name[kernels], *grid.T, *block.T)
    names = [trace.strings.text(code) or "" for code in device.work.name[kernels[first]].tolist()]
    shapes = ((triple(grid[row]), triple(block[row])) for row in first.tolist())
    return [ForwardKernel(name, 0, *shape) for name, shape in zip(names, shapes, strict=True)], number


def most_alike(mock: Sequence[ForwardKernel], kinds: Sequence[ForwardKernel]) -> str:
    """For the mock's longest kernels the nearest one of the model, for a refusal."""
    lines = []
    names = list(dict.fromkeys(kind.name for kind in kinds))
    for name in list(dict.fromkeys(kernel.name for kernel in sorted(mock, key=lambda kernel: -kernel.time_ns)))[:3]:
        nearest = min(names, key=lambda theirs: LEVELS.index(likeness(name, theirs)))
        how = likeness(name, nearest)
        like = f"nearest: {label(nearest)} ({how})" if how != NONE else "nothing like it"
        lines.append(f"{label(name)} of the mock: {like}")
    return "\n".join(lines)


def _forwards(trace: Trace, device: Device, profile: str, operation: OperationKernels) -> Forwards:
    work, kernel, forward = device.work, operation.kernel, operation.forward
    begins = np.full(int(forward.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begins, forward, work.start_ns[kernel])
    used = np.unique(forward)
    number = np.empty(len(begins), np.intp)
    number[used[np.argsort(begins[used], kind="stable")]] = np.arange(len(used))
    order = np.lexsort((work.stream[kernel], work.start_ns[kernel], number[forward]))
    kernel, forward = kernel[order], number[forward[order]]
    rows = trace[Table.KERNELS].only("grid", "block").at(work.row[kernel])
    codes, name = np.unique(work.name[kernel], return_inverse=True)
    steps = device.steps
    begin = work.start_ns[kernel[np.searchsorted(forward, np.arange(len(used)))]]
    step = np.zeros(len(used), np.int64) if steps is None else np.searchsorted(steps.edges_ns, begin, side="right") - 1
    gpus = trace.origin.gpus
    return Forwards(
        profile=profile,
        gpu_name=gpus[device.gpu].name if 0 <= device.gpu < len(gpus) else "",
        rank=trace.origin.rank,
        forward=forward,
        start_ns=work.start_ns[kernel],
        end_ns=work.end_ns[kernel],
        name=name.reshape(-1),
        names=tuple(trace.strings.text(code) or "" for code in codes.tolist()),
        grid=rows["grid"],
        block=rows["block"],
        stream=work.stream[kernel],
        in_graph=work.graph_node[kernel] >= 0,
        step=step,
        found_by="" if steps is None else steps.source,
        notes=operation.notes,
    )


def mock_forwards(
    trace: Trace, profile: str, wanted: Selection, mock_range: str | None = None, isolation: Isolation = _ALL
) -> Forwards:
    """A forward of the mock is a step of it, or a range that matches; with a pattern, what matches of it."""
    devices = analyse_devices(trace, profile, wanted)
    busiest = max(devices, key=lambda device: device.compute_ns)
    operation = by_steps(busiest, profile) if mock_range is None else by_range(trace, busiest, profile, mock_range)
    if isolation.kernel_pattern is not None:
        operation = matching_names(trace, busiest, profile, operation, isolation.kernel_pattern)
    if len(devices) > 1:
        gpus = {"count": len(devices), "gpu": busiest.gpu}
        several = say(
            "{profile}: {count} GPUs in use; GPU {gpu}, the busiest, is taken as the mock", profile=profile, **gpus
        )
        operation = replace(operation, notes=(*operation.notes, several))
    return _forwards(trace, busiest, profile, operation)


def model_forwards(
    trace: Trace, profile: str, wanted: Selection, isolation: Isolation, mock: Sequence[ForwardKernel]
) -> tuple[Forwards, ...]:
    """The operation on every GPU of the model; a GPU that does not run it is left out if another one does."""
    forwards: list[Forwards] = []
    refused: list[NothingRecorded] = []
    for device in analyse_devices(trace, profile, wanted):
        try:
            if isolation.expression is None:
                operation = by_sequence(trace, device, profile, mock)
            elif isolation.by == "range":
                operation = by_range(trace, device, profile, isolation.expression)
            else:
                operation = by_pattern(trace, device, profile, isolation.expression, mock)
        except NothingRecorded as error:
            refused.append(error)
            continue
        forwards.append(_forwards(trace, device, profile, operation))
    if not forwards:
        raise refused[0]
    return tuple(forwards)
