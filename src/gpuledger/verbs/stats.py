"""NVIDIA's tables of a profile."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS, NvidiaReport, columns_for
from gpuledger.errors import NothingRecorded
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.nvidia import StatsAnswer, nvidia_sheet, stats_answer
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.verbs import DEFAULT_REPORTS
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name


def stats(
    profile: Profile,
    reports: Sequence[str] = DEFAULT_REPORTS,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> StatsAnswer:
    """NVIDIA's summary tables, to the nanosecond; `reports` are their names, as `nsys stats` has them."""
    asked = named_reports(reports)
    trace = ProfileReading(limits, progress).trace(profile, columns_for(asked))
    progress.stage("making the tables")
    answer = stats_answer(
        profile_name(profile), [(report, nvidia_sheet(report, trace)) for report in asked], trace.health
    )
    if not answer.tables():
        raise _nothing(answer, trace)
    return answer


def named_reports(names: Sequence[str]) -> tuple[NvidiaReport[Any], ...]:
    """NVIDIA's tables by name, each once; ValueError says which name is none of them, and what may be meant."""
    for name in names:
        if name not in NVIDIA_REPORTS:
            close = difflib.get_close_matches(name, NVIDIA_REPORTS, n=1)
            meant = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(NVIDIA_REPORTS)}."
            raise ValueError(f"no report {name!r}. {meant}")
    return tuple(NVIDIA_REPORTS[name] for name in dict.fromkeys(names))


def _nothing(answer: StatsAnswer, trace: Trace) -> NothingRecorded:
    reasons = list(dict.fromkeys(table.not_measured for table in answer.reports if table.not_measured is not None))
    origin = trace.origin
    version = f"{origin.tool} {origin.tool_version or 'of unknown version'}"
    hint = "`gpuledger info` says what was recorded"
    if origin.tool == "nsys":
        version = f"{version}, export schema {origin.schema_version or 'unknown'}"
        hint = f"{hint}; record again with `nsys profile --trace=cuda,nvtx`"
    held = [f"{name} ({count:,})" for name, count in origin.source_rows if count]
    asked = answer.reports[0].report if len(answer.reports) == 1 else "any of the tables asked for"
    return NothingRecorded(
        f"{answer.profile}: nothing for {asked}: {reasons[0]}",
        found="\n".join([*reasons[1:], f"{version}; rows: {', '.join(held) or 'none at all'}"]),
        hint=hint,
    )
