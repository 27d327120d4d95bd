"""`gpuledger capture`: from a command to a profile that holds what was asked for; by nsys, see `cli.capture.nsys`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Unpack

import click

from gpuledger.capture.completeness import CaptureWishes
from gpuledger.capture.launchers import remote
from gpuledger.capture.ncu import ENDING, Choice, Measure, check_metrics, ncu_flags
from gpuledger.capture.output_files import place_for
from gpuledger.capture.record import ELSEWHERE, LEFT_OUT, Recording, record_program, torch_plain
from gpuledger.capture.rocprof import RocprofWishes, rocprof_flags
from gpuledger.capture.torch_command import OURS, RUNNER, Schedule, torch_command, torch_flags
from gpuledger.capture.window import opens_window
from gpuledger.cli.capture import options as shared
from gpuledger.cli.capture.nsys import nsys, start, stop
from gpuledger.cli.capture.options import CaptureOptions, tell, warn
from gpuledger.cli.commands import command_of
from gpuledger.errors import GpuledgerError
from gpuledger.system.machine import find_ncu, find_rocprof
from gpuledger.verbs.definition import Option, regex_option


def _ncu(
    *,
    kernel: Annotated[str | None, regex_option("Only kernels whose function's name matches.")] = None,
    launch_skip: Annotated[
        int | None, Option("Let so many matching launches pass first.", metavar="N", least=0)
    ] = None,
    launch_count: Annotated[int | None, Option("Profile so many launches.", metavar="N", least=1)] = None,
    set_: Annotated[
        Literal["verdict", "full", "roofline", "basic"],
        Option("What to measure. Default: what verdicts need.", "--set"),
    ] = "verdict",
    metrics: Annotated[
        str | None, Option("Measure these instead of a set; names are checked.", metavar="NAME[,NAME...]")
    ] = None,
    via: shared.Via = None,
    **asked: Unpack[CaptureOptions],
) -> None:
    """Profile single kernels of COMMAND with Nsight Compute, and say what limits each.

    Every launch that is profiled is replayed several times, so choose few: `gpuledger kernels PROFILE -- COMMAND`
    says which, from a timeline. If COMMAND has --cuda-profiler, only what runs while its window is open is
    profiled. The set `verdict` holds what verdicts need; full, roofline and basic are ncu's own.

    \b
    Examples:
      gpuledger capture ncu --kernel=rms_norm_kernel --launch-count=5 -- ./bench
      gpuledger capture ncu --kernel=mlp --set=roofline -o mlp -- python bench.py
      gpuledger capture ncu --metrics=dram__bytes.sum --dry-run -- ./bench
    """
    manner = shared.manner_of(asked)
    command = manner.command
    measure = Measure.of_set(set_) if metrics is None else Measure.of_metrics(check_metrics(metrics))
    place = place_for(manner.name, command, "ncu", force=manner.force)
    there = remote(via) if via is not None else None
    output = f"{there.folder}/report" if there else str(place.base)
    choice = Choice(kernel, launch_skip, launch_count, windowed=opens_window(command))
    flags = ncu_flags(choice, measure, output.replace("%", "%%"), run_by_us=True)
    found = None if there else find_ncu()
    if launch_count is None:
        what = "every launch" if kernel is None else f"every launch of {kernel}"
        cost = f"is replayed {measure.cost.passes} times and takes {measure.cost.seconds:g} s more"
        fewer = "add --launch-count=N" + ("" if kernel else " and --kernel=REGEX")
        warn([f"{what} {cost}: programs run 100 times slower, or worse; {fewer}"])
    options = tuple(flag for flag, _ in flags)
    witness = shared.witness_for(manner, command, place, there)
    if manner.only_prints:
        argv = (shared.word_for("ncu", found), *options, *command)
        copied = [f"then copied back to {place.folder.absolute()}/{place.name}{ENDING}"] if there else []
        shared.print_plan(
            manner,
            flags,
            (shared.shown_command(manner, argv, there, witness),),
            [*shared.environment_notes(witness), *copied],
        )
        return
    executable = None if there else shared.require_tool("ncu", found)
    if not there:
        shared.check_program(command[0])
    recording = Recording(
        tool="ncu",
        executable=executable,
        argv=(str(executable or "ncu"), *options, *(command if witness is None else witness.before(command))),
        command=command,
        place=place,
        remote=there,
        variables=manner.variables,
        witness=witness,
        called_as=shared.called_as(),
    )
    shared.finish(record_program(recording, tell), None, no_report=manner.no_report)


def _torch(
    *,
    wait: Annotated[int, Option("Steps to let pass first. Default: 0.", metavar="N", least=0)] = 0,
    warmup: Annotated[int, Option("Steps to throw away then. Default: 1.", metavar="N", least=0)] = 1,
    active: Annotated[int | None, Option("Steps to record. Default: a range, or all.", metavar="N", least=1)] = None,
    step_range: Annotated[
        str | None, Option("With --active: a step is an NVTX range of this name.", metavar="NAME")
    ] = None,
    record_shapes: Annotated[bool, Option("The shapes of operators' inputs: gives TFLOP/s.")] = False,
    with_stack: Annotated[bool, Option("Python's call stacks: slow, but names lines.")] = False,
    memory: Annotated[
        bool, Option("Allocations and releases of tensors, and a snapshot of torch's allocator.")
    ] = False,
    via: shared.Via = None,
    no_plain: shared.NoPlain = False,
    no_lines: shared.NoLines = False,
    **asked: Unpack[CaptureOptions],
) -> None:
    """Record the operators of a Python program with torch.profiler.

    COMMAND is `python SCRIPT.py ...`, `python -m MODULE ...` or `gpuledger bench ...`, also behind torchrun or env, or
    in the text of `bash -lc`; its Python needs torch, and nothing of gpuledger. With --active that many steps are
    recorded: a step is an optimizer's, or a range named --step-range. Without, the profiler range that the program
    opens (`gpuledger.window(NAME, profiler=True)`, or torch.cuda.profiler.start), and if it opens none, the whole run.
    The trace is written whatever the program does. With --memory, NAME.memory.pickle gets the history of torch's
    allocator over the whole run, with Python's stacks, and the report shows both: also after an out-of-memory.

    \b
    Examples:
      gpuledger capture torch --wait=2 --warmup=2 --active=5 -- python train.py
      gpuledger capture torch -o decode -- python -m bench --cuda-profiler
      gpuledger capture torch -- torchrun --nproc-per-node=2 train.py
      gpuledger capture torch --memory --active=5 -- python train.py
      gpuledger capture torch -- gpuledger bench moe --device=cpu
      gpuledger capture torch --via='kubectl exec POD --' -- python train.py
    """
    if step_range is not None and active is None:
        raise GpuledgerError("--step-range defines the step, but not how many to record", hint="add --active=N")
    manner = shared.manner_of(asked)
    command = manner.command
    schedule = Schedule(wait, warmup if active else 0, active or 0, step_range, record_shapes, with_stack, memory)
    place = place_for(manner.name, command, "torch", force=manner.force)
    there = remote(via) if via is not None else None
    output = f"{there.folder}/report" if there else place.base.absolute()
    runner = there.script if there else str(RUNNER)
    argv = torch_command(command, schedule, output, runner=runner, is_here=there is None)
    witness = shared.witness_for(manner, command, place, there)
    plain = LEFT_OUT if no_plain else ELSEWHERE if there else torch_plain(schedule, command, place, witness)
    unsampled = shared.why_unsampled(there, no_lines=no_lines)
    if with_stack:
        warn(["--with-stack slows the host several times: times between kernels are not those of a plain run"])
    if manner.only_prints:
        reasons = [(flag.argument if flag.value else f"--{flag.name}", flag.why) for flag in torch_flags(schedule)]
        started = shared.shown_command(manner, argv, there, witness, RUNNER)
        copied = [f"then copied back to {place.folder.absolute()}"] if there else []
        whole = [("(no options)", "the profiler range of the program, or else the whole run")]
        shared.print_plan(
            manner,
            reasons or whole,
            (started,),
            [
                *shared.plain_run_notes(plain),
                *shared.environment_notes(witness),
                *shared.sampling_notes(unsampled),
                *copied,
            ],
        )
        return
    if not there and command[0] != OURS:
        shared.check_program(command[0])
    recording = Recording(
        tool="torch",
        executable=None,
        argv=argv if witness is None else witness.before(argv),
        command=command,
        place=place,
        remote=there,
        variables=manner.variables,
        witness=witness,
        script=RUNNER if there else None,
        called_as=shared.called_as(),
        plain=plain,
        unsampled=unsampled,
    )
    shared.finish(record_program(recording, tell), CaptureWishes(memory=memory), no_report=manner.no_report)


def _rocprof(
    *,
    hsa: Annotated[bool, Option("Record HSA's calls too: many, and they slow the host.")] = False,
    pmc: Annotated[
        str | None,
        Option("Hardware counters of kernels; `rocprofv3-avail list --pmc` has names.", metavar="NAME[,NAME...]"),
    ] = None,
    kernel: Annotated[str | None, regex_option("Counters of kernels whose name matches alone.")] = None,
    delay: Annotated[float | None, Option("Seconds to let pass before recording.", metavar="S", least=0)] = None,
    duration: Annotated[float | None, Option("Seconds to record.", metavar="S", above=0)] = None,
    **asked: Unpack[CaptureOptions],
) -> None:
    """Record the timeline of COMMAND on an AMD GPU with rocprofv3.

    Kernels, copies, allocations, HIP's calls, RCCL's and your roctx ranges go to NAME_PID_results.db, a database for
    each process. This was written after AMD's documentation: no AMD GPU was at hand to try it on.

    \b
    Examples:
      gpuledger capture rocprof -- python bench.py
      gpuledger capture rocprof --delay=60 --duration=20 -- ./serve
      gpuledger capture rocprof --pmc=SQ_WAVES --kernel=gemm --dry-run -- ./bench
    """
    manner = shared.manner_of(asked)
    command = manner.command
    counters = tuple(name.strip() for name in (pmc or "").split(",") if name.strip())
    place = place_for(manner.name, command, "rocprof", force=manner.force)
    flags = rocprof_flags(RocprofWishes(hsa, counters, kernel, delay, duration), place)
    options, found = tuple(flag for flag, _ in flags), find_rocprof()
    witness = shared.witness_for(manner, command, place, None)
    if manner.only_prints:
        argv = (shared.word_for("rocprofv3", found), *options, "--", *command)
        started = shared.shown_command(manner, argv, None, witness)
        shared.print_plan(manner, flags, (started,), shared.environment_notes(witness))
        return
    executable = shared.require_tool("rocprofv3", found)
    shared.check_program(command[0])
    recording = Recording(
        tool="rocprof",
        executable=executable,
        argv=(str(executable), *options, "--", *(command if witness is None else witness.before(command))),
        command=command,
        place=place,
        remote=None,
        variables=manner.variables,
        witness=witness,
        called_as=shared.called_as(),
        delay=delay,
    )
    wishes = CaptureWishes(duration_ns=None if duration is None else round(duration * 1e9))
    shared.finish(record_program(recording, tell), wishes, no_report=manner.no_report)


@click.group(subcommand_metavar="TOOL [OPTIONS] -- COMMAND...")
def capture() -> None:
    """Record a profile of COMMAND, check that it is complete, and report on it.

    The tool that records is nsys (the timeline of any program), torch (the operators of a PyTorch program), ncu (what
    single kernels do) or rocprof (the timeline of a program on an AMD GPU). The profile is written as NAME.*, with
    NAME.capture.json beside it: the command, versions, GPUs, clocks, the commit, and how it ended. Ctrl-C ends the
    program and all that it started, and keeps what was recorded. The exit code is COMMAND's; 1 if it could not be
    started or nothing was recorded; 130 if interrupted.

    \b
    Examples:
      gpuledger capture nsys -- python bench.py --iters=20
      gpuledger capture nsys --preset=steady -- python bench.py --cuda-profiler
      gpuledger capture nsys --preset=server --delay=60 --duration=20 -- ./serve
      gpuledger capture torch --wait=2 --warmup=2 --active=5 -- python train.py
      gpuledger capture ncu --kernel=rms_norm --launch-count=5 -- python bench.py
    """


ours: dict[str, Callable[..., None]] = {"torch": _torch, "ncu": _ncu, "rocprof": _rocprof}
made = (command_of(tool, name, context_settings=shared.COMMAND_FIRST) for name, tool in ours.items())
for command in (nsys, *made, start, stop):
    capture.add_command(command)
