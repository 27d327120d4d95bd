"""What changes would buy, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.changes.answer import FasterPart, ReplayedChanges, answer, speed_up_of_tables
from gpuledger.changes.changes import Changes, ProgramChange
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.findings.profiled_run import diagnose
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.document import Document
from gpuledger.present.views.shown import ShownResult
from gpuledger.present.views.tables import tables_document
from gpuledger.present.views.whatif import questions_sheet, whatif_document, whatif_of_tables_sheet
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
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


class WhatIf(ShownResult, Struct, frozen=True):
    """What changes would save, and the ways to show it."""

    replayed: ReplayedChanges | None  # None where the profile is tables of sums, or no change could be made
    faster: tuple[FasterPart, ...]  # of tables of sums: the parts that were made faster
    refused: tuple[NothingRecorded, ...]
    """Why changes could not be made: the profile has nothing of that name. The others are answered all the same."""
    shown_as: Callable[[], Document]

    def document(self) -> Document:
        return self.shown_as()


def whatif(
    profile: Profile,
    changes: Sequence[Change],
    *,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> WhatIf:
    """What changes would save, each alone, then one after the other in the order given; of none, what can be asked."""
    name = profile_name(profile)
    if not isinstance(profile, Trace) and is_printed_tables(profile, limits=limits):
        return _of_tables(profile, changes, limits)
    asks_light = any(what in ("light", "reachable") for what, _ in changes)
    reading = ProfileReading(limits, progress, rank=wanted.rank if wanted else None)
    trace = reading.trace(profile, where_sampled=WHERE_SAMPLED) if asks_light else reading.trace(profile)
    run = diagnose(trace, name, wanted or Selection(), stage=progress.stage)
    progress.stage("replaying the changes")
    if not changes:
        sheet = questions_sheet(run.main_device, run.findings)
        return WhatIf(None, (), (), lambda: tables_document("whatif", name, [sheet], trace.health, run.zero_ns))
    known = Changes(trace, run.main_device, run.findings, sampled=True, use=run.use.get(run.main_device.gpu))
    made, refused = list[ProgramChange](), list[NothingRecorded]()
    for what, value in changes:
        try:
            made.append(_MAKERS[what](known, value))
        except NothingRecorded as refusal:
            refused.append(refusal)
    replayed = answer(known.scenario, made, known.every_fix()) if made else None

    def shown_as() -> Document:
        if replayed is None:
            raise refused[-1] if refused else NothingRecorded("no change was asked for")
        return whatif_document(replayed, name, trace.health, run.zero_ns)

    return WhatIf(replayed, (), tuple(refused), shown_as)


def _of_tables(profile: str | Path, changes: Sequence[Change], limits: Limits) -> WhatIf:
    if any(what != "speedup" for what, _ in changes):
        raise GpuledgerError("tables of `nsys stats` hold sums: only the speed-up of a range can be answered")
    name, printed = profile_name(profile), open_summaries(profile, limits=limits)
    side = side_of_tables(printed, name)
    faster = tuple(speed_up_of_tables(side, *named) for _, named in changes)
    sheet = whatif_of_tables_sheet(faster)
    return WhatIf(None, faster, (), lambda: tables_document("whatif", name, [sheet], printed.health, 0))
