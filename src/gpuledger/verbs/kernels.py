"""What limits kernels, and which of a timeline to give to Nsight Compute."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.shown import ShownAnswer
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from gpuledger.verbs.profiles import WHERE_SAMPLED, Profile, ProfileReading, profile_name

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import StepOverview
    from gpuledger.answers.kernels import KernelsAnswer
    from gpuledger.present.views.ncu import Proposal


def kernels(
    files: Profile | Sequence[str | Path],
    *,
    ncu: Sequence[str | Path] = (),
    each_launch: bool = False,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> ShownAnswer[KernelsAnswer] | ShownAnswer[StepOverview]:
    """What limits each kernel in reports of Nsight Compute; of a timeline, its kernels and what they use of the GPU.

    `ncu` are reports to check the samples of a timeline against; `each_launch` lists every launch of one step, too.
    """
    given = [files] if isinstance(files, Trace | str | Path) else list(files)
    if len(given) == 1 and is_timeline(given[0]):
        return _of_timeline(given[0], ncu, each_launch, wanted or Selection(), limits, progress)
    from gpuledger.answers.kernels import kernels_answer
    from gpuledger.present.views.kernels import kernels_document
    from gpuledger.read.ncu.reader import open_kernels

    paths = [Path(path) for path in given if not isinstance(path, Trace)]
    report = open_kernels(paths, limits=limits, progress=progress)
    progress.stage("judging the kernels")
    result = kernels_answer([path.name for path in paths], report)
    return ShownAnswer((result,), lambda: kernels_document(result))


def is_timeline(profile: Profile) -> bool:
    """Whether this is a profile over time, and no report of Nsight Compute."""
    from gpuledger.read.registry import reader_of
    from gpuledger.read.source import look_at

    return isinstance(profile, Trace) or reader_of(look_at(Path(profile))) is not None


def _of_timeline(
    profile: Profile,
    ncu: Sequence[str | Path],
    each_launch: bool,
    wanted: Selection,
    limits: Limits,
    progress: Listener,
) -> ShownAnswer[StepOverview]:
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.steady_kernels import all_steady
    from gpuledger.analyse.utilization.stretches import use_of_device
    from gpuledger.answers.kernels import TimelineUse
    from gpuledger.findings.profiled_run import columns_for
    from gpuledger.ledger.device import analyse_devices
    from gpuledger.present.views.kernels import kernel_sentences
    from gpuledger.present.views.timeline import step_kernels_sheet, step_launches_sheet, timeline_document
    from gpuledger.read import wanted_columns
    from gpuledger.read.ncu.reader import open_kernels

    name = profile_name(profile)
    read = {**columns_for(), **wanted_columns((Table.METRICS,))}
    trace = ProfileReading(limits, progress).trace(profile, read, WHERE_SAMPLED)
    counted = open_kernels(ncu, limits=limits, progress=progress) if ncu else None
    progress.stage(BOOKS)
    devices = analyse_devices(trace, name, wanted)
    sampled = {device.gpu: use_of_device(trace, device) for device in devices}
    results = tuple(
        overview(trace, device, wanted.scope_pattern, all_steady(trace, device, sampled[device.gpu]))
        for device in devices
    )
    steps = list(zip(results, devices, strict=True))
    sheets = (step_kernels_sheet, step_launches_sheet) if each_launch else (step_kernels_sheet,)
    use = TimelineUse(trace.origin, sampled, counted)
    return ShownAnswer(
        results,
        lambda: timeline_document(
            name,
            use,
            [sheet(kernels, device, wanted.families) for kernels, device in steps for sheet in sheets],
            trace.health,
            devices[0].zero_ns,
            unsampled=[sentence for kernels, device in steps for sentence in kernel_sentences(kernels, device)],
        ),
    )


def ncu_plan(
    profile: Profile,
    command: Sequence[str] = (),
    *,
    measured: str = "verdict",
    metrics: str | None = None,
    coverage: float = 0.95,
    anyway: bool = False,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> ShownAnswer[Proposal]:
    """The kernels worth profiling with Nsight Compute, the commands for it, and what they cost; nothing is run.

    `measured` is what verdicts need or one of ncu's own sets; `metrics`, names with commas, are measured instead.
    """
    from gpuledger.analyse.inventory import contents
    from gpuledger.analyse.kernels.ncu_plan import plan
    from gpuledger.capture.ncu import ENDING, Measure, check_metrics, ncu_command
    from gpuledger.findings.profiled_run import columns_for, main_device
    from gpuledger.present.views.info import origin_line
    from gpuledger.present.views.ncu import Proposal, plan_document

    measure = Measure.of_set(measured) if metrics is None else Measure.of_metrics(check_metrics(metrics))
    name = profile_name(profile)
    launched = {Table.KERNELS: ("smem_static_bytes", "smem_dynamic_bytes")}
    columns = {table: (*names, *launched.get(table, ())) for table, names in columns_for().items()}
    trace = ProfileReading(limits, progress).trace(profile, columns)
    device = main_device(trace, name, wanted or Selection(), stage=progress.stage)
    chosen = plan(trace, device, coverage, anyway=anyway)
    # trace.json.gz -> trace; ncu would read a % in a name as a variable
    stem = re.sub(r"[^\w.-]", "_", Path(name.removesuffix(".gz")).stem)
    exports = [f"ncu-{stem}{f'-{at}' if at > 1 else ''}" for at in range(1, len(chosen.runs) + 1)]
    made = Proposal(
        profile=name if isinstance(profile, Trace) else str(profile),
        name=name,
        headline=origin_line(trace, contents(trace)),
        plan=chosen,
        commands=tuple(
            ncu_command(run.functions, run.skip, run.count, measure, export, tuple(command))
            for run, export in zip(chosen.runs, exports, strict=True)
        ),
        reports=tuple(f"{export}{ENDING}" for export in exports),
        passes=measure.cost.passes,
        seconds=sum(measure.seconds(run.launches, run.ns) for run in chosen.runs),
        notes=trace.health,
    )
    return ShownAnswer((made,), lambda: plan_document(made))
