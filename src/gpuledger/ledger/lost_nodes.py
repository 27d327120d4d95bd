"""Nodes that are missing from graphs: activities in; launches that show fewer nodes than others of their graph out.

Every launch of a graph runs all of its nodes, so what some launches show, all must. CUPTI's id of a node holds its
graph's in the upper half; where a profile does not number nodes so, as most of torch.profiler's, nothing can be told.
A graph that runs a node twice in a launch has loops, and a node that is missing far more often than its like is
conditional: neither is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.device_operations import CHANGES_GRAPHS
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.trace import sweep
from gpuledger.trace.columns import distinct, is_same
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows

_GRAPH_ID: Final = 32
"""Bits of a node's id below its graph's."""

_FAR_MORE: Final = 6.0
_A_FEW: Final = 3
"""A node that is missing from more launches than the median node by so many standard deviations, and a few, is
conditional."""


@dataclass(frozen=True, slots=True)
class LostNodes:
    """Graph launches that lack nodes, as positions among the host's CUDA calls, and what all launches should show."""

    calls: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    missing: int = 0
    expected: int = 0
    """Nodes of all launches of graphs that lack some, those that are missing with them."""


def has_nodes(work: Activities) -> bool:
    """Whether any activity may be a node of a graph."""
    return not (is_same(work.graph_node) and work.graph_node[0] < 0)


def lost_nodes(
    host: Host,
    work: Activities,
    launches_graph: NDArray[np.bool_],
    recorded: Callable[[Positions], Positions],
) -> LostNodes:
    """Which graph launches lack nodes; `recorded` gives those launches whose work lies in the recording."""
    node = work.graph_node
    if not launches_graph.any() or not has_nodes(work):
        return LostNodes()
    names = host.calls.codes("name")
    if host.calls.strings.each(names, lambda name: int(bool(CHANGES_GRAPHS.search(name)))).any():
        return LostNodes()
    rows = np.flatnonzero((node >> _GRAPH_ID > 0) & (work.launch >= 0))
    rows = rows[launches_graph[work.launch[rows]]]
    rows = rows[_is_uneven(host.calls, work.launch[rows], node[rows] >> _GRAPH_ID)]
    calls, missing, expected = [], 0, 0
    first, number = group(work.pid[rows], node[rows] >> _GRAPH_ID)
    for graph in range(len(first)):
        own = rows[number == graph]
        launched = recorded(distinct(work.launch[own]).astype(np.intp))
        own = own[np.isin(work.launch[own], launched)]
        lacking = _lacking(work.launch[own], node[own])
        calls.append(lacking.calls)
        missing, expected = missing + lacking.missing, expected + lacking.expected
    return LostNodes(distinct(np.concatenate(calls)), missing, expected) if missing else LostNodes()


def _is_uneven(calls: Rows, launch: Positions, graph: Ints) -> NDArray[np.bool_]:
    """Which nodes are of graphs whose launches do not all show as many; launches of several graphs go by the first."""
    count = np.bincount(launch, minlength=len(calls))
    launched = np.flatnonzero(count)
    of_launch = sweep.fold("least", launch, graph, np.full(len(calls), np.iinfo(np.int64).max))[launched]
    first, number = group(calls["pid"][launched], of_launch)
    fewest = sweep.fold("least", number, count[launched], np.full(len(first), np.iinfo(np.int64).max))
    most = sweep.fold("most", number, count[launched], np.zeros(len(first), np.int64))
    uneven = np.zeros(len(calls), np.bool_)
    uneven[launched] = (fewest < most)[number]
    return uneven[launch]


def _lacking(launch: Positions, node: Ints) -> LostNodes:
    """What the launches of one graph lack."""
    if not len(launch):
        return LostNodes()
    node_first, node_number = group(node)
    launch_first, launch_number = group(launch)
    pairs = node_number * len(launch_first) + launch_number
    if len(distinct(pairs)) < len(pairs):  # a loop runs a node twice
        return LostNodes()
    absent = len(launch_first) - np.bincount(node_number, minlength=len(node_first))
    usual = float(np.median(absent))
    in_all = absent <= usual + _FAR_MORE * np.sqrt(usual) + _A_FEW
    nodes = int(np.count_nonzero(in_all))
    lack = nodes - np.bincount(launch_number, weights=in_all[node_number]).astype(np.int64)
    return LostNodes(launch[launch_first[lack > 0]], int(lack.sum()), nodes * len(launch_first))
