"""`gpuledger time`: how long one call of an operation takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from gpuledger.cli.output import Output
from gpuledger.errors import GpuledgerError
from gpuledger.present.views.runs.timing import time_answer, timed_pair_answer
from gpuledger.system.nvml import GpuWatch, NotWatched
from gpuledger.timing.timer import (
    NoDevice,
    Operation,
    TimedPair,
    Timing,
    device_for,
    prepare_operation,
    time_in_turns,
    time_operation,
)
from gpuledger.timing.user_function import (
    UserFunction,
    blame_user_code,
    check_runs,
    load_function,
    require_callable,
    stdout_to_stderr,
)
from gpuledger.verbs.definition import Option, VerbArgument


def _operation(text: str) -> str:
    module, _sign, function = text.rpartition(":")
    if not module or not all(part.isidentifier() for part in function.split(".")):
        raise ValueError(f"{text!r}: expected MODULE:FUNCTION, e.g. mocks.py:attention")
    return text


def _share(text: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%?)", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < share < 1:
        raise ValueError(f"{text!r}: expected a share between 0 and 1, e.g. 1% or 0.01")
    return share


_NO_INPUT = object()


def _prepare(of: UserFunction, given: object) -> Operation:
    """The operation, bound to its input where one is given: a tuple of arguments, a dict of named ones, or one."""
    with blame_user_code(of.file, of.line, "failed while preparing"):
        made = prepare_operation(of.function) if given is _NO_INPUT else of.function()
    operation = require_callable(of, made)
    check_runs(of, operation)
    if given is _NO_INPUT:
        return operation
    if isinstance(given, dict):
        return partial(operation, **given)
    return partial(operation, *(given if isinstance(given, tuple) else (given,)))


def time(
    operation: Annotated[str, VerbArgument("MODULE:FUNCTION", _operation)],
    other: Annotated[str | None, VerbArgument("[MODULE:FUNCTION]", _operation)] = None,
    *,
    input_: Annotated[
        str | None,
        Option(
            "Prepares the input: a tuple of arguments, a dict of named ones, or one argument.",
            "--input",
            "MODULE:FUNCTION",
            _operation,
        ),
    ] = None,
    seconds: Annotated[
        float, Option("Stop after this long in any case. Default: 5.", metavar="S", above=0, most=86400)
    ] = 5.0,
    target: Annotated[float, Option("How well to know the median. Default: 1%.", metavar="SHARE", parse=_share)] = 0.01,
    no_graph: Annotated[bool, Option("Launch it as it is; no CUDA graph.")] = False,
    cold: Annotated[bool, Option("Write more than the L2 cache holds before each call.")] = False,
    warmup: Annotated[
        int | None, Option("Calls before measuring. Default: until they are alike.", metavar="N", least=1)
    ] = None,
    device: Annotated[
        Literal["cuda", "cpu"] | None, Option("Whose clock to use. Default: cuda if there is one.")
    ] = None,
    output: Output,
) -> None:
    """Time an operation until its median is reliable, with the GPU's clocks, power and throttling.

    FUNCTION is called once, without arguments. If it returns something that can be called, that is the operation, and
    FUNCTION has prepared its weights and inputs; if it returns anything else, FUNCTION itself is the operation. MODULE
    is a module or the path of a .py file. It is your code, and it is run.

    On a GPU the operation is captured in a CUDA graph where possible, so that its own time is measured and not the
    host's. Samples are averages over batches of at least 1 ms. It stops when the 95 % interval of their median is
    within --target of it. Clocks and power need the package nvidia-ml-py.

    Of two operations, samples are taken in turns, so that clocks and heat are the same for both, until the 95 %
    interval of their difference is within --target. With --input both are called with the same input, and FUNCTION
    returns the module. `gpuledger diff` and `gpuledger align` read the JSON of one or two.

    \b
    Examples:
      gpuledger time mocks.py:attention
      gpuledger time mocks.py:attention --cold --target=0.5% -o attention.json
      gpuledger time package.mocks:mlp --device=cpu --seconds=20
      gpuledger time mocks.py:attention model.py:attention --input=mocks.py:input
    """
    try:
        chosen = device_for(device)
    except NoDevice as error:
        hint = "--device=cpu uses the host's clock; torch comes with `pip install 'gpuledger[workloads]'`"
        raise GpuledgerError(str(error), hint=hint) from None
    functions = [load_function(name) for name in (operation, other) if name is not None]
    source = None if input_ is None else load_function(input_)
    watch = GpuWatch()
    with stdout_to_stderr():
        given: object = _NO_INPUT
        if source is not None:
            with blame_user_code(source.file, source.line, "failed while preparing the input"):
                given = source.function()
        operations = [_prepare(function, given) for function in functions]
        if len(operations) > 1:  # so that what fails is reported of the one that failed
            for function, first_call in zip(functions, operations, strict=True):
                with blame_user_code(function.file, function.line, "failed while it was timed"):
                    first_call()
        with blame_user_code(functions[0].file, functions[0].line, "failed while it was timed"):
            one, *rest = operations
            measured: Callable[..., Timing | TimedPair] = partial(time_operation, lambda: one)
            if rest:
                measured = partial(time_in_turns, (lambda: one, lambda: rest[0]))
            timing = measured(
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
    if isinstance(timing, TimedPair):
        output.show(timed_pair_answer((operation, other or ""), timing, gpu, unwatched).document())
    else:
        output.show(time_answer(operation, timing, gpu, unwatched).document())
