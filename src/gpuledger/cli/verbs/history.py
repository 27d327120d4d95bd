"""`gpuledger history`: runs in a store, a figure over them, and which commit changed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec.structs import replace

from gpuledger.cli.commands import command_of
from gpuledger.cli.output import Output
from gpuledger.verbs.definition import Option
from gpuledger.verbs.history import add, blame, show, trend

if TYPE_CHECKING:
    from gpuledger.present.views.compare.history import HistoryAnswer


@click.group()
def history() -> None:
    """Keep the figures of runs in a store; show their trend, and which commit changed it.

    A run is a Parquet file: commit, date, machine, GPU, clock, tool, method, and its figures with what `diff` compares.
    DuckDB reads a store as it is: SELECT * FROM 'DIR/*.parquet'. Needs `pip install 'gpuledger[arrow]'`.

    \b
    Examples:
      gpuledger history add run.sqlite --store=perf/
      gpuledger history trend --store=perf/
      gpuledger history trend line:compute.gemm --store=perf/ --format=csv
      gpuledger history blame --store=perf/ --comment
    """


def _show(
    verb: Callable[..., HistoryAnswer],
    output: Output,
    *,
    comment: Annotated[bool, Option("Write Markdown for a comment on a pull request: trend, changes, causes.")] = False,
    **asked: Any,
) -> None:
    answer = verb(**asked)
    if comment:
        replace(output, format="md").show(answer.comment())
    else:
        output.show(answer.document())


for command in (command_of(add), command_of(show), command_of(trend), command_of(blame, show=_show)):
    history.add_command(command)
