"""What the step waits for, and what changes would buy, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.changes.answer import answer, speed_up_of_tables
from gpuledger.changes.changes import Changes, ProgramChange
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.findings.profiled_run import diagnose
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.whatif import WhatIfAnswer, changes_answer, path_answer, tables_answer
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.replay.path_summary import path_summary
from gpuledger.replay.scenario import ENOUGH_FOLLOWED, scenarios
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.verbs.profiles import WHERE_SAMPLED, Profile, ProfileReading, profile_name

Change = tuple[str, Any]
"""What is done, and to what: ("fix", "HOST-SYNC"), ("speedup", ("gemm", 2)), ("remove", "sync"), ("hide",
LineKind.COMM), ("graph", "decode"), ("host", 1.5), ("launch_cost", 2_000) with a call's new length in ns,
("light", "gemm") and ("reachable", "gemm") with the kernels' pace."""

_MAKERS: Final[dict[str, Callable[[Changes, Any], ProgramChange]]] = {
    "fix": Changes.fix,
    "speedup": lambda changes, named: changes.speed_up(*named),
    "remove": Changes.remove,
    "hide": Changes.hide,
    "graph": Changes.graph,
    "host": Changes.host,
    "launch_cost": Changes.launch_cost,
    "light": Changes.light,
    "reachable": Changes.reachable,
}


def whatif(
    profile: Profile,
    changes: Sequence[Change] = (),
    *,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> WhatIfAnswer:
    """What changes would save, each alone, then one after the other; without any, the critical path."""
    name = profile_name(profile)
    if not isinstance(profile, Trace) and is_printed_tables(profile, limits=limits):
        if any(what != "speedup" for what, _ in changes):
            raise GpuledgerError("tables of `nsys stats` hold sums: only the speed-up of a range can be answered")
        printed = open_summaries(profile, limits=limits)
        side = side_of_tables(printed, name)
        return tables_answer(name, [speed_up_of_tables(side, *named) for _, named in changes], printed.health)
    asks_light = any(what in ("light", "reachable") for what, _ in changes)
    reading = ProfileReading(limits, progress, rank=wanted.rank if wanted else None)
    trace = reading.trace(profile, where_sampled=WHERE_SAMPLED) if asks_light else reading.trace(profile)
    run = diagnose(trace, name, wanted or Selection(), stage=progress.stage)
    if not changes:
        progress.stage("following the critical path")
        paths = [path_summary(trace, model) for model in scenarios(trace, run.devices, enough=ENOUGH_FOLLOWED)]
        return path_answer(name, paths, run.main_device, run.findings, trace.health, run.zero_ns)
    progress.stage("replaying the changes")
    known = Changes(trace, run.main_device, run.findings, sampled=True, use=run.use.get(run.main_device.gpu))
    made, refused = list[ProgramChange](), list[NothingRecorded]()
    for what, value in changes:
        try:
            made.append(_MAKERS[what](known, value))
        except NothingRecorded as refusal:
            refused.append(refusal)
    replayed = answer(known.scenario, made, known.every_fix()) if made else None
    return changes_answer(name, replayed, refused, trace.health, run.zero_ns)
