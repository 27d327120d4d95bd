"""Options that take a regular expression: one that is none is refused before anything is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click

from gpuledger.cli.completion import range_patterns

Verb = Callable[..., None]

_OF_KERNELS: Final = ("--step-kernel", "--pattern", "--kernel")


def regex_option(name: str, variable: str | None = None, *, said: str) -> Callable[[Verb], Verb]:
    """`name` with a REGEX, handed to the verb as `variable`; None where it was not given.

    The shell completes names of ranges, but for options about kernels.
    """
    names = (name,) if variable is None else (name, variable)
    complete = None if name in _OF_KERNELS else range_patterns
    return click.option(*names, metavar="REGEX", callback=_checked, help=said, shell_complete=complete)


def _checked(_: click.Context, __: click.Parameter, pattern: str | None) -> str | None:
    return None if pattern is None else checked_regex(pattern)


def checked_regex(pattern: str) -> str:
    """The same pattern, if it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}") from None
    return pattern
