"""`gpuledger capture nsys`: a timeline of any program; `capture start` and `stop`: pieces of a server that runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Unpack

from msgspec.structs import replace

from gpuledger.capture import manifest as manifests
from gpuledger.capture import nsys as planned
from gpuledger.capture.completeness import CaptureWishes
from gpuledger.capture.launchers import Remote, launch_of, remote
from gpuledger.capture.manifest import FAILED, Manifest
from gpuledger.capture.nsys import PRESETS, Wishes, doubts, nsys_command, value_of
from gpuledger.capture.output_files import EXPORT, MANIFEST, REPORTS, CapturePlace, place_for, prepare_place
from gpuledger.capture.record import (
    ELSEWHERE,
    INTERRUPTED_CODE,
    LEFT_OUT,
    CaptureOutcome,
    Recording,
    close_recording,
    first_manifest,
    nsys_plain,
    record_program,
)
from gpuledger.cli.capture import options as shared
from gpuledger.cli.capture.options import CaptureManner, CaptureOptions, tell, warn
from gpuledger.cli.commands import command_of
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.machine import ASKED, find_nsys, why_not_sampled
from gpuledger.system.processes import last_line, run, run_attended
from gpuledger.verbs.definition import Option, VerbArgument

_HELP_SECONDS = 20.0


def _presets(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in PRESETS:
            raise ValueError(f"{name!r} is no preset. There are: {', '.join(PRESETS)}.")
    return names


def _nsys(
    *,
    presets: Annotated[
        tuple[tuple[str, ...], ...],
        Option(
            "What to record; see above. Default: steady if COMMAND has --cuda-profiler, else launch.",
            "--preset",
            "NAME[,NAME...]",
            _presets,
            lambda: PRESETS,
        ),
    ] = (),
    trace: Annotated[
        str | None, Option("What nsys traces, in its words, e.g. cuda,nvtx,osrt,cublas.", metavar="A,B,C")
    ] = None,
    delay: Annotated[
        float | None, Option("Start recording after S seconds.", metavar="S", least=0, most=1_000_000)
    ] = None,
    duration: Annotated[
        float | None, Option("Record for S seconds, then end COMMAND.", metavar="S", above=0, most=1_000_000)
    ] = None,
    settings: Annotated[tuple[str, ...], Option("Any other flag of `nsys profile`.", "--set", "FLAG=VALUE")] = (),
    gpu_metrics: Annotated[
        bool | None,
        Option(
            "Sample the GPU's counters every 50 us: what each kernel uses of SMs, tensor cores and DRAM. Default: "
            "where the machine allows it and what is recorded is short (steady, or --duration up to a minute). A "
            "minute is some 20 million values; a GPU-bound program is slowed by 1 %.",
            "--gpu-metrics/--no-gpu-metrics",
        ),
    ] = None,
    via: shared.Via = None,
    no_plain: shared.NoPlain = False,
    no_lines: shared.NoLines = False,
    session: Annotated[
        str | None, Option("Only start COMMAND, to be recorded with `gpuledger capture start`.", metavar="NAME")
    ] = None,
    rank_variable: Annotated[
        str | None,
        Option("For multi: the environment variable that holds the rank. Default: auto-detected.", metavar="NAME"),
    ] = None,
    **asked: Unpack[CaptureOptions],
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
      shapes   torch's operators with their inputs' sizes; slows the host

    \b
    Examples:
      gpuledger capture nsys -o run -- python bench.py --cuda-profiler
      gpuledger capture nsys --preset=multi -- torchrun --nproc-per-node=8 x.py
      gpuledger capture nsys --via='kubectl exec POD --' -- python bench.py
      gpuledger capture nsys --via='ssh HOST' --env=NCCL_DEBUG=INFO -- ./bench
      gpuledger capture nsys --preset=steady,graph --dry-run -- python bench.py
      gpuledger capture nsys --no-gpu-metrics -- python bench.py --cuda-profiler
    """
    manner = shared.manner_of(asked)
    command = manner.command
    name = planned.session_name(session) if session is not None else None
    wishes = planned.complete_wishes(
        Wishes(
            tuple(dict.fromkeys(chain(*presets))), trace, delay, duration, settings, rank_variable, name, gpu_metrics
        ),
        command,
    )
    if name is not None:
        _launch_session(name, wishes, manner, command, via)
    else:
        there = remote(via) if via is not None else None
        _profile(wishes, manner, command, there, no_plain=no_plain, no_lines=no_lines)


def _profile(
    wishes: Wishes,
    manner: CaptureManner,
    command: tuple[str, ...],
    there: Remote | None,
    *,
    no_plain: bool,
    no_lines: bool,
) -> None:
    place = place_for(manner.name, command, "nsys", force=manner.force)
    tool = None if there else find_nsys()
    if wishes.gpu_metrics is None and (tool is None or not wishes.is_short):
        wishes = replace(wishes, gpu_metrics=False)
    if wishes.gpu_metrics is not False and tool is not None:
        reason = why_not_sampled(run([tool, *ASKED], seconds=_HELP_SECONDS).output)
        if reason and wishes.gpu_metrics:
            warn((f"the GPU is not sampled: {reason}; `gpuledger doctor` says what would allow it",))
        wishes = replace(wishes, gpu_metrics=False) if reason else wishes
    output = f"{there.folder}/report" if there else str(place.base)
    word = "nsys" if there else shared.word_for("nsys", tool)
    witness = shared.witness_for(manner, command, place, there)
    flags, argv = nsys_command(word, output, wishes, command, is_here=there is None)
    warn(doubts(wishes, flags, command, place.folder))
    plain = LEFT_OUT if no_plain else ELSEWHERE if there else nsys_plain(wishes, flags, command, place, witness)
    unsampled = shared.why_unsampled(there, no_lines=no_lines)
    if manner.only_prints:
        commands: tuple[Sequence[str], ...] = (shared.shown_command(manner, argv, there, witness if there else None),)
        notes = [*shared.plain_run_notes(plain), *shared.environment_notes(witness), *shared.sampling_notes(unsampled)]
        if there is not None:
            notes.append(f"then copied back to {place.folder.absolute()}, and exported")
        elif argv[1] != "profile":  # nsys stands behind the launcher
            notes.append("then the report of each rank is exported")
        else:
            export = planned.export_command(argv[0], f"{place.base}{place.ending}", f"{place.base}{EXPORT}")
            commands = (*commands, export)
        shared.print_plan(manner, planned.reasons(flags), commands, notes)
        return
    executable = None if there else shared.require_tool("nsys", tool)
    if not there:
        shared.check_program(command[0])
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
        called_as=shared.called_as(),
        plain=plain,
        unsampled=unsampled,
    )
    asked = CaptureWishes(
        traces=tuple(value_of(flags, "trace").split(",")),
        nodes=value_of(flags, "cuda-graph-trace").startswith("node"),
        memory=value_of(flags, "cuda-memory-usage") == "true",
        ranged=recording.ranged,
        duration_ns=None if wishes.duration is None else int(wishes.duration * 1e9),
    )
    shared.finish(record_program(recording, tell), asked, no_report=manner.no_report)


def _launch_session(
    name: str, wishes: Wishes, manner: CaptureManner, command: tuple[str, ...], via: str | None
) -> None:
    if via is not None:
        claim = "--session with --via: a session is reached only on its own machine"
        raise GpuledgerError(claim, hint="run gpuledger there")
    if launch_of(command) is not None and "multi" in wishes.presets:
        raise GpuledgerError("--session records all ranks into one report: take --preset=multi out")
    tool = find_nsys()
    flags = planned.flags_for(wishes)
    warn(doubts(wishes, flags, command, None))
    if manner.only_prints:
        argv = planned.launch_command(shared.word_for("nsys", tool), name, flags, command)
        shared.print_plan(manner, planned.reasons(flags), (shared.shown_command(manner, argv),))
        sys.exit(0)
    argv = planned.launch_command(str(shared.require_tool("nsys", tool)), name, flags, command)
    shared.check_program(command[0])
    tell(f"session {name}: record a piece with `gpuledger capture start {name} -o NAME --duration=10`")
    with Interruption() as interruption:
        done = run_attended(argv, interruption, environment=manner.variables.given)
    sys.exit(INTERRUPTED_CODE if done.interrupted else done.exit_code)


_LOOK_EVERY_S = 0.05
_Session = Annotated[str, VerbArgument("NAME")]
_NoReport = Annotated[bool, Option("Record and check only.")]


def _start(
    session: _Session,
    *,
    name: Annotated[str | None, Option("Name of the profile. Default: by the session.", "-o --output", "NAME")] = None,
    duration: Annotated[float | None, Option("Stop after so long.", metavar="S", above=0, most=1_000_000)] = None,
    force: Annotated[bool, Option("Overwrite an earlier capture of that name.")] = False,
    no_report: _NoReport = False,
) -> None:
    """Begin to record a server that was started with `capture nsys --session=NAME`.

    With --duration it stops by itself, and reports; else `gpuledger capture stop NAME` does. Ctrl-C stops it early, and
    keeps what was recorded. The server runs on.

    \b
    Examples:
      gpuledger capture nsys --preset=server --session=web -- python serve.py
      gpuledger capture start web -o busy --duration=10
    """
    place = place_for(name, (planned.session_name(session),), "nsys", force=force)
    recording = _recording(session, place, place.base.absolute(), duration)
    with Interruption() as interruption:
        prepare_place(place)
        begun = first_manifest(recording, (recording.argv, _stop_command(recording)))
        manifests.write_manifest(begun if duration else replace(begun, pid=None), place.manifest)
        done = run_attended(recording.argv, interruption, quiet=True)
        if done.exit_code != 0:
            error = ToolFailed(
                f"session {session}: recording could not be started (exit code {done.exit_code})",
                found=f"nsys says: {last_line(done.said)}",
                hint=f"is the server running, started with `gpuledger capture nsys --session={session} -- SERVER`? "
                "`nsys sessions list` lists what there is; TMPDIR must be the same for both",
            )
            manifests.write_manifest(replace(begun, state=FAILED, reason=error.claim), place.manifest)
            raise error
        if duration is None:
            planned.remember(session, place.manifest)
            tell(f"recording session {session}; `gpuledger capture stop {session}` ends it")
            return
        began, until = time.time(), time.monotonic() + duration
        while time.monotonic() < until and not interruption:
            time.sleep(_LOOK_EVERY_S)
        outcome = _stop_recording(recording, begun, interruption, began)
    shared.finish(outcome, CaptureWishes(duration_ns=int(duration * 1e9)), no_report=no_report)


def _stop(session: _Session, *, no_report: _NoReport = False) -> None:
    """End a recording that `gpuledger capture start NAME` began, check it and report on it.

    \b
    Examples:
      gpuledger capture stop web
    """
    path, began = planned.recall(planned.session_name(session))
    place = CapturePlace(path.parent, path.name.removesuffix(MANIFEST), REPORTS["nsys"])
    recording = _recording(session, place, place.base, None)
    with Interruption() as interruption:
        begun = first_manifest(recording, (recording.argv, _stop_command(recording)))
        begun = replace(begun, started_utc=manifests.utc(began))
        outcome = _stop_recording(recording, begun, interruption, began)
        planned.forget(session)
    shared.finish(outcome, CaptureWishes(), no_report=no_report)


def _recording(session: str, place: CapturePlace, output: Path, duration: float | None) -> Recording:
    nsys = shared.require_tool("nsys", find_nsys())
    return Recording(
        tool="nsys",
        executable=nsys,
        argv=planned.start_command(str(nsys), session, str(output)),
        command=(),
        place=place,
        presets=("server",),
        duration=duration,
        called_as=shared.called_as(),
        session=session,
    )


def _stop_command(recording: Recording) -> tuple[str, ...]:
    return (str(recording.executable), "stop", f"--session={recording.session}")


def _stop_recording(recording: Recording, begun: Manifest, interruption: Interruption, began: float) -> CaptureOutcome:
    """Stop the recording, which writes the report, and bring it to its end; Ctrl-C before meant: stop now."""
    early = bool(interruption)
    with Interruption() as again:
        done = run_attended(_stop_command(recording), again, quiet=True)
    said = replace(done, interrupted=done.interrupted or early, seconds=time.time() - began)
    return close_recording(recording, begun, said, interruption)


nsys = command_of(_nsys, "nsys", context_settings=shared.COMMAND_FIRST)
start, stop = command_of(_start, "start"), command_of(_stop, "stop")
