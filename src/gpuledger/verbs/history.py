"""A history of runs: profiles in, a run in the store out; and what the store shows: runs, a trend, who changed it.

The store is a folder of Parquet files, one per run, a row per figure: `SELECT * FROM 'store/*.parquet'` in DuckDB. What
`diff` compares is kept with each run, so that a change can be taken apart later.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuledger.analyse.diff.baseline import baseline_json, read_baseline
from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide, pool_runs
from gpuledger.analyse.phase_costs import phase_costs
from gpuledger.analyse.run_history import (
    NEAREST,
    NOISE,
    BlamedChange,
    LevelChange,
    RunFigure,
    StoredRun,
    Trend,
    side_figures,
)
from gpuledger.analyse.run_history import trend as figure_trend
from gpuledger.capture.manifest import commit_of, utc
from gpuledger.errors import GpuledgerError, NothingRecorded, ToolFailed, UnreadableProfile
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import joined
from gpuledger.present.document import Document
from gpuledger.present.views.history import blame_document, history_comment, runs_document, trend_document
from gpuledger.read.plain_window import manifest_of
from gpuledger.records import dataclass
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.system.parquet_rows import ENDING, read_rows, write_rows
from gpuledger.system.processes import run as run_program
from gpuledger.trace.model import NotMeasured, Origin, Trace
from gpuledger.verbs.diff import Sides
from gpuledger.verbs.shown import ShownAnswer, ShownResult
from gpuledger.version import own_version

_OF_RUN: Final = {
    **dict.fromkeys(("run", "date_utc", "commit", "commit_utc", "subject"), "string"),
    "is_dirty": "bool",
    **dict.fromkeys(("machine", "gpu", "driver"), "string"),
    "clock_hz": "double",
    **dict.fromkeys(("tool", "method"), "string"),
    "steps": "int64",
    "gpuledger": "string",
}
_OF_FIGURE: Final = {"figure": "string", "unit": "string", "value": "double", "low": "double", "high": "double"}
_BASELINE: Final = {"baseline": "string"}
"""Of the first row alone: what `diff --save-baseline` writes."""

_GIT_S: Final = 10.0
_MOST_COMMITS: Final = 20


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the user says of a run; what is not said is taken from the profile, its manifest, git and this machine."""

    commit: str = ""
    date_utc: str = ""
    machine: str = ""
    clock_hz: float | None = None
    method: str = ""


def add_run(
    profiles: Sequence[str],
    store: Path,
    facts: RunFacts,
    wanted: Selection | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> tuple[StoredRun, Path]:
    """Profiles, which are runs of the same, as one run in the store; and its file."""
    origins, phase_ns, whole_steps = list[Origin](), defaultdict[str, float](float), 0

    def look(trace: Trace, device: Device) -> None:
        nonlocal whole_steps
        origins.append(trace.origin)
        whole_steps += device.step_count if device.steps is not None else 1
        for phase in phase_costs(trace, device).phases:
            phase_ns[phase.phase] += phase.busy_ns

    sides = Sides(wanted or Selection(), progress, limits, look)
    side = pool_runs([sides.read(profile) for profile in profiles], Path(profiles[0]).name)
    origin = origins[0] if origins else None
    manifest = manifest_of(Path(profiles[0])) if Path(profiles[0]).is_file() else NotMeasured("")
    known: dict[str, Any] = {} if isinstance(manifest, NotMeasured) else manifest
    date_utc = facts.date_utc or known.get("started_utc") or (origin and origin.started_utc) or utc(time.time())
    phases = {name: ns / whole_steps for name, ns in phase_ns.items() if ns}
    commit, commit_utc, subject, is_dirty = _commit(facts.commit, known.get("git"))
    asked_for = ",".join(sorted((origin and origin.asked_for) or ()))
    run = StoredRun(
        run=f"{date_utc[:19].replace(':', '').replace('-', '')}-{(commit or 'run')[:10]}-{secrets.token_hex(4)}",
        date_utc=date_utc,
        commit=commit,
        commit_utc=commit_utc or date_utc,
        subject=subject,
        is_dirty=is_dirty,
        machine=facts.machine,
        gpu=side.gpu_name or "",
        driver=(origin and origin.driver_version) or "",
        clock_hz=facts.clock_hz or side.busy_clock_hz or side.clock_hz,
        tool=f"{side.tool} {(origin and origin.tool_version) or ''}".strip(),
        method="; ".join(part for part in (facts.method, " ".join(known.get("presets", ())), asked_for) if part),
        steps=side.steps,
        gpuledger=own_version(),
        figures=side_figures(side, phases),
    )
    of_run = {name: getattr(run, name) for name in _OF_RUN}
    rows = [
        {**of_run, "figure": name, **{part: getattr(figure, part) for part in ("unit", "value", "low", "high")}}
        for name, figure in run.figures.items()
    ]
    rows[0]["baseline"] = msgspec.json.encode(baseline_json(side)).decode()
    path = store / f"{run.run}{ENDING}"
    write_rows(path, {**_OF_RUN, **_OF_FIGURE, **_BASELINE}, rows)
    return run, path


def _commit(given: str, recorded: dict[str, Any] | None) -> tuple[str, str, str, bool]:
    """Its name, when it was made, its first line, and whether files differed from it; '' where that is not known."""
    here = None if given or recorded else commit_of(Path())
    name = given or (recorded or {}).get("commit") or (here.commit if here else "")
    is_dirty = not given and bool((recorded or {}).get("dirty") or (here and here.is_dirty))
    told = _git("log", "-1", "--format=%H%n%ct%n%s", name, "--") if name and not name.startswith("-") else []
    if len(told) < 2 or not told[1].isdecimal():
        return name, "", "", is_dirty
    return told[0], utc(int(told[1])), "\n".join(told[2:]), is_dirty


def _git(*words: str) -> list[str]:
    """The lines that git says here; none where there is no git, or it does not know."""
    try:
        ran = run_program(["git", *words], seconds=_GIT_S)
    except ToolFailed:
        return []
    return ran.output.splitlines() if ran.exit_code == 0 else []


@dataclass(frozen=True, slots=True)
class RunStore:
    """All runs of a store in the order of their commits, and what is wrong with files that are not among them."""

    path: Path
    runs: tuple[StoredRun, ...]
    damaged: tuple[str, ...]

    def side(self, run: StoredRun) -> RunSide:
        """What `diff` compares of a run."""
        path = self.path / f"{run.run}{ENDING}"
        return read_baseline(str(read_rows(path, _BASELINE)[0]["baseline"]).encode(), path.name)


def read_store(store: Path) -> RunStore:
    """Every run; a file that cannot be read is named, and left out."""
    if not store.is_dir():
        raise UnreadableProfile(f"{store}: is no folder", hint="`gpuledger history add PROFILE --store=DIR` makes one")
    runs, damaged = list[StoredRun](), list[str]()
    for path in sorted(store.glob(f"*{ENDING}")):
        try:
            rows = read_rows(path, {**_OF_RUN, **_OF_FIGURE})
            run = _stored(rows)
        except (UnreadableProfile, TypeError) as error:
            damaged.append(getattr(error, "claim", f"{path.name}: {error}"))
            continue
        if run.run != path.stem:
            damaged.append(f"{path.name}: holds the run {run.run}")
        else:
            runs.append(run)
    return RunStore(store, tuple(sorted(runs, key=lambda run: run.place)), tuple(damaged))


def _stored(rows: Sequence[dict[str, Any]]) -> StoredRun:
    figures = {row["figure"]: RunFigure(row["value"], row["unit"], row["low"], row["high"]) for row in rows}
    first = {part.name: rows[0][part.name] for part in fields(StoredRun) if part.name != "figures"}
    if lacking := [name for name, value in first.items() if value is None and name != "clock_hz"]:
        raise TypeError(f"the run has no {lacking[0]}")
    if any(name is None or figure.value is None or figure.unit is None for name, figure in figures.items()):
        raise TypeError("a figure has no name, value or unit")
    return StoredRun(**first, figures=figures)


def show_runs(store: Path) -> ShownAnswer[StoredRun]:
    """The runs of a store, the oldest commit first."""
    held = read_store(store)
    return ShownAnswer(held.runs, lambda: runs_document(store.name, held.runs, held.damaged))


def show_trend(store: Path, figure: str = "") -> ShownAnswer[Trend]:
    """One figure over the runs, with what changed it; the step where none is named."""
    held = read_store(store)
    found = figure_trend(held.runs, _figure(held, figure))
    return ShownAnswer((found,), lambda: trend_document(store.name, found, held.damaged))


@dataclass(frozen=True, slots=True, repr=False)
class Blame(ShownResult):
    """The changes of a figure, each with the commits that may have made it and the comparison of its two sides."""

    store: RunStore
    trend: Trend
    changes: tuple[BlamedChange, ...]

    def document(self) -> Document:
        return blame_document(self.store.path.name, self.trend, self.changes, self.store.damaged)

    def comment(self) -> Document:
        """For a pull request."""
        return history_comment(self.trend, self.changes, self.store.damaged)


def blame(store: Path, figure: str = "") -> Blame:
    """Which commits changed a figure, and which lines, phases, ranges and kernels moved with it; noise left out."""
    held = read_store(store)
    found = figure_trend(held.runs, _figure(held, figure))
    return Blame(held, found, tuple(_blamed(held, change) for change in found.changes if change.verdict != NOISE))


def _figure(held: RunStore, asked: str) -> str:
    names = dict.fromkeys(name for run in held.runs for name in run.figures)
    if not names:
        said = joined("; ", held.damaged[:3])
        raise NothingRecorded(f"{held.path}: holds no runs", found=said, hint="`gpuledger history add` adds one")
    figure = asked or next((name for name in (STEP, KERNEL_TIME) if name in names), next(iter(names)))
    if figure not in names:
        like = [name for name in names if asked in name]
        if len(like) == 1:
            return like[0]
        raise GpuledgerError(f"no figure {asked!r}", found=f"there are {', '.join((like or list(names))[:12])}")
    return figure


def _blamed(held: RunStore, change: LevelChange) -> BlamedChange:
    before, after = (
        pool_runs([held.side(run) for run in runs], runs[-1].short)
        for runs in (change.before[-NEAREST:], change.after[:NEAREST])
    )
    ends = change.last_before.commit, change.first_after.commit
    commits = _git("log", f"-{_MOST_COMMITS}", "--format=%h %s", f"{ends[0]}..{ends[1]}", "--") if all(ends) else []
    return BlamedChange(change, tuple(commits), compare(before, after, anyway=True))
