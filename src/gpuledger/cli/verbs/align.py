"""`gpuledger align`: does a mock run what the model runs? What tells is imported when no kept answer does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gpuledger.cli.inputs import cache_option, files, limit_option, names_option, regex_option, undecided_option
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, page_options
from gpuledger.errors import GpuledgerError
from gpuledger.limits import Limits
from gpuledger.selection import Selection
from gpuledger.system.files import refuse_existing
from gpuledger.verbs import LATENCY_TIERS

if TYPE_CHECKING:
    from gpuledger.analyse.align.checks import KnownDifferences

GATE = 3  # the exit code where --gate was given and a check fails

_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("mock", shell_complete=files)
@click.argument("e2e", nargs=-1, shell_complete=files)
@regex_option("--range", "range_pattern", said="The operation is what ranges that match launch.")
@regex_option("--pattern", "kernel_pattern", said="The operation is the kernels whose names match, on both sides.")
@click.option("--auto", is_flag=True, help="Look for the mock's sequence of kernels. The default.")
@regex_option("--mock-range", said="A forward of the mock is a range that matches. Default: a step.")
@regex_option("--step-range", said="Steps of the model are ranges that match. Default: found.")
@regex_option("--step-kernel", said="A step of the model ends with each kernel that matches.")
@click.option(
    "--tier",
    type=click.Choice(LATENCY_TIERS),
    default="mock",
    help="How close latencies must be: a mock within 10 % (the default), or the same module within 1 %.",
)
@click.option("--known", "known_file", type=_FILE, metavar="FILE", help="TOML with differences to accept.")
@click.option("--forwards-mock", type=_COUNT, metavar="N", help="Forwards in the mock's tables. Default: found.")
@click.option("--forwards-e2e", type=_COUNT, metavar="N", help="Forwards in the model's tables. Default: found.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the checks as JUnit XML too.")
@click.option("--gate", is_flag=True, help="Exit with 3 if a check fails.")
@undecided_option
@names_option
@cache_option
@limit_option
@page_options
def align(
    mock: str,
    e2e: tuple[str, ...],
    auto: bool,
    step_range: str | None,
    step_kernel: str | None,
    known_file: Path | None,
    forwards_mock: int | None,
    forwards_e2e: int | None,
    junit: Path | None,
    gate: bool,
    undecided: Literal["fail", "pass"],
    limits: Limits,
    output: Output,
    **asked: Any,
) -> None:
    """Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast.

    Finds the operation in the profile of the whole model, lays one forward of each side by side, and asks seven
    questions: kernel names, calls per forward, missing kernels, extra kernels, latency, CUDA graphs, launch shape.
    Each passes, warns, fails or is undecided with its figures, and says what to do. Only steady steps count; the first
    forward is left out, and the one with the median GPU time stands for the others.

    E2E may be several profiles, a folder or a glob, one per rank: each forward counts where it computes the longest.
    Both sides may also be what `nsys stats --report=cuda_gpu_kern_sum` printed, or the JSON of `gpuledger time`, which
    for two operations is one file; what these cannot tell is not measured.

    \b
    Examples:
      gpuledger align attn.sqlite model.sqlite --range=attention
      gpuledger align attn.json graph.json --range=attn --names-from=capture.json
      gpuledger align attn.sqlite model.sqlite --pattern='flash|fmha'
      gpuledger align attn.json.gz ranks/ --known=known.toml --gate
      gpuledger align timed.json --tier=same-module
      gpuledger align mock.csv model.csv --forwards-mock=20 --forwards-e2e=160
    """
    if sum((asked["range_pattern"] is not None, asked["kernel_pattern"] is not None, auto)) > 1:
        raise click.UsageError("--range, --pattern and --auto are three ways to find the operation: give one.")
    alignment = answering("align")
    from gpuledger.verbs.compared_sides import timings_at
    from gpuledger.verdicts import FAIL, UNDECIDED

    accepted = None if known_file is None else _accepted(known_file)
    if junit is not None and junit.exists() and not output.force:
        raise refuse_existing(junit)
    if not e2e and timings_at(mock, limits) is None:
        raise click.UsageError("give MOCK and E2E, or one file of two operations that `gpuledger time` timed in turns.")
    answer = alignment(
        mock,
        e2e,
        wanted=Selection(step_range, step_kernel),
        known=accepted,
        forwards=(forwards_mock, forwards_e2e),
        limits=limits,
        progress=output.progress,
        **asked,
    )
    output.show(answer.document())
    if junit is not None:
        Output("junit", junit, output.force, output.quiet).write(answer.junit())
    if gate and answer.verdict in ((FAIL, UNDECIDED) if undecided == "fail" else (FAIL,)):
        sys.exit(GATE)


def _accepted(path: Path) -> KnownDifferences:
    """The differences that the user knows of, from a TOML file."""
    import tomllib

    from gpuledger.analyse.align.checks import CHECKS, known
    from gpuledger.read.source import look_at, opened

    with opened(look_at(path)) as file:
        content = file.read()
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GpuledgerError(f"{path.name}: cannot be read as TOML", found=str(error)) from None
    return known(table, path.name, CHECKS)
