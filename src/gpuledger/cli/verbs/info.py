"""`gpuledger info`: the formats that are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from gpuledger.cli.output import Output
from gpuledger.verbs.definition import Option

if TYPE_CHECKING:
    from gpuledger.present.views.info import InfoAnswer


def _formats() -> str:
    from gpuledger.read.registry import formats_table

    return formats_table()


def info(
    verb: Callable[..., InfoAnswer],
    output: Output,
    *,
    formats: Annotated[  # noqa: ARG001 - printed instead of an answer
        bool, Option("Print the formats that are read, the versions seen, and what each lacks.", prints=_formats)
    ] = False,
    **asked: Any,
) -> None:
    """Show the inventory."""
    output.show(verb(**asked).document())
