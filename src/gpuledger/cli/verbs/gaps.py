"""`gpuledger gaps`: why the GPU was idle."""

from __future__ import annotations

import click

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import gaps_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace
from gpuledger.units import parse_instant


def _length(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A length of time in nanoseconds, none where it was not given."""
    if value is None:
        return None
    try:
        length = parse_instant(value)
        if length < 0:
            raise ValueError(f"'{value}' is no length of time; write 1ms or 50us")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return length


@question
@click.option(
    "--over",
    metavar="LENGTH",
    callback=_length,
    help="List every gap at least this long, e.g. 1ms or 50us; 0 lists all. Default: the 20 longest.",
)
def gaps(trace: Trace, device: Device, over: int | None) -> TableAnswer:
    """Show why the GPU was idle in PROFILE: causes, triggers, lengths, the longest gaps.

    A gap is a time in which nothing ran on a GPU: no kernel, no copy, no graph, on any stream, of any process. Its
    time is booked to causes, which sum to it; its trigger is what to fix. Start and end of a gap are as --time takes
    them: --time='0.104316840 s:0.156453334 s' looks at one gap alone.

    \b
    Examples:
      gpuledger gaps run.sqlite
      gpuledger gaps run.sqlite --over=1ms
      gpuledger gaps run.sqlite --over=0 --format=csv -o gaps.csv
    """
    return gaps_of(trace, device, over)
