"""A store of runs: profiles in, a run in the store out; and its runs, a figure over them, the sides of a change.

The store is a folder of Parquet files, one per run, a row per figure: `SELECT * FROM 'store/*.parquet'` in DuckDB. What
`diff` compares is kept with each run, so that a change can be taken apart later.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from gpuledger.analyse.diff.baseline import baseline_content, read_baseline
from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.run_history import (
    NEAREST,
    BlamedChange,
    LevelChange,
    RunFigure,
    StoredRun,
    Trend,
    side_figures,
)
from gpuledger.analyse.diff.run_history import trend as figure_trend
from gpuledger.analyse.diff.run_side import RunSide, pool_runs
from gpuledger.analyse.phases.phase_costs import phase_costs
from gpuledger.capture.manifest import commit_of, utc
from gpuledger.errors import GpuledgerError, NothingRecorded, ToolFailed, UnreadableProfile
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.plain_window import manifest_of
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.system.opening import entries_of, is_dir
from gpuledger.system.parquet_rows import ENDING, read_rows, write_rows
from gpuledger.system.processes import run as run_program
from gpuledger.trace.model import NotMeasured, Origin, Trace
from gpuledger.verbs.compared_sides import Sides
from gpuledger.version import own_version

_KINDS: Final = {"str": "string", "bool": "bool", "int": "int64", "float": "double", "float | None": "double"}
_OF_RUN: Final = {name: _KINDS[kind] for name, kind in StoredRun.__annotations__.items() if name != "figures"}
_OF_FIGURE: Final = {"figure": "string", **{name: _KINDS[kind] for name, kind in RunFigure.__annotations__.items()}}
_NEEDED: Final = ("figure", "unit", "value")
_BASELINE: Final = {"baseline": "string"}  # of the first row alone: what `diff --save-baseline` writes

_SMALLEST, _LARGEST = 1e-9, 1e18
"""Nanoseconds, bytes and counts per step are 0 or lie between: what does not was not written by us."""

_HASH: Final = re.compile(r"[0-9a-f]{7,64}")
_GIT_S: Final = 10.0
_MOST_COMMITS: Final = 20


class RunFacts(Struct, frozen=True):
    """What the user says of a run; what is not said is taken from the profile, its manifest and git."""

    commit: str = ""
    date_utc: str = ""
    machine: str = ""
    clock_mhz: float | None = None
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
    origins, phase_ns = list[Origin](), Counter[str]()

    def look(trace: Trace, device: Device) -> None:
        origins.append(trace.origin)
        phase_ns.update({cost.phase: cost.time_ns for cost in phase_costs(trace, device).phases})

    sides = Sides(wanted or Selection(), progress, limits, look)
    side = pool_runs([sides.read(profile) for profile in profiles], Path(profiles[0]).name)
    origin = origins[0] if origins else Origin(side.tool, "")
    manifest = manifest_of(Path(profiles[0])) if Path(profiles[0]).is_file() else NotMeasured("")
    known: dict[str, Any] = {} if isinstance(manifest, NotMeasured) else manifest
    date_utc = facts.date_utc or str(known.get("started_utc") or origin.started_utc or utc(time.time()))
    commit, commit_utc, subject, is_dirty = _commit(facts.commit, known.get("git"))
    method = (facts.method, " ".join(map(str, known.get("presets") or ())), ",".join(sorted(origin.asked_for or ())))
    run = StoredRun(
        run=re.sub(r"[^\w-]", "", f"{date_utc[:19]}_{commit[:10]}_{secrets.token_hex(4)}", flags=re.ASCII),
        date_utc=date_utc,
        commit=commit,
        commit_utc=commit_utc or date_utc,
        subject=subject,
        is_dirty=is_dirty,
        machine=facts.machine,
        gpu=side.gpu_name or "",
        driver=origin.driver_version or "",
        clock_hz=facts.clock_mhz * 1e6 if facts.clock_mhz else side.busy_clock_hz or side.clock_hz,
        tool=f"{side.tool} {origin.tool_version or ''}".strip(),
        method="; ".join(filter(None, method)),
        steps=side.steps,
        gpuledger=own_version(),
        figures=side_figures(side, {phase: ns / side.steps for phase, ns in phase_ns.items() if ns}),
    )
    content = asdict(run)
    rows = [{"figure": name, **asdict(figure), **content} for name, figure in content.pop("figures").items()]
    rows[0]["baseline"] = baseline_content(side).decode()
    path = store / f"{run.run}{ENDING}"
    write_rows(path, {**_OF_RUN, **_OF_FIGURE, **_BASELINE}, rows)
    return run, path


def _commit(given: str, recorded: object) -> tuple[str, str, str, bool]:
    """Its name, when it was made, its first line, and whether files differed from it; '' where that is not known."""
    noted = recorded if isinstance(recorded, dict) and _HASH.fullmatch(str(recorded.get("commit"))) else None
    here = None if given or noted else commit_of(Path())
    name = given or (noted["commit"] if noted else here.commit if here else "")
    is_dirty = not given and bool(noted.get("dirty") if noted else here and here.is_dirty)
    told = _git("log", "-1", "--format=%H%n%ct%n%s", "--end-of-options", name, "--") if name else []
    if len(told) < 3 or not told[1].isdecimal():
        return name, "", "", is_dirty
    return told[0], utc(int(told[1])), told[2], is_dirty


def _git(*words: str) -> list[str]:
    """The lines that git says here; none where there is no git, or it does not know."""
    try:
        ran = run_program(["git", *words], seconds=_GIT_S)
    except ToolFailed:
        return []
    return ran.output.splitlines() if ran.exit_code == 0 else []


class RunStore(Struct, frozen=True):
    """All runs of a store in the order of their commits, and what is wrong with files that are not among them."""

    path: Path
    runs: tuple[StoredRun, ...]
    damaged: tuple[str, ...]

    def side(self, run: StoredRun) -> RunSide:
        """What `diff` compares of a run."""
        path = self.path / f"{run.run}{ENDING}"
        return read_baseline(str(read_rows(path, _BASELINE)[0]["baseline"]).encode(), path.name)

    def trend(self, asked: str) -> Trend:
        """Of the figure of that name, or the one whose name holds it; of the step where none is asked for."""
        names = list(dict.fromkeys(name for run in self.runs for name in run.figures))
        if not names:
            raise NothingRecorded(f"{self.path}: holds no runs", found="\n".join(self.damaged[:3]))
        like = [name for name in names if asked in name]
        if asked not in ("", *names) and len(like) != 1:
            raise GpuledgerError(f"no figure {asked!r}", found=f"there are {', '.join((like or names)[:12])}")
        return figure_trend(self.runs, asked if asked in names else like[0])


def read_store(store: Path) -> RunStore:
    """Every run; a file that cannot be read is named, and left out."""
    if not is_dir(store):
        raise UnreadableProfile(f"{store}: is no folder", hint="`gpuledger history add PROFILE --store=DIR` makes one")
    runs, damaged = list[StoredRun](), list[str]()
    for path in sorted(store / name for name in entries_of(store) if name.endswith(ENDING)):
        try:
            runs.append(_stored(path.stem, read_rows(path, {**_OF_RUN, **_OF_FIGURE})))
        except UnreadableProfile as error:
            damaged.append(error.claim)
    return RunStore(store, tuple(sorted(runs, key=lambda run: run.place)), tuple(damaged))


def _stored(name: str, rows: Sequence[dict[str, Any]]) -> StoredRun:
    first = {part: rows[0][part] for part in _OF_RUN}
    needed = [*(first[part] for part in first if part != "clock_hz"), *(row[key] for row in rows for key in _NEEDED)]
    numbers = [first["clock_hz"], first["steps"], *(row[key] for row in rows for key in ("value", "low", "high"))]
    is_right = all(_SMALLEST <= number <= _LARGEST for number in filter(None, numbers))
    if None in needed or first["run"] != name or not is_right:
        raise UnreadableProfile(f"{name}{ENDING}: is not whole, or holds another run than its name says")
    figures = {row["figure"]: RunFigure(row["value"], row["unit"], row["low"], row["high"]) for row in rows}
    return StoredRun(**first, figures=figures)


def blamed(held: RunStore, change: LevelChange) -> BlamedChange:
    """The commits between the runs on both sides of a change, and what is compared of them."""
    before, after = (
        pool_runs([held.side(run) for run in runs], runs[-1].short)
        for runs in (change.before[-NEAREST:], change.after[:NEAREST])
    )
    ends = change.last_before.commit, change.first_after.commit
    known = all(map(_HASH.fullmatch, ends))  # a store may be anybody's
    commits = _git("log", f"-{_MOST_COMMITS}", "--format=%h %s", "..".join(ends), "--") if known else []
    return BlamedChange(change, tuple(commits), compare(before, after, anyway=True))
