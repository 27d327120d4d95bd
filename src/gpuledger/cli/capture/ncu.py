"""`gpuledger capture ncu`: what single kernels do."""

from __future__ import annotations

import click

from gpuledger.capture.launchers import remote
from gpuledger.capture.ncu import ENDING, SETS, Choice, Measure, check_metrics, ncu_flags
from gpuledger.capture.output_files import place_for
from gpuledger.capture.record import Recording, record_program
from gpuledger.capture.window import opens_window
from gpuledger.cli.capture import options as shared
from gpuledger.cli.capture.options import CaptureOptions, tell, warn
from gpuledger.cli.inputs import regex_option
from gpuledger.system.machine import find_ncu


@click.command(context_settings=shared.COMMAND_FIRST)
@regex_option("--kernel", said="Only kernels whose function's name matches.")
@click.option("--launch-skip", type=click.IntRange(0), metavar="N", help="Let so many matching launches pass first.")
@click.option("--launch-count", type=click.IntRange(1), metavar="N", help="Profile so many launches.")
@click.option(
    "--set",
    "set_",
    type=click.Choice(list(SETS)),
    default="verdict",
    help="What to measure. Default: what verdicts need.",
)
@click.option("--metrics", metavar="NAME[,NAME...]", help="Measure these instead of a set; names are checked.")
@shared.VIA_OPTION
@shared.capture_options
def ncu(
    kernel: str | None,
    launch_skip: int | None,
    launch_count: int | None,
    set_: str,
    metrics: str | None,
    via: str | None,
    manner: CaptureOptions,
    command: tuple[str, ...],
) -> None:
    """Profile single kernels of COMMAND with Nsight Compute, and say what limits each.

    Every launch that is profiled is replayed several times, so choose few: `gpuledger ncu-plan PROFILE` says which,
    from a timeline. If COMMAND has --cuda-profiler, only what runs while its window is open is profiled. The set
    `verdict` holds what verdicts need; full, roofline and basic are ncu's own.

    \b
    Examples:
      gpuledger capture ncu --kernel=rms_norm_kernel --launch-count=5 -- ./bench
      gpuledger capture ncu --kernel=mlp --set=roofline -o mlp -- python bench.py
      gpuledger capture ncu --metrics=dram__bytes.sum --dry-run -- ./bench
    """
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
