"""Operators: what each launched on one GPU, and what it cost on the host.

GPU work belongs to the innermost operator, and to the innermost annotation of the user, that its launch call lies in on
the same thread; autograd's operators run on threads of their own. Of a graph, all work belongs to what is around its
launch; `graph_names` says more. `self` is what has an operator as its innermost one, `total` includes the operators
inside; where operators of one name nest, the name's total counts the outermost.

All figures are of the steady stretch: GPU work that begins in it, and the operators that launched such work. Operators
that launched nothing count with the operator around them, or if they begin in the stretch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.attribution.ranges import Nest, levels
from gpuledger.catalog.kernel_names import emitted_operator
from gpuledger.catalog.kernel_types import torch_type
from gpuledger.catalog.range_names import PROFILER_STEP
from gpuledger.ledger.activity import GRAPH_FAMILY, Activities, State
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import innermost, thread
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group, is_among, leave_out, same
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, parents, shares_in_order
from gpuledger.trace.strings import NO_TEXT, Codes, Strings
from gpuledger.trace.tables import Rows, Table

Flags = NDArray[np.bool_]

OPERATOR, ANNOTATION = "op", "push_pop"
_LONGEST_PATH: Final = 16


class OpGroup(Struct, frozen=True):
    """The operators of one name, or of one name and inputs."""

    name: str
    inputs: str | None  # as recorded; None where it was not, and for groups by name
    count: int
    host_ns: int
    host_self_ns: int
    device_ns: int
    device_self_ns: int
    kernels: int  # kernels launched inside, those of graphs included
    launches: int  # calls inside that launched GPU work, a graph being one


class Ops(Struct, frozen=True, eq=False):
    """One GPU's work by operator."""

    by_name: tuple[OpGroup, ...]
    by_inputs: tuple[OpGroup, ...]  # both by GPU time of their own, the longest first
    device_ns: int  # GPU time in all, durations added up
    attributed_ns: int  # of it, what an operator launched
    annotated_ns: int  # of it, what was launched inside an annotation of the user; torch's marks of steps are none
    annotations: int  # how many such annotations the trace holds
    nest: Nest  # every operator of the trace
    counted: Flags  # which operators are in the figures
    own_ns: Ints  # GPU time launched with an operator as the innermost one
    whole_ns: Ints  # GPU time launched anywhere inside an operator
    activity: Positions  # the GPU's activities of the stretch, as positions in the device's `found`
    innermost: NDArray[np.int32]  # for each of them its operator as a position in `nest`; -1 for none

    @property
    def attributed_share(self) -> float | NotMeasured:
        return self._share(self.attributed_ns) if len(self.nest) else NotMeasured(say("no operators were recorded"))

    @property
    def annotated_share(self) -> float | NotMeasured:
        return self._share(self.annotated_ns) if self.annotations else NotMeasured(say("no annotations were recorded"))

    def _share(self, part_ns: int) -> float | NotMeasured:
        return part_ns / self.device_ns if self.device_ns else NotMeasured(say("nothing ran on the GPU"))


def nest(trace: Trace, kind: str) -> Nest:
    """The trace's ranges of one kind."""
    ranges = trace[Table.RANGES]
    code = trace.strings.code(kind)
    mine = np.flatnonzero(ranges.codes("kind") == code) if code != NO_TEXT else np.empty(0, np.intp)
    return nested(ranges.at(mine), ranges, mine)


def nested(rows: Rows, ranges: Rows, mine: Positions) -> Nest:
    """These rows, which are some of the ranges."""
    place = np.full(len(ranges) + 1, -1, np.intp)  # the last one is for -1
    place[mine] = np.arange(len(mine))
    return Nest(rows, place[ranges["parent"][mine]] if len(mine) else mine)


def emitted_ranges(ranges: Rows, there: Positions) -> tuple[Positions, Rows]:
    """Which of these ranges PyTorch emitted for operators; and these, with their bare names and inputs."""
    names = ranges.codes("name")[there]
    codes = [code for code in ranges.strings.distinct(names) if code != NO_TEXT]
    told = {code: emitted for code in codes if (emitted := emitted_operator(ranges.strings.text(code) or ""))}
    there = there[is_among(names, list(told))]
    first, number = group(ranges.codes("name")[there])
    texts = [told[code] for code in ranges.codes("name")[there[first]].tolist()]
    return there, _renamed(ranges.only("start_ns", "end_ns", "pid", "tid").at(there), texts, number)


def _renamed(rows: Rows, texts: Sequence[tuple[str, str]], number: Positions) -> Rows:
    """The ranges with other names and inputs, of which each has one pair."""
    strings = Strings(dict.fromkeys(text for pair in texts for text in pair))
    columns = {column: rows[column] for column in ("start_ns", "end_ns", "pid", "tid")}
    for at, column in enumerate(("name", "inputs")):
        codes = [strings.code(pair[at]) if pair[at] else NO_TEXT for pair in texts]
        columns[column] = np.array(codes, np.int32)[number]
    return Rows(rows.schema, columns, strings)


def with_types(rows: Rows, operator: Positions, kernels: Codes, texts: Strings) -> Rows:
    """Emitted ranges, which hold sizes: with the type that the names of their kernels say, where they say one.
    `operator` and `kernels` are of activities: which of the rows launched each, and its name."""
    first, number = group(rows.codes("name"), rows.codes("inputs"))
    has_sizes = np.append(rows.codes("inputs") != NO_TEXT, np.False_)  # the last one is for -1
    launched = np.flatnonzero(has_sizes[operator])
    once = launched[group(number[operator[launched]], kernels[launched])[0]]
    said: dict[int, set[str]] = {}
    for kind, code in zip(number[operator[once]].tolist(), kernels[once].tolist(), strict=True):
        if (named := torch_type(texts.text(code) or "")) is not None:
            said.setdefault(kind, set()).add(named)
    names, inputs = (rows.strings.decode(rows.codes(key)[first]) for key in ("name", "inputs"))
    typed = [
        (name or "", _typed(given or "", said.get(kind, set())))
        for kind, (name, given) in enumerate(zip(names, inputs, strict=True))
    ]
    return _renamed(rows, typed, number)


def _typed(sizes: str, types: set[str]) -> str:
    """Sizes as JSON, and behind them for each the one type; as they are where there is none, or several."""
    try:
        count = len(json.loads(sizes)) if sizes and len(types) == 1 else 0
    except (ValueError, RecursionError):
        return sizes
    return f"{sizes}\n{json.dumps([*types] * count)}" if count else sizes


def _emitted(trace: Trace) -> tuple[Nest, Nest]:
    """Operators that PyTorch emitted as annotations, and the other annotations."""
    ranges = trace[Table.RANGES]
    there = np.flatnonzero(ranges.codes("kind") == trace.strings.code(ANNOTATION))
    mine, rows = emitted_ranges(ranges, there)
    others = there[~is_among(there, mine)]
    return nested(rows, ranges, mine), nested(ranges.at(others), ranges, others)


def _around_launches(trace: Trace, work: Activities, host: Host) -> tuple[Nest, Nest, bool, NDArray[np.int32]]:
    """The operators, the annotations, whether operators were recorded, and the innermost of both around each launch."""
    operators, annotations = nest(trace, OPERATOR), nest(trace, ANNOTATION)
    is_recorded = len(operators) > 0
    if not is_recorded:
        operators, annotations = _emitted(trace)
    used = leave_out(work.launch, np.array([-1]))
    around = np.full((2, len(host.calls) + 1), -1, np.int32)  # the last column is for work without a call
    around[0, used] = innermost(operators.rows, host.calls, at=used)
    around[1, used] = innermost(annotations.rows, host.calls, at=used)
    return operators, annotations, is_recorded, around


def ops(trace: Trace, device: Device) -> Ops:
    """The operators of the steady stretch and their work on one GPU."""
    activities, host = device.work, device.host
    launching = activities.launch
    operators, annotations, is_recorded, around = host.once(_around_launches, trace, activities, host)
    steady = activities.on(device.gpu)
    steady = steady[device.begins_steady(activities.start_ns[steady])]
    length, call = activities.end_ns[steady] - activities.start_ns[steady], launching[steady]
    operator = around[0, call]
    if len(operators) and not is_recorded:
        operators = Nest(with_types(operators.rows, operator, activities.name[steady], trace.strings), operators.parent)
    annotation_path = host.once(Paths, annotations).of_row
    annotated = annotation_path[around[1, call]] >= 0
    is_graph = activities.family[steady] == activities.families.index(GRAPH_FAMILY)
    is_kernel = (activities.state[steady] != State.COPY) & ~is_graph
    launched = around[0, leave_out(call, np.array([-1]))]
    amounts_of = (  # GPU time, kernels, launches, activities of the stretch, activities at all
        (operator, length),
        (operator, is_kernel),
        (launched, same(1, len(launched))),
        (operator, same(1, len(operator))),
        (around[0, launching], same(1, len(launching))),
    )
    own = np.stack([sweep.sums(of, amount, len(operators)) for of, amount in amounts_of], axis=1)
    whole = operators.summed_up(own)
    # 1 or 0 where an operator's work says so, else as the nearest one around it
    by_work = operators.handed_down(np.where(whole[:, 4] > 0, whole[:, 3] > 0, -1))
    counted = np.where(by_work >= 0, by_work > 0, device.begins_steady(operators.rows["start_ns"]))
    name = operators.rows.codes("name")
    return Ops(
        by_name=_op_groups(operators, (name,), counted, own, whole),
        by_inputs=_op_groups(operators, (name, operators.rows.codes("inputs")), counted, own, whole),
        device_ns=int(length.sum()),
        attributed_ns=int(length[operator >= 0].sum()),
        annotated_ns=int(length[annotated].sum()),
        annotations=int((annotation_path >= 0).sum()),
        nest=operators,
        counted=counted,
        own_ns=own[:, 0],
        whole_ns=whole[:, 0],
        activity=steady,
        innermost=operator,
    )


def _op_groups(
    operators: Nest, keys: tuple[Codes, ...], counted: Flags, own: NDArray[np.int64], whole: NDArray[np.int64]
) -> tuple[OpGroup, ...]:
    rows = operators.rows
    first, number = group(*keys)
    # an operator inside another one of its group is in that one's totals already
    _, on_thread = group(number, thread(rows))
    top = counted & (parents(rows["start_ns"], rows["end_ns"], on_thread) < 0)
    in_counted, in_top = np.where(counted, number, -1), np.where(top, number, -1)
    host_ns = np.maximum(rows.duration_ns, 0)
    amounts_of = (
        (in_counted, np.ones(len(rows), np.int64)),
        (in_top, host_ns),
        (in_counted, _host_self_ns(operators, host_ns)),
        (in_top, whole[:, 0]),
        (in_counted, own[:, 0]),
        (in_top, whole[:, 1]),
        (in_top, whole[:, 2]),
    )
    columns = [sweep.sums(of, values, len(first)).tolist() for of, values in amounts_of]
    names, *inputs = (rows.strings.decode(key[first]) for key in keys)
    groups = [
        OpGroup(name or "?", recorded, *amounts)
        for name, recorded, *amounts in zip(names, inputs[0] if inputs else [None] * len(first), *columns, strict=True)
        if amounts[0]
    ]
    return tuple(
        sorted(groups, key=lambda op: (-op.device_self_ns, -op.device_ns, -op.host_self_ns, op.name, op.inputs or ""))
    )


def _host_self_ns(operators: Nest, host_ns: Ints) -> Ints:
    """Time of each operator outside the operators in it; those that overlap each other count once."""
    start, parent = operators.rows["start_ns"], operators.parent
    child = np.flatnonzero(parent >= 0)
    # operators one after the other on a line, so that children of one cannot touch those of another
    place = np.cumsum(host_ns) - host_ns
    begin = place[parent[child]] + start[child] - start[parent[child]]
    order = np.argsort(begin, kind="stable")
    child, begin = child[order], begin[order]
    own_start, own_end = shares_in_order(begin, begin + host_ns[child])
    return host_ns - sweep.sums(parent[child], own_end - own_start, len(host_ns))


class Paths:
    """The names from the outermost range of a nest down to each row; marks of steps are left out."""

    def __init__(self, ranges: Nest) -> None:
        self._strings = ranges.rows.strings
        names = ranges.rows.codes("name")
        is_step = self._strings.each(names, lambda name: bool(PROFILER_STEP.match(name)), np.bool_)
        self.of_row: Final = np.full(len(ranges) + 1, -1, np.intp)
        """For each row the number of its path; -1 for none, also at the end, for row -1."""
        self._above: list[int] = []
        self._name: list[int] = []
        for here in levels(ranges.parent):
            above = self.of_row[ranges.parent[here]]
            first, number = group(above, names[here])
            self.of_row[here] = np.where(is_step[here], above, len(self._name) + number)
            self._above += above[first].tolist()
            self._name += names[here][first].tolist()

    def names(self, path: int) -> tuple[str, ...]:
        """The names of one path, the outermost first; of a very long one the innermost."""
        names: list[str] = []
        while path >= 0 and len(names) < _LONGEST_PATH:
            names.append(self._strings.text(self._name[path]) or "?")
            path = self._above[path]
        return tuple(reversed(names))
