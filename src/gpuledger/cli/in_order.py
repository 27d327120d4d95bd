"""Options in the order in which they were given: click keeps that of one option's values only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import click


class InOrder(click.Command):
    """A command that remembers which of its options came when."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; and keep what options were given, one by one."""
        words = args[: args.index("--")] if "--" in args else args
        ctx.meta[__name__] = [word.partition("=")[0] for word in words if word.startswith("--")]
        return super().parse_args(ctx, args)


def in_order(values: Mapping[str, Iterable[Any]]) -> list[tuple[str, Any]]:
    """The values of several options, each with its option, as they were given."""
    left = {option: iter(given) for option, given in values.items()}
    order: Collection[str] = click.get_current_context().meta[__name__]
    return [(option, next(left[option])) for option in order if option in left]
