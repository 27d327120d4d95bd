"""The kernels of a profile, what limits those that Nsight Compute profiled, and which to give to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Unpack

from gpuledger.verbs.definition import Option, Profile, ProfileOptions, VerbArgument

if TYPE_CHECKING:
    from gpuledger.present.views.work.kernels import KernelsAnswer
    from gpuledger.present.views.work.ncu import NcuPlanAnswer
    from gpuledger.present.views.work.ncu_kernels import NcuKernelsAnswer

Measured = Literal["verdict", "full", "roofline", "basic"]
_COVERAGE: Final = 0.95


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise ValueError(f"'{text}' is no share of the time; write e.g. 0.8")
    return share


def kernels(
    profile: Profile,
    more: Annotated[tuple[str, ...], VerbArgument("[NCU]... [-- COMMAND...]", completes="files")] = (),
    *,
    by_launch: Annotated[bool, Option("Also list every launch of one step, in execution order.")] = False,
    ncu: Annotated[
        tuple[Path, ...],
        Option("Check the samples against this report of Nsight Compute; may be given several times.", metavar="FILE"),
    ] = (),
    measured: Annotated[
        Measured | None,
        Option("What ncu measures: what verdicts need (the default), or a set of its own.", "--set"),
    ] = None,
    metrics: Annotated[
        str | None, Option("Measure these instead of a set; names are checked.", metavar="NAME[,NAME...]")
    ] = None,
    coverage: Annotated[
        float | None, Option("How much of the kernel time to profile, 0 to 1. Default: 0.95.", "", "SHARE", _share)
    ] = None,
    **asked: Unpack[ProfileOptions],
) -> KernelsAnswer | NcuKernelsAnswer | NcuPlanAnswer:
    """Show which kernels of PROFILE take the time, what limits them, and which to give to Nsight Compute.

    One row per kernel name, in the steady steps, the most time first; --by-launch adds every launch of one step with
    its shape and the gap before it. Where GPU metrics were sampled (`gpuledger capture nsys` does where it can), also
    what each kernel uses of the GPU: SMs, tensor cores, DRAM, with a 90 % interval.

    With COMMAND, --set, --metrics or --coverage: the `ncu` commands for the kernels worth profiling, and their cost.
    One launch stands for all of one kernel, shape and place. Nothing is run; communication is left out.

    PROFILE may also be reports of Nsight Compute (.ncu-rep, which needs `pip install 'gpuledger[ncu]'`, or what
    `ncu --csv` printed): then what limits each kernel, against the roofs of its GPU, and what to try.
    `gpuledger report PROFILE --ncu=NCU` has both together.

    \b
    Examples:
      gpuledger kernels run.sqlite
      gpuledger kernels run.sqlite --range=layer0 --by-launch
      gpuledger kernels run.sqlite -- python train.py --steps=30
      gpuledger kernels layer.ncu-rep -o kernels.html
      gpuledger kernels run.sqlite --format=json | jq '.kernels[0]'
    """
    from gpuledger.capture.ncu import check_metrics
    from gpuledger.errors import WrongCall

    named = () if metrics is None else check_metrics(metrics)
    plans = bool(measured or named or coverage is not None)
    if not _is_timeline(profile):
        if ncu or by_launch or plans:
            raise WrongCall("--ncu, --by-launch, --set, --metrics and --coverage go with one timeline")
        return _of_reports([Path(str(profile)), *map(Path, more)], asked)
    if not (more or plans):
        return _of_timeline(profile, ncu, asked, by_launch=by_launch)
    if ncu or by_launch:
        raise WrongCall("--ncu and --by-launch go with one timeline, and without COMMAND")
    if more and Path(more[0]).is_file() and _is_timeline(more[0]):
        raise WrongCall(f"{more[0]} is a profile, and no command: kernels takes one timeline")
    return _plan(profile, more, measured or "verdict", named, _COVERAGE if coverage is None else coverage, asked)


def _is_timeline(profile: Profile) -> bool:
    """Whether this is a profile over time, and no report of Nsight Compute."""
    from gpuledger.read.registry import reader_of
    from gpuledger.read.source import look_at
    from gpuledger.trace.model import Trace

    return isinstance(profile, Trace) or reader_of(look_at(Path(profile))) is not None


def _of_reports(paths: Sequence[Path], asked: ProfileOptions) -> NcuKernelsAnswer:
    from gpuledger.answers.kernels import judged_kernels
    from gpuledger.limits import DEFAULT_LIMITS
    from gpuledger.present.views.work.ncu_kernels import ncu_kernels_answer
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.stages import NOBODY

    progress = asked.get("progress", NOBODY)
    report = open_kernels(paths, limits=asked.get("limits", DEFAULT_LIMITS), progress=progress)
    progress.stage("judging the kernels")
    return ncu_kernels_answer(judged_kernels([path.name for path in paths], report))


def _of_timeline(profile: Profile, ncu: Sequence[Path], asked: ProfileOptions, *, by_launch: bool) -> KernelsAnswer:
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.light.steady_kernels import all_steady
    from gpuledger.analyse.utilization.stretches import use_of_device
    from gpuledger.answers.kernels import TimelineUse
    from gpuledger.findings.profiled_run import columns_for
    from gpuledger.limits import DEFAULT_LIMITS
    from gpuledger.present.views.work.kernels import kernels_answer
    from gpuledger.read import wanted_columns
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.selection import Selection
    from gpuledger.trace.tables import Table
    from gpuledger.verbs.profiles import WHERE_SAMPLED, columns_to_name_graphs, read_devices

    columns = columns_for() if asked.get("names_from") is None else columns_to_name_graphs()
    columns = {**columns, **wanted_columns((Table.METRICS,))}
    name, trace, devices = read_devices(profile, columns, WHERE_SAMPLED, **asked)
    wanted = asked.get("wanted") or Selection()
    counted = open_kernels(ncu, limits=asked.get("limits", DEFAULT_LIMITS)) if ncu else None
    sampled = {device.gpu: use_of_device(trace, device) for device in devices}
    steps = [
        (overview(trace, device, wanted.scope_pattern, all_steady(trace, device, sampled[device.gpu])), device)
        for device in devices
    ]
    use = TimelineUse(trace.origin, sampled, counted)
    return kernels_answer(name, steps, use, trace.health, wanted.families, by_launch=by_launch)


def _plan(
    profile: Profile, command: Sequence[str], measured: str, metrics: Sequence[str], coverage: float, asked: Any
) -> NcuPlanAnswer:
    """The kernels worth profiling, and the commands for it."""
    from gpuledger.analyse.kernels.ncu_plan import plan
    from gpuledger.capture.ncu import ENDING, Measure, ncu_command
    from gpuledger.findings.profiled_run import columns_for, main_device
    from gpuledger.present.views.work.ncu import PlanCost, plan_answer
    from gpuledger.selection import Selection
    from gpuledger.stages import NOBODY
    from gpuledger.trace.model import Trace
    from gpuledger.trace.tables import Table
    from gpuledger.verbs.profiles import profile_name, read_profile

    measure = Measure.of_metrics(metrics) if metrics else Measure.of_set(measured)
    name, wanted, progress = profile_name(profile), asked.get("wanted") or Selection(), asked.get("progress", NOBODY)
    launched = {Table.KERNELS: ("smem_static_bytes", "smem_dynamic_bytes")}
    columns = {table: (*names, *launched.get(table, ())) for table, names in columns_for().items()}
    trace = read_profile(profile, columns, **{**asked, "names_from": None})
    chosen = plan(trace, main_device(trace, name, wanted, stage=progress.stage), coverage)
    # trace.json.gz -> trace; ncu would read a % in a name as a variable
    stem = re.sub(r"[^\w.-]", "_", Path(name.removesuffix(".gz")).stem)
    exports = [f"ncu-{stem}{f'-{at}' if at > 1 else ''}" for at in range(1, len(chosen.runs) + 1)]
    commands = [
        ncu_command(run.functions, run.skip, run.count, measure, export, tuple(command))
        for run, export in zip(chosen.runs, exports, strict=True)
    ]
    cost = PlanCost(
        sum(run.launches for run in chosen.runs),
        measure.cost.passes,
        sum(measure.seconds(run.launches, run.ns) for run in chosen.runs),
    )
    reports = [f"{export}{ENDING}" for export in exports]
    called = name if isinstance(profile, Trace) else str(profile)
    return plan_answer(name, called, chosen, commands, reports, cost, trace.health)
