"""`gpuledger capture nsys`: a timeline of any program.

`gpuledger capture start` and `stop`: pieces of a server that runs.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from gpuledger.capture import manifest as manifests
from gpuledger.capture.launchers import Remote, launched, remote
from gpuledger.capture.manifest import FAILED, Manifest, Witness
from gpuledger.capture.nsys import (
    PRESETS,
    Flag,
    Wishes,
    completed,
    doubts,
    export_command,
    flags_for,
    forget,
    launch_command,
    nsys_command,
    remember,
    remembered,
    session_name,
    start_command,
    stop_command,
    value_of,
)
from gpuledger.capture.output_files import EXPORT, MANIFEST, REPORTS, CapturePlace, place_for, prepared
from gpuledger.capture.plain_run import ELSEWHERE, LEFT_OUT, nsys_plain
from gpuledger.capture.record import INTERRUPTED_CODE, CaptureOutcome, Recording, closed, first_manifest, recorded
from gpuledger.cli.capture.options import (
    COMMAND_FIRST,
    PLAIN_OPTION,
    VIA_OPTION,
    CaptureOptions,
    called_as,
    capture_options,
    check_program,
    looked_at,
    needed,
    printed,
    run_before,
    shown,
    tell,
    warn,
    witness_for,
    word_for,
)
from gpuledger.cli.completion import words
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.machine import ASKED, find_nsys, why_not_sampled
from gpuledger.system.processes import AttendedRun, attended, run

_HELP_SECONDS = 20.0


def _presets(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for each in given for name in each.split(",")))
    for name in names:
        if name not in PRESETS:
            raise click.BadParameter(f"{name!r} is no preset. There are: {', '.join(PRESETS)}.")
    return names


@click.command(context_settings=COMMAND_FIRST)
@click.option(
    "--preset",
    "presets",
    multiple=True,
    callback=_presets,
    shell_complete=words(lambda: PRESETS),
    metavar="NAME[,NAME...]",
    help="What to record; see above. Default: steady if COMMAND has --cuda-profiler, else launch.",
)
@click.option("--trace", metavar="A,B,C", help="What nsys traces, in its words, e.g. cuda,nvtx,osrt,cublas.")
@click.option("--delay", type=click.FloatRange(0, 1e6), metavar="S", help="Start recording after S seconds.")
@click.option(
    "--duration",
    type=click.FloatRange(0, 1e6, min_open=True),
    metavar="S",
    help="Record for S seconds, then end COMMAND.",
)
@click.option("--set", "settings", multiple=True, metavar="FLAG=VALUE", help="Any other flag of `nsys profile`.")
@click.option(
    "--gpu-metrics/--no-gpu-metrics",
    default=None,
    help="Sample the GPU's counters every 50 us: what each kernel uses of SMs, tensor cores and DRAM. Default: where "
    "the machine allows it and what is recorded is short (steady, or --duration up to a minute). A minute is some 20 "
    "million values; a GPU-bound program is slowed by 1 %.",
)
@VIA_OPTION
@PLAIN_OPTION
@click.option("--session", metavar="NAME", help="Only start COMMAND, to be recorded with `gpuledger capture start`.")
@click.option(
    "--rank-variable",
    metavar="NAME",
    help="For multi: the environment variable that holds the rank. Default: auto-detected.",
)
@capture_options
def nsys(
    presets: tuple[str, ...],
    trace: str | None,
    delay: float | None,
    duration: float | None,
    settings: tuple[str, ...],
    gpu_metrics: bool | None,
    via: str | None,
    no_plain: bool,
    session: str | None,
    rank_variable: str | None,
    manner: CaptureOptions,
    command: tuple[str, ...],
) -> None:
    """Record a timeline of COMMAND with Nsight Systems.

    COMMAND's input, output and errors are yours; the report follows on stdout when it has ended. Warnings come before
    it starts: what would record loading, lose ranges, or write gigabytes.

    \b
    Presets, which may be joined (steady,graph):
      launch   a short program, whole, every launch
      steady   between cudaProfilerStart and cudaProfilerStop only
      decode   decoding: cuBLAS calls, memory, kernels in CUDA graphs
      server   after --delay for --duration, or pieces with --session
      multi    one report per rank, behind torchrun, mpirun or srun
      memory   every allocation and release
      graph    the kernels inside CUDA graphs

    \b
    Examples:
      gpuledger capture nsys -o run -- python bench.py --cuda-profiler
      gpuledger capture nsys --preset=multi -- torchrun --nproc-per-node=8 x.py
      gpuledger capture nsys --via='kubectl exec POD --' -- python bench.py
      gpuledger capture nsys --via='ssh HOST' --env=NCCL_DEBUG=INFO -- ./bench
      gpuledger capture nsys --preset=steady,graph --dry-run -- python bench.py
      gpuledger capture nsys --no-gpu-metrics -- python bench.py --cuda-profiler
    """
    name = session_name(session) if session is not None else None
    wishes = completed(Wishes(presets, trace, delay, duration, settings, rank_variable, name, gpu_metrics), command)
    if name is not None:
        _launched(name, wishes, manner, command, via)
    else:
        _profiled(wishes, manner, command, remote(via) if via is not None else None, no_plain=no_plain)


def _profiled(
    wishes: Wishes, manner: CaptureOptions, command: tuple[str, ...], there: Remote | None, *, no_plain: bool
) -> None:
    """Record a program from here to its end, or print how that would be done."""
    place = place_for(manner.name, command, "nsys", force=manner.force)
    found = None if there else find_nsys()
    if wishes.gpu_metrics is None and (found is None or not wishes.is_short):
        wishes = replace(wishes, gpu_metrics=False)
    if wishes.gpu_metrics is not False and found is not None and (reason := _not_sampled(found)):
        if wishes.gpu_metrics:
            warn((f"the GPU is not sampled: {reason}; `gpuledger doctor` says what would allow it",))
        wishes = replace(wishes, gpu_metrics=False)
    output = f"{there.folder}/report" if there else str(place.base)
    word = "nsys" if there else word_for("nsys", found)
    witness = witness_for(manner, command, place, there)
    flags, argv = nsys_command(word, output, wishes, command, is_here=there is None)
    warn(doubts(wishes, flags, command, place.folder))
    plain = LEFT_OUT if no_plain else ELSEWHERE if there else nsys_plain(wishes, flags, command, place, witness)
    if manner.only_prints:
        _printed(manner, flags, argv, place, there, [*run_before(plain), *looked_at(witness)], witness)
        return
    executable = None if there else needed("nsys", found)
    if not there:
        check_program(command[0])
    watched = tuple if witness is None else witness.before
    word = str(executable or "nsys")
    recording = Recording(
        tool="nsys",
        executable=executable,
        argv=nsys_command(word, output, wishes, command, is_here=there is None, watched=watched)[1],
        command=command,
        place=place,
        presets=wishes.presets,
        remote=there,
        ranged=value_of(flags, "capture-range") == "cudaProfilerApi",
        delay=wishes.delay,
        duration=wishes.duration,
        variables=manner.variables,
        witness=witness,
        called_as=called_as(),
        plain=plain,
    )
    outcome = recorded(recording, tell)

    from gpuledger.cli.capture.options import asked_of, ended

    ended(outcome, asked_of(flags, wishes.duration), no_report=manner.no_report)


def _not_sampled(nsys: Path) -> str | None:
    """Why nsys cannot sample a GPU of this machine."""
    return why_not_sampled(run([nsys, *ASKED], seconds=_HELP_SECONDS).output)


def _printed(
    manner: CaptureOptions,
    flags: tuple[Flag, ...],
    argv: tuple[str, ...],
    place: CapturePlace,
    there: Remote | None,
    notes: list[str],
    witness: Witness | None,
) -> None:
    if there is not None:
        notes.append(f"then copied back to {place.folder.absolute()}, and exported")
        printed(manner, _reasons(flags), (shown(manner, argv, there, witness),), notes)
    elif argv[1] != "profile":  # nsys stands behind the launcher
        notes.append("then the report of each rank is exported")
        printed(manner, _reasons(flags), (shown(manner, argv),), notes)
    else:
        export = export_command(argv[0], f"{place.base}{place.ending}", f"{place.base}{EXPORT}")
        printed(manner, _reasons(flags), (shown(manner, argv), export), notes)


def _reasons(flags: tuple[Flag, ...]) -> list[tuple[str, str]]:
    return [(flag.argument, flag.why) for flag in flags]


def _launched(name: str, wishes: Wishes, manner: CaptureOptions, command: tuple[str, ...], via: str | None) -> None:
    """Start a server that is ready to be recorded, and stay with it until it ends."""
    from gpuledger.system.interruption import Interruption
    from gpuledger.system.processes import attended

    if via is not None:
        raise GpuledgerError(
            "--session with --via: a session is reached only on its own machine", hint="run gpuledger there"
        )
    if launched(command) is not None and "multi" in wishes.presets:
        raise GpuledgerError("--session records all ranks into one report: take --preset=multi out")
    found = find_nsys()
    flags = flags_for(wishes)
    warn(doubts(wishes, flags, command, None))
    if manner.only_prints:
        argv = launch_command(word_for("nsys", found), name, flags, command)
        printed(manner, _reasons(flags), (shown(manner, argv),))
        sys.exit(0)
    executable: Path = needed("nsys", found)
    check_program(command[0])
    tell(f"session {name}: record a piece with `gpuledger capture start {name} -o NAME --duration=10`")
    with Interruption() as interruption:
        argv = launch_command(str(executable), name, flags, command)
        done = attended(argv, interruption, environment=manner.variables.given)
    sys.exit(INTERRUPTED_CODE if done.interrupted else done.exit_code)


_LOOK_EVERY_S = 0.05
_NAMED = click.argument("session", metavar="NAME")
_NO_REPORT = click.option("--no-report", is_flag=True, help="Record and check only.")


@click.command()
@_NAMED
@click.option("-o", "--output", "name", metavar="NAME", help="Name of the profile. Default: by the session.")
@click.option("--duration", type=click.FloatRange(0, 1e6, min_open=True), metavar="S", help="Stop after so long.")
@click.option("--force", is_flag=True, help="Overwrite an earlier capture of that name.")
@_NO_REPORT
def start(session: str, name: str | None, duration: float | None, force: bool, no_report: bool) -> None:
    """Begin to record a server that was started with `capture nsys --session=NAME`.

    With --duration it stops by itself, and reports; else `gpuledger capture stop NAME` does. Ctrl-C stops it early, and
    keeps what was recorded. The server runs on.

    \b
    Examples:
      gpuledger capture nsys --preset=server --session=web -- python serve.py
      gpuledger capture start web -o busy --duration=10
    """
    place = place_for(name, (session_name(session),), "nsys", force=force)
    nsys = needed("nsys", find_nsys())
    argv = start_command(str(nsys), session, str(place.base.absolute()))
    recording = _recording(session, place, nsys, argv, duration)
    with Interruption() as interruption:
        prepared(place)
        begun = first_manifest(recording, (argv, stop_command(str(nsys), session)))
        manifests.written(begun if duration else replace(begun, pid=None), place.manifest)
        done = attended(argv, interruption, quiet=True)
        if done.exit_code != 0:
            error = _not_started(session, done)
            manifests.written(replace(begun, state=FAILED, reason=error.claim), place.manifest)
            raise error
        if duration is None:
            remember(session, place.manifest)
            tell(f"recording session {session}; `gpuledger capture stop {session}` ends it")
            return
        began, until = time.time(), time.monotonic() + duration
        while time.monotonic() < until and not interruption:
            time.sleep(_LOOK_EVERY_S)
        outcome = _stopped(recording, begun, interruption, began)
    _said(outcome, duration, no_report=no_report)


@click.command()
@_NAMED
@_NO_REPORT
def stop(session: str, no_report: bool) -> None:
    """End a recording that `gpuledger capture start NAME` began, check it and report on it.

    \b
    Examples:
      gpuledger capture stop web
    """
    path, began = remembered(session_name(session))
    nsys = needed("nsys", find_nsys())
    place = CapturePlace(path.parent, path.name.removesuffix(MANIFEST), REPORTS["nsys"])
    argv = start_command(str(nsys), session, str(place.base))
    recording = _recording(session, place, nsys, argv, None)
    with Interruption() as interruption:
        commands = (argv, stop_command(str(nsys), session))
        begun = replace(first_manifest(recording, commands), started_utc=manifests.utc(began))
        outcome = _stopped(recording, begun, interruption, began)
        forget(session)
    _said(outcome, None, no_report=no_report)


def _recording(
    session: str, place: CapturePlace, nsys: Path, argv: tuple[str, ...], duration: float | None
) -> Recording:
    return Recording(
        tool="nsys",
        executable=nsys,
        argv=argv,
        command=(),
        place=place,
        presets=("server",),
        duration=duration,
        called_as=called_as(),
        session=session,
    )


def _stopped(recording: Recording, begun: Manifest, interruption: Interruption, began: float) -> CaptureOutcome:
    """Stop the recording and bring it to its end; Ctrl-C before meant: stop now."""
    early = bool(interruption)
    with Interruption() as again:
        argv = stop_command(str(recording.executable), recording.session or "")
        done = attended(argv, again, quiet=True)
    said = replace(done, interrupted=done.interrupted or early, seconds=time.time() - began)
    return closed(recording, begun, said, interruption)


def _said(outcome: CaptureOutcome, duration: float | None, *, no_report: bool) -> None:
    from gpuledger.analyse.capture_checks import CaptureWishes
    from gpuledger.cli.capture.options import ended

    asked = CaptureWishes(duration_ns=None if duration is None else int(duration * 1e9))
    ended(outcome, asked, no_report=no_report)


def _not_started(session: str, done: AttendedRun) -> ToolFailed:
    from gpuledger.capture.record import last_line

    return ToolFailed(
        f"session {session}: recording could not be started (exit code {done.exit_code})",
        found=f"nsys says: {last_line(done.said)}",
        hint=f"is the server running, started with `gpuledger capture nsys --session={session} -- SERVER`? "
        "`nsys sessions list` lists what there is; TMPDIR must be the same for both",
    )
