"""A history of runs: profiles in, a run in the store out; and what the store shows: runs, a trend, who changed it."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import Option, VerbArgument

if TYPE_CHECKING:
    from gpuledger.present.views.compare.history import HistoryAnswer

Store: TypeAlias = Annotated[
    Path,
    Option(
        "The folder with the runs, a Parquet file each; it may be a shared one.",
        completes="files",
        environment="GPULEDGER_HISTORY",
    ),
]
Figure: TypeAlias = Annotated[str, VerbArgument("[FIGURE]")]


def add(
    profiles: Annotated[tuple[str, ...], VerbArgument("PROFILE...", completes="files")],
    *,
    store: Store,
    commit: Annotated[str, Option("The commit that ran. Default: the capture's, else this folder's, by git.")] = "",
    machine: Annotated[str, Option("What it ran on. Default: the name of this machine.")] = "",
    clock_mhz: Annotated[
        float | None, Option("The SM clock, if samples lack it.", "--clock", "MHZ", least=1, most=100_000)
    ] = None,
    method: Annotated[str, Option("How it was recorded, besides what the profile says, e.g. 'batch 8'.")] = "",
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> HistoryAnswer:
    """Add a run to the store: one PROFILE, or several of the same commit.

    Each is what `gpuledger diff` takes as a side: a profile, a folder or glob of several, a baseline, the JSON of
    `gpuledger time`. The file gets its name when it is whole, so that many may add at a time.
    """
    from gpuledger.present.views.compare.history import runs_answer
    from gpuledger.verbs.run_store import RunFacts, add_run

    facts = RunFacts(commit, machine=machine or platform.node(), clock_mhz=clock_mhz, method=method)
    run, path = add_run(profiles, store, facts, wanted, limits=limits, progress=progress)
    return runs_answer(store.name, [run], added=path)


def show(*, store: Store) -> HistoryAnswer:
    """List the runs, the oldest commit first."""
    from gpuledger.present.views.compare.history import runs_answer
    from gpuledger.verbs.run_store import read_store

    held = read_store(store)
    return runs_answer(store.name, held.runs, held.damaged)


def trend(figure: Figure = "", *, store: Store) -> HistoryAnswer:
    """Show FIGURE over the runs (default: the step), with its changes: code, method, hardware or noise.

    FIGURE is `step`, `launches`, `memory`, `line:NAME`, `phase:NAME` or `range:NAME`, or a part of one that stands for
    no other. docs/concepts/history.md says how changes are found, and how often that is wrong.
    """
    from gpuledger.present.views.compare.history import trend_answer
    from gpuledger.verbs.run_store import read_store

    held = read_store(store)
    return trend_answer(store.name, held.trend(figure), held.damaged)


def blame(figure: Figure = "", *, store: Store) -> HistoryAnswer:
    """Name the commit of each change of FIGURE (default: the step), and the line, phase, range and kernel that moved.

    Up to five runs on each side of a change are compared as `gpuledger diff` does it.
    """
    from gpuledger.analyse.diff.run_history import NOISE
    from gpuledger.present.views.compare.history import blame_answer
    from gpuledger.verbs.run_store import blamed, read_store

    held = read_store(store)
    found = held.trend(figure)
    changes = [blamed(held, change) for change in found.changes if change.verdict != NOISE]
    return blame_answer(store.name, found, changes, held.damaged)
