"""`gpuledger time`: how long one call of an operation takes."""

from __future__ import annotations

import re

import click

from gpuledger.cli.output import Output, output_options
from gpuledger.errors import GpuledgerError
from gpuledger.present.views.timing import timing_document
from gpuledger.system.nvml import GpuWatch, NotWatched
from gpuledger.timing.timer import NoDevice, device_for, prepared, time_operation
from gpuledger.timing.user_function import blamed, checked, named, stdout_to_stderr


def _operation(_: click.Context, __: click.Parameter, value: str) -> str:
    module, _sign, function = value.rpartition(":")
    if not module or not all(part.isidentifier() for part in function.split(".")):
        raise click.BadParameter(f"{value!r}: expected MODULE:FUNCTION, e.g. mocks.py:attention")
    return value


def _share(_: click.Context, __: click.Parameter, value: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%?)", value)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < share < 1:
        raise click.BadParameter(f"{value!r}: expected a share between 0 and 1, e.g. 1% or 0.01")
    return share


@click.command()
@click.argument("operation", metavar="MODULE:FUNCTION", callback=_operation)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 86400, min_open=True),
    default=5.0,
    metavar="S",
    help="Stop after this long in any case. Default: 5.",
)
@click.option(
    "--target", default="1%", metavar="SHARE", callback=_share, help="How well to know the median. Default: 1%."
)
@click.option("--no-graph", is_flag=True, help="Launch it as it is; no CUDA graph.")
@click.option("--cold", is_flag=True, help="Write more than the L2 cache holds before each call.")
@click.option(
    "--warmup", type=click.IntRange(min=1), metavar="N", help="Calls before measuring. Default: until they are alike."
)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="Whose clock to use. Default: cuda if there is one.")
@output_options
def time(
    operation: str,
    seconds: float,
    target: float,
    no_graph: bool,
    cold: bool,
    warmup: int | None,
    device: str | None,
    output: Output,
) -> None:
    """Time an operation until its median can be trusted, with the GPU's clocks, power and throttling.

    FUNCTION is called once, without arguments. If it returns something that can be called, that is the operation, and
    FUNCTION has prepared its weights and inputs; if it returns anything else, FUNCTION itself is the operation. MODULE
    is a module or the path of a .py file. It is your code, and it is run.

    On a GPU the operation is captured in a CUDA graph where possible, so that its own time is measured and not the
    host's. Samples are averages over batches of at least 1 ms. It stops when the 95 % interval of their median is
    within --target of it. Clocks and power need the package nvidia-ml-py.

    \b
    Examples:
      gpuledger time mocks.py:attention
      gpuledger time mocks.py:attention --cold --target=0.5% -o attention.json
      gpuledger time package.mocks:mlp --device=cpu --seconds=20
    """
    try:
        chosen = device_for(device)
    except NoDevice as error:
        hint = "--device=cpu uses the host's clock; torch comes with `pip install 'gpuledger[workloads]'`"
        raise GpuledgerError(str(error), hint=hint) from None
    found = named(operation)
    watch = GpuWatch()
    with stdout_to_stderr():
        with blamed(found.file, found.line, "failed while preparing"):
            prepared_operation = prepared(found.function)
        checked(found, prepared_operation)
        with blamed(found.file, found.line, "failed while it was timed"):
            timing = time_operation(
                lambda: prepared_operation,
                seconds=seconds,
                target_share=target,
                graph=not no_graph,
                cold=cold,
                warmup=warmup,
                device=chosen,
                watch=watch,
            )
    gpu = None if isinstance(watch.seen, NotWatched) else watch.seen
    unwatched = watch.seen.reason if isinstance(watch.seen, NotWatched) and chosen == "cuda" else ""
    output.show(timing_document(operation, timing, gpu, unwatched))
