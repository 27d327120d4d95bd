"""The verbs that ask one question: all read a profile, find steps, and print the answer, then tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import click

from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.cli.limits import limit_option
from gpuledger.cli.names import named, names_option
from gpuledger.cli.output import Output, page_options, profile_argument, step_options
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.tables import TableAnswer, answers_document, tables_document
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.stages import BOOKS


def question(
    answer: Callable[..., TableAnswer],
    of_tables: Callable[[RunSide], list[Sheet]] | None = None,
    *,
    reads_samples: bool = False,
    of_snapshot: Callable[[Path, Limits, Output], bool] | None = None,
) -> click.Command:
    """A verb from a function that answers for a trace and one device of it; its name and docstring are the verb's.

    Options of its own stand under this decorator, and are handed to the function. With `of_tables`, it also answers
    from tables that `nsys stats` printed; with `of_snapshot`, which says whether it did, from a memory snapshot.
    Samples of GPUs are read only for an answer that `reads_samples`.
    """

    @functools.wraps(answer)
    def verb(
        profile: Path, wanted: Wanted, names_from: Path | None, limits: Limits, output: Output, **own: object
    ) -> None:
        if of_tables is not None and is_printed_tables(profile, limits=limits):
            printed = open_summaries(profile, limits=limits)
            sheets = of_tables(side_of_tables(printed, profile.name, wanted.families))
            output.show(tables_document(answer.__name__, profile.name, sheets, printed.health, 0))
            return
        if of_snapshot is not None and of_snapshot(profile, limits, output):
            return
        sampled = SAMPLES if reads_samples else {}
        trace = open_trace(profile, where_sampled=sampled, limits=limits, progress=output.progress)
        trace = named(trace, profile.name, names_from, limits, output.progress)
        output.progress.stage(BOOKS)
        devices = analysed(trace, profile.name, wanted)
        answers = [answer(trace, device, **own) for device in devices]
        output.show(answers_document(answer.__name__, profile.name, answers, trace.health, devices[0].zero_ns))

    return click.command(answer.__name__)(
        profile_argument(step_options(names_option(limit_option(page_options(verb)))))
    )
