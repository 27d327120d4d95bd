"""The critical path of the steady steps."""

from __future__ import annotations

from gpuledger.analyse.path_summary import PathSummary, path_summary
from gpuledger.findings.profiled_run import columns_for
from gpuledger.ledger.device import analyse_devices
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.critical import critical_document
from gpuledger.present.views.shown import ShownAnswer
from gpuledger.replay.scenario import ENOUGH_FOLLOWED, scenarios
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name


def critical(
    profile: Profile, *, wanted: Selection | None = None, limits: Limits = DEFAULT_LIMITS, progress: Listener = NOBODY
) -> ShownAnswer[PathSummary]:
    """The critical path: the host and GPU work that sets the step time."""
    name = profile_name(profile)
    trace = ProfileReading(limits, progress, rank=wanted.rank if wanted else None).trace(
        profile, columns_for(launches=False)
    )
    progress.stage(BOOKS)
    devices = analyse_devices(trace, name, wanted or Selection())
    progress.stage("following the critical path")
    summaries = tuple(path_summary(trace, model) for model in scenarios(trace, devices, enough=ENOUGH_FOLLOWED))
    return ShownAnswer(summaries, lambda: critical_document(name, summaries, trace.health, devices[0].zero_ns))
