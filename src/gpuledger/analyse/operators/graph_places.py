"""Names for the work inside CUDA graphs: where it comes from in the program, as far as a trace can tell.

A graph's kernels carry no operator: they were launched long ago. Two things may tell, in the same trace or in a second
one of the same program. Where the same kernels also ran without a graph, as in a warm-up, a graph's work takes the
annotations, modules and operators of the equal run: same kernels and shapes in the same order. Where the capture
itself was recorded, its launch calls are the graph's nodes in order: call by call where they say which kernel they
launch, else if there are as many. Where several runs or captures fit and differ, what was launched before and after
may tell them apart; if not, only what they agree on is a name, counted from the innermost. Where nothing fits there
is none.

`graph_names` sums the work inside graphs by its place; `named_by_trace` and `named_by_nodes` give a trace the names of
a second file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.operators.graph_launches import (
    MOST_TRIED,
    ComparedSides,
    LaunchedRows,
    LaunchSide,
    Run,
    Runs,
    compare_sides,
    in_order,
)
from gpuledger.analyse.operators.operators import ANNOTATION, OPERATOR, Paths, nest
from gpuledger.attribution.places import place
from gpuledger.attribution.ranges import MODULE as MODULE
from gpuledger.attribution.ranges import Nest, naming_ranges
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import without_numbers
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, thread
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import NAMES_FROM, GraphPlace, GraphPlaces, NameCoverage, Names, Note, Severity, Trace
from gpuledger.trace.spans import parents
from gpuledger.trace.strings import NO_TEXT, torch_frame
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text, share_text

SHORTEST_RUN: Final = 4  # fewer kernels in a row say too little, unless they are the whole graph

LIKELY: Final = 0.7
"""A capture of another file that only has as many calls must give so much of the work the operator that equal work
has elsewhere in the graph."""

EAGER, CAPTURE, ANNOTATED = "equal run", "capture", "annotation"
_DEEPEST: Final = 200  # of so many functions around a call its line of code is looked for


def graph_places(target: LaunchSide, source: LaunchSide, file: str = "") -> GraphPlaces:
    """Where the work in the graphs of `target` comes from, as `source` tells; both may be the same."""
    sides = compare_sides(target, source)
    of_row = np.full(len(target.trace[Table.KERNELS]) + len(target.trace[Table.COPIES]), -1, np.int32)
    places: list[GraphPlace] = []
    if sides.graphs.which:
        namer = _Namer(source, sides, is_other=source is not target)
        of_row[sides.graphs.ordered.row] = namer.numbers() - 1
        places = list(namer.known)
    of_kernel, of_copy = np.split(of_row, [len(target.trace[Table.KERNELS])])
    return GraphPlaces(file, tuple(places), of_kernel, of_copy)


def places_of_nodes(trace: Trace, names_of_node: Mapping[int, Names], file: str) -> GraphPlaces:
    """Where work in graphs comes from, by names that were recorded for the graphs' nodes while they were captured. A
    node's id is what CUDA gives to tools: the graph's number above 32 bits. Some profilers record the two apart."""
    known = [GraphPlace(names, ANNOTATED) for names in dict.fromkeys(names_of_node.values()) if names]
    number = {place.path: position for position, place in enumerate(known)}
    of_node = {node: number[names] for node, names in names_of_node.items() if names}

    def of_rows(table: Table) -> NDArray[np.int32]:
        rows = trace[table]
        node = rows["graph_node"]
        graph = rows["graph"] if "graph" in rows else np.full(len(rows), NOT_RECORDED, np.int64)
        whole = np.where((graph > 0) & (node >= 0) & (node < 1 << 32), graph << 32 | node, node)
        ids, position = np.unique(np.stack((node, whole), axis=1), axis=0, return_inverse=True)
        places = [of_node.get(plain, of_node.get(packed, -1)) for plain, packed in ids.tolist()]
        return np.array([*places, -1], np.int32)[position.reshape(-1)]

    return GraphPlaces(file, tuple(known), of_rows(Table.KERNELS), of_rows(Table.COPIES))


class _CallPlaces:
    """The names around calls, as they enclose each other, and the lines of code that made the calls."""

    def __init__(self, trace: Trace, calls: Rows, used: Positions) -> None:
        rows = naming_ranges(trace, ANNOTATION, OPERATOR)
        paths = Paths(Nest(rows, parents(rows["start_ns"], rows["end_ns"], thread(rows))))
        around = innermost(rows, calls.at(used))
        path, (lines, line) = paths.of_row[around], _code_lines(trace, calls.at(used))
        first, number = group(path, line)
        self.of_call: Final = np.full(len(calls) + 1, -1, np.intp)  # the place of each call, as a number
        self.of_call[used] = number
        self.names: Final[list[Names]] = [paths.names(position) for position in path[first].tolist()]
        """Of each place: annotations, modules and operators."""
        self.lines: Final[list[str]] = [lines[position] for position in line[first].tolist()]
        """Of each place: the line of code; '' where none was recorded."""
        self.inputs_of: Final = np.full(len(calls) + 1, NO_TEXT, np.int32)
        """The text of what each call's innermost operator was given."""
        if len(rows):
            self.inputs_of[used] = np.where(around >= 0, rows.codes("inputs")[around], NO_TEXT)
        self.blocks_of: Final = np.zeros(len(calls) + 1, np.int64)
        """How many blocks each call launched, where it says so."""
        if "blocks" in calls:
            self.blocks_of[used] = np.maximum(calls["blocks"][used], 0)


def _code_lines(trace: Trace, calls: Rows) -> tuple[list[str], Positions]:
    """The lines of code that made these calls, as Python's functions around them tell; and which one each call has."""
    if trace.strings.code("python") not in trace[Table.RANGES].codes("kind"):
        return [""], np.zeros(len(calls), np.intp)
    functions, lines = nest(trace, "python"), {"": 0}
    around, number = np.unique(innermost(functions.rows, calls), return_inverse=True)
    names, above = functions.rows.codes("name"), functions.parent
    of_function = []
    for function in around.tolist():
        frames = list[str]()
        while function >= 0 and len(frames) < _DEEPEST:
            frames.append(torch_frame(trace.strings.text(int(names[function])) or ""))
            function = int(above[function])
        of_function.append(lines.setdefault(place(frames) or "", len(lines)))
    return list(lines), np.array(of_function, np.intp)[number.reshape(-1)]


class _Namer:
    """Numbers places: 0 is none, `known[number - 1]` is the place."""

    def __init__(self, source: LaunchSide, sides: ComparedSides, *, is_other: bool) -> None:
        self._source, self._sides, self._is_other = source, sides, is_other
        self._eager, calls = sides.call, source.calls
        self._places = _CallPlaces(source.trace, calls, np.unique(np.concatenate((self._eager, *sides.captures))))
        annotations = nest(source.trace, ANNOTATION)
        outermost = np.append(annotations.outermost(), -1)[innermost(annotations.rows, calls.at(self._eager))]
        self._crossed = np.cumsum(np.diff(outermost, prepend=-1) != 0)
        self._agreed: dict[tuple[frozenset[int], frozenset[int], frozenset[int], str], int] = {}
        self._numbers: dict[GraphPlace, int] = {}

    @property
    def known(self) -> tuple[GraphPlace, ...]:
        return tuple(self._numbers)

    def numbers(self) -> Positions:
        """For each node of each launch, in order, the number of its place."""
        graphs = self._sides.graphs
        runs = Runs(self._sides.symbol, [nodes.symbol for nodes in graphs.distinct])
        lengths = [len(nodes) for nodes in graphs.distinct]
        whole = in_order(graphs.which, list(runs.occurrences()), lengths, self._is_run_again)
        fitting = [self._fitting_captures(nodes) for nodes in graphs.distinct]
        captured = in_order(graphs.which, fitting, [1] * len(fitting), self._is_captured_again)
        named: dict[tuple[int, int, int], Positions] = {}
        longest = list(runs)
        for number, run, capture in (keys := list(zip(graphs.which, whole, captured, strict=True))):
            if (number, run, capture) not in named:
                nodes = graphs.distinct[number]
                runs_of = longest[number] if run < 0 else [Run(0, len(nodes), np.array([run]))]
                captures = fitting[number] if capture < 0 else np.array([capture])
                named[number, run, capture] = self._node_places(nodes, runs_of, captures)
        return np.concatenate([named[key] for key in keys])

    def _is_run_again(self, number: int, places: list[int]) -> bool:
        """Whether a whole sequence has the same names wherever it occurs."""
        nodes = np.arange(len(self._sides.graphs.distinct[number]))
        return self._are_alike(self._eager[np.array(places[:MOST_TRIED])[:, None] + nodes])

    def _is_captured_again(self, _: int, captures: list[int]) -> bool:
        return self._are_alike(np.stack([self._sides.captures[capture] for capture in captures[:MOST_TRIED]]))

    def _are_alike(self, calls: NDArray[np.intp]) -> bool:
        """Whether the calls of each column were made at the same place."""
        places = self._places.of_call[calls]
        return bool((places == places[0]).all())

    def _node_places(self, nodes: LaunchedRows, runs: Sequence[Run], captures: Positions) -> Positions:
        """For each node of one graph the number of its place: that of its capture, unless an equal run denies it."""
        by_run = self._by_run(len(nodes), runs)
        if not len(captures):
            return by_run
        calls = np.stack([self._sides.captures[capture] for capture in captures.tolist()])
        by_capture = np.array(self._common_places(calls, CAPTURE), np.intp)
        paths: list[Names] = [(), *(place.path for place in self.known)]
        fits = [
            not paths[run] or paths[capture][-len(paths[run]) :] == paths[run]
            for capture, run in zip(by_capture.tolist(), by_run.tolist(), strict=True)
        ]
        return np.where(fits, by_capture, by_run)

    def _by_run(self, length: int, runs: Sequence[Run]) -> Positions:
        """By the longest run around each node; of equal ones, those that cross the fewest outermost annotations."""
        number = np.zeros(length, np.intp)
        for run in sorted(runs, key=lambda run: (-run.length, run.start)):
            if run.length >= min(SHORTEST_RUN, length):
                crossed = self._crossed[run.equal + run.length - 1] - self._crossed[run.equal]
                best = run.equal[crossed == crossed.min()]
                free = np.flatnonzero(number[run.start : run.start + run.length] == 0)
                source = CAPTURE if (best >= self._sides.ran).all() else EAGER
                number[run.start + free] = self._common_places(self._eager[best[:, None] + free], source)
        return number

    def _fitting_captures(self, nodes: LaunchedRows) -> Positions:
        """The captures with as many calls, if the order of execution is that of the capture: on one stream. Those of
        another file must agree in more than their number."""
        if (nodes.stream != nodes.stream[0]).any():
            return np.empty(0, np.intp)
        captures = enumerate(self._sides.captures)
        fitting = [number for number, calls in captures if len(calls) == len(nodes) and self._is_likely(nodes, calls)]
        return np.array(fitting, np.intp)

    def _is_likely(self, nodes: LaunchedRows, calls: Positions) -> bool:
        if not self._is_other:
            return True
        is_copy = self._source.host.are(CallKind.COPY_CALL)[calls]
        if len(calls) < SHORTEST_RUN or (is_copy != nodes.is_copy).any():
            return False
        of_symbol: dict[int, list[Names]] = {}
        for symbol, number in zip(nodes.symbol.tolist(), self._places.of_call[calls].tolist(), strict=True):
            of_symbol.setdefault(symbol, []).append(self._places.names[number][-1:])
        repeated = [names for names in of_symbol.values() if len(names) > 1]
        usual = sum(max(map(names.count, set(names))) for names in repeated)
        return usual >= LIKELY * sum(map(len, repeated))

    def _common_places(self, calls: NDArray[np.intp], source: str) -> list[int]:
        """For each column of `calls`, the number of what their places have in common."""
        known = self._places
        columns = (of_call[calls].T.tolist() for of_call in (known.of_call, known.inputs_of, known.blocks_of))
        return [
            self._agreed_place(frozenset(places), frozenset(inputs), frozenset(blocks), source)
            for places, inputs, blocks in zip(*columns, strict=True)
        ]

    def _agreed_place(self, places: frozenset[int], inputs: frozenset[int], blocks: frozenset[int], source: str) -> int:
        if (places, inputs, blocks, source) not in self._agreed:
            paths = {self._places.names[number] for number in places}
            lines = {self._places.lines[number] for number in places}
            shortest, length = min(paths, key=len), 0  # what all paths end with
            while length < len(shortest) and len({names[-length - 1] for names in paths}) == 1:
                length += 1
            common = shortest[len(shortest) - length :]
            given = self._source.trace.strings.text(min(inputs)) if len(inputs) == 1 else None
            line, launched = lines.pop() if len(lines) == 1 else "", min(blocks) if len(blocks) == 1 else 0
            agreed = GraphPlace(common, source, len(paths) > 1, line, given or "", launched)
            number = self._numbers.setdefault(agreed, len(self._numbers) + 1) if common else 0
            self._agreed[places, inputs, blocks, source] = number
        return self._agreed[places, inputs, blocks, source]


_MODULE_NUMBER: Final = re.compile(r"_\d+$")


class GraphWork(Struct, frozen=True):
    """What one place in the program does inside graphs."""

    path: Names | None  # annotations, modules and operators, the outermost first; None: not known
    source: str | None  # how it is known
    where: str | None  # the line of code, where stacks were recorded
    count: int
    device_ns: int


class GraphNames(Struct, frozen=True):
    """The work of the graphs launched in the steady stretch of one GPU."""

    launches: int
    work: tuple[GraphWork, ...]  # by GPU time, the longest first

    @property
    def device_ns(self) -> int:
        return sum(work.device_ns for work in self.work)

    @property
    def named_ns(self) -> int:
        return sum(work.device_ns for work in self.work if work.path is not None)

    @property
    def named_share(self) -> float | None:
        """Coverage: the share of the graphs' GPU time that has a name."""
        return self.named_ns / self.device_ns if self.device_ns else None


def graph_names(trace: Trace, device: Device) -> GraphNames:
    """The work inside graphs by its place, as the second file tells it, or else the profile itself."""
    side = LaunchSide(trace, device.host, device.work)
    if not side.may_have_graphs and not len(trace[Table.GRAPHS]):
        return GraphNames(0, ())
    places = trace.places or graph_places(side, side)
    work = side.rows(np.zeros(len(side.call), np.intp))
    mine = np.flatnonzero(work.in_graph & (work.gpu == device.gpu))
    mine = mine[np.lexsort((work.stream[mine], work.start_ns[mine], work.launch[mine]))]
    launch = np.flatnonzero(np.diff(work.launch[mine], prepend=-1))
    steady = device.begins_steady(work.start_ns[mine[launch]])
    mine = mine[np.repeat(steady, np.diff(launch, append=len(mine)))]
    alike: dict[GraphPlace, int] = {}  # whatever their operators were given
    bare = (replace(place, inputs="", blocks=0) for place in places.places)
    of_place = [alike.setdefault(place, number) for number, place in enumerate(bare)]
    place = np.array([*of_place, -1])[np.concatenate((places.of_kernel, places.of_copy))[work.row[mine]]]
    first, number = group(place)
    sums = sweep.sums(number, work.end_ns[mine] - work.start_ns[mine], len(first))
    amounts = zip(np.bincount(number, minlength=len(first)).tolist(), sums.tolist(), strict=True)
    known = [places.places[position] if position >= 0 else None for position in place[first].tolist()]
    by_place = [
        GraphWork(place and place.path, place and place.source, (place and place.where) or None, count, time_ns)
        for place, (count, time_ns) in zip(known, amounts, strict=True)
    ]
    opaque = trace[Table.GRAPHS]
    opaque = opaque.where((opaque["gpu"] == device.gpu) & device.begins_steady(opaque["start_ns"]))
    if len(opaque):
        by_place.append(GraphWork(None, None, None, len(opaque), int(np.maximum(opaque.duration_ns, 0).sum())))
    by_place.sort(key=lambda work: (-work.device_ns, work.path or (), work.source or "", work.where or ""))
    return GraphNames(int(steady.sum()) + len(opaque), tuple(by_place))


def of_any_layer(name: str) -> str:
    """Without the number that tells equal ones apart; a number in a class's or an operator's name is part of it."""
    if name.startswith(MODULE):
        return _MODULE_NUMBER.sub("_#", name)
    return name if "::" in name else without_numbers(name)


LEAST_SHARE: Final = 0.5  # of the time inside graphs so much must get a name
ENOUGH_SHARE: Final = 0.95  # with less than so much, numbers by name are incomplete


def named_by_trace(trace: Trace, profile: str, other: Trace, file: str) -> Trace:
    """The trace, with names inside its graphs from another trace of the same program."""
    side = _with_graphs(trace, profile)
    return _with_places(trace, profile, side, graph_places(side, LaunchSide.of(other), file))


def named_by_nodes(trace: Trace, profile: str, names_of_node: Mapping[int, Names], file: str) -> Trace:
    """The trace, with names that were recorded by the graphs' nodes."""
    side = _with_graphs(trace, profile)
    return _with_places(trace, profile, side, places_of_nodes(trace, names_of_node, file))


def _with_graphs(trace: Trace, profile: str) -> LaunchSide:
    side = LaunchSide.of(trace)
    if side.in_graph.any():
        return side
    if len(trace[Table.GRAPHS]):
        raise NothingRecorded(
            f"{profile}: graphs were traced as a whole, so there are no kernels in them to name",
            hint="record with `gpuledger capture nsys`, or `nsys profile --cuda-graph-trace=node`",
        )
    raise NothingRecorded(
        f"{profile}: no kernel ran in a CUDA graph, so there is nothing to name",
        hint="leave --names-from out: what ran by itself has its own names",
    )


def coverage(side: LaunchSide, places: GraphPlaces) -> NameCoverage:
    """How much of the work inside a trace's graphs these places name."""
    work = side.rows(np.zeros(len(side.call), np.intp))
    mine = np.flatnonzero(work.in_graph)
    place = np.concatenate((places.of_kernel, places.of_copy))[work.row[mine]]
    time, has_name = (work.end_ns - work.start_ns)[mine], place >= 0
    is_part: NDArray[np.bool_] = np.array([*(place.is_part for place in places.places), False], np.bool_)
    return NameCoverage(
        len(mine), int(has_name.sum()), int(time.sum()), int(time[has_name].sum()), int(is_part[place].sum())
    )


def _with_places(trace: Trace, profile: str, side: LaunchSide, places: GraphPlaces) -> Trace:
    covered = coverage(side, places)
    if covered.named_share < LEAST_SHARE:
        raise NothingRecorded(
            f"{places.file} does not name the graphs of {profile}: is it of the same model, at the same size?",
            found=f"{count_text(covered.named)} of {count_text(covered.count)} kernels and copies in graphs would get "
            f"a name, {share_text(covered.named_share)} of their time; less than {share_text(LEAST_SHARE)} is not used",
            hint="give a trace of the same program in which the graph is captured, or runs without a graph, "
            "with the same batch size",
        )
    places = replace(places, coverage=covered)
    return replace(trace, places=places, health=(*trace.health, _note(places, covered)))


def _note(places: GraphPlaces, covered: NameCoverage) -> Note:
    text = say(
        "names inside graphs are from {file}: {named} of {count} kernels and copies in graphs have one, "
        "{share} of their time",
        file=places.file,
        named=count_text(covered.named),
        count=count_text(covered.count),
        share=share_text(covered.named_share),
    )
    if covered.in_part:
        text = say(
            "{told}; for {count} several places fit, and only the names that these agree on are given",
            told=text,
            count=count_text(covered.in_part),
        )
    severity = Severity.INFO if covered.named_share >= ENOUGH_SHARE else Severity.WARNING
    return Note(severity, NAMES_FROM, text, covered.count - covered.named)
