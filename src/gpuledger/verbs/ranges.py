"""Where time goes by range and by phase of a layer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from gpuledger.selection import Selection
from gpuledger.verbs.definition import Option, Profile, ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuledger.analyse.ranks.phase_waits import KnownJob
    from gpuledger.limits import Limits
    from gpuledger.present.views.ranges import RangesAnswer


def _named_phase(text: str) -> tuple[str, str]:
    name, equals, pattern = text.partition("=")
    if not (name.strip() and equals and pattern):
        raise ValueError(f"{text!r}: expected NAME=REGEX, e.g. dispatch=all_to_all")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return name.strip(), pattern


def ranges(
    profile: Profile,
    *,
    phases: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "Count matching ranges and kernels as phase NAME; takes precedence over known names.",
            "--phase",
            "NAME=REGEX",
            _named_phase,
        ),
    ] = (),
    ranks: Annotated[
        tuple[str, ...],
        Option("Profiles of all ranks of the job, to tell waiting from transfer.", metavar="DIR|GLOB"),
    ] = (),
    **asked: Unpack[ProfileOptions],
) -> RangesAnswer:
    """Show where PROFILE spends time by NVTX range, and what each phase of a layer costs.

    GPU work belongs to the ranges around its launch call. Inclusive time counts the ranges inside, exclusive time does
    not; GPU times add up durations, so they can exceed the wall time where streams overlap. Shares are host time in
    the steady steps over the steps' time, so setup and warm-up are left out. Where GPU metrics were sampled, each range
    also has the GPU utilization of its kernels.

    Phases are attention, router, dispatch, expert_gemm, combine, mlp: by the range around each launch (`attention`,
    `moe_dispatch`, modules and operators of vLLM, SGLang, Megatron, DeepEP), else by the kernel's name. They are shown
    where they hold most of the GPU's work, or where --phase or --ranks is given. The work of the phases, other work and
    idle time sum to the steady steps, in all and by layer. Collectives are split into waiting for other ranks and
    transfer where the ranks are known.

    PROFILE may also be tables that `nsys stats` printed (nvtx_sum). There shares are of the time in the program's own
    ranges: those of libraries lie inside them or are setup, and are left out.

    \b
    Examples:
      gpuledger ranges run.sqlite
      gpuledger ranges run.sqlite --phase=dispatch=SendRecv --phase=experts=ffn
      gpuledger ranges rank0.json.gz --ranks='traces/*.json.gz' -o ranges.html
      gpuledger ranges nvtx_sum.txt
    """
    from gpuledger.analyse.phases.phase_costs import ENOUGH_FOR_PHASES, phase_costs, sampled_phases
    from gpuledger.analyse.ranks.phase_waits import phase_waits, talking_ranks
    from gpuledger.answers.one_gpu import ranges_of_gpu
    from gpuledger.limits import DEFAULT_LIMITS
    from gpuledger.present.views.ranges import printed_ranges_answer, ranges_answer
    from gpuledger.stages import NOBODY
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.profiles import WHERE_SAMPLED, profile_name, read_devices

    wanted, limits = asked.get("wanted") or Selection(), asked.get("limits", DEFAULT_LIMITS)
    if not isinstance(profile, Trace):
        from gpuledger.analyse.diff.from_tables import side_of_tables
        from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries

        if is_printed_tables(profile, limits=limits):
            name, printed = profile_name(profile), open_summaries(profile, limits=limits)
            return printed_ranges_answer(name, side_of_tables(printed, name, wanted.families), printed.health)
    name, trace, devices = read_devices(profile, where_sampled=WHERE_SAMPLED, **asked)
    progress = asked.get("progress", NOBODY)
    trees = [ranges_of_gpu(trace, device) for device in devices]
    progress.stage("telling the phases apart")
    phased = [
        device for device in devices if phases or ranks or sampled_phases(trace, device, ENOUGH_FOR_PHASES) is not None
    ]
    job = None
    if phased and not isinstance(profile, Trace) and (ranks or talking_ranks(devices[0].work) > 1):
        progress.clear()
        job = _job(Path(profile), ranks, wanted, limits)
    told = [(phase_costs(trace, device, phases), phase_waits(trace, device, job, phases)) for device in phased]
    return ranges_answer(name, trace, devices, trees, told)


def _job(profile: Path, ranks: Sequence[str], wanted: Selection, limits: Limits) -> KnownJob:
    """The job that the profile is a part of, or all of, and which of its ranks are the profile's."""
    from gpuledger.analyse.ranks.phase_waits import KnownJob
    from gpuledger.jobs.run import fleet, job_profiles

    given = (*ranks, str(profile))
    [name] = [part.name for part in job_profiles(given, limits)[0] if part.address == str(profile.absolute())]
    job = fleet(given, wanted, count=None if ranks else 0, limits=limits).job
    return KnownJob(job, tuple(number for number, rank in enumerate(job.ranks) if rank.profile == name))
