"""Names inside graphs from a second file: a trace and another of the same program in, the trace with its names out.

How much has a name is told with every answer. A file that names less than half of the graphs' time is of another
program, or of another size of it: it is refused, as a few kernels in a row are equal in many programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.graph_launches import LaunchSide
from gpuledger.analyse.operators.graph_places import graph_places, places_of_nodes
from gpuledger.errors import NothingRecorded
from gpuledger.messages import say
from gpuledger.trace.graph_places import GraphPlaces, NameCoverage, Names
from gpuledger.trace.health import NAMES_FROM, Note, Severity
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text

LEAST_SHARE: Final = 0.5
"""Of the time inside graphs so much must get a name."""
ENOUGH_SHARE: Final = 0.95
"""With less than so much, numbers by name are incomplete."""


def named_by_trace(trace: Trace, profile: str, other: Trace, file: str) -> Trace:
    """The trace, with names inside its graphs from another trace of the same program."""
    side = _with_graphs(trace, profile)
    return _named(trace, profile, side, graph_places(side, LaunchSide.of(other), file))


def named_by_nodes(trace: Trace, profile: str, names_of_node: Mapping[int, Names], file: str) -> Trace:
    """The trace, with names that were recorded by the graphs' nodes."""
    side = _with_graphs(trace, profile)
    return _named(trace, profile, side, places_of_nodes(trace, names_of_node, file))


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
    is_part: NDArray[np.bool_] = np.array([*(told.is_part for told in places.places), False], np.bool_)
    return NameCoverage(
        len(mine), int(has_name.sum()), int(time.sum()), int(time[has_name].sum()), int(is_part[place].sum())
    )


def _named(trace: Trace, profile: str, side: LaunchSide, places: GraphPlaces) -> Trace:
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
    told = say(
        "names inside graphs are from {file}: {named} of {count} kernels and copies in graphs have one, "
        "{share} of their time",
        file=places.file,
        named=count_text(covered.named),
        count=count_text(covered.count),
        share=share_text(covered.named_share),
    )
    if covered.in_part:
        told = say(
            "{told}; for {count} several places fit, and only the names that these agree on are given",
            told=told,
            count=count_text(covered.in_part),
        )
    severity = Severity.INFO if covered.named_share >= ENOUGH_SHARE else Severity.WARNING
    return Note(severity, NAMES_FROM, told, covered.count - covered.named)
