"""What the shell offers after <TAB>: click asks with the words so far (see `docs/guides/terminal.md`).

A profile that cannot be read offers nothing; the verb will say why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from gpuledger.errors import GpuledgerError

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_QUICKLY_READ: Final = 64 * 10**6
"""Bytes of a profile that is read while somebody waits for a word; SQLite is read quickly at any size."""

_SQLITE: Final = b"SQLite format 3\0"


def completion(completes: str | Callable[[], Iterable[str]], ending: str = "") -> Complete | None:
    """What completes a word: by one of the names below, or from names that are looked up when asked for."""
    if isinstance(completes, str):
        return _BY_NAME[completes]

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{name}{ending}") for name in completes() if name.startswith(incomplete)]

    return complete


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of files and folders, which the shell knows itself."""
    return [CompletionItem(incomplete, type="file")]


def _finding_codes(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes that `explain` has a page for, each with its title."""
    from gpuledger.findings.pages import codes, page

    chosen = [code for code in codes() if code.startswith(incomplete.upper())]
    return [CompletionItem(code, help=page(code).splitlines()[0].partition(": ")[2]) for code in chosen]


def _range_patterns(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the profile's ranges, as regular expressions that match them."""
    patterns = [(name, re.escape(name).replace(r"\#", r"\d+")) for name in _range_names(context)]
    begun = [regex for name, regex in patterns if name.startswith(incomplete) or regex.startswith(incomplete)]
    return [CompletionItem(regex) for regex in begun]


def _level_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the profile's ranges, numbers folded, as `gpuledger steps` lists what repeats."""
    return [CompletionItem(name) for name in _range_names(context) if name.startswith(incomplete)]


def _range_names(context: click.Context) -> list[str]:
    """Names of the ranges of the profile among the words so far, numbers folded; none where there is no such file."""
    profile = _named_profile(context)
    if profile is None:
        return []
    from gpuledger.catalog.kernel_names import without_ids, without_numbers
    from gpuledger.read import open_trace
    from gpuledger.trace.tables import Table

    try:
        ranges = open_trace(profile, only=(Table.RANGES,))[Table.RANGES]
    except GpuledgerError:
        return []
    kinds, _ = ranges.strings.kinds(ranges.codes("name"), lambda text: without_numbers(without_ids(text or "")))
    return sorted(name for name in kinds if name)


def _named_profile(context: click.Context) -> Path | None:
    """The first of the arguments that is a file which is read quickly.

    Words that click has not come to yet, as the option before them still lacks its value, are in `context.args`.
    """
    given: list[object] = []
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            value = context.params.get(parameter.name or "")
            given += value if isinstance(value, tuple) else [value]
    paths = [Path(str(word)) for word in (*given, *context.args) if word]
    quick = (path for path in paths if path.is_file() and (path.stat().st_size <= _QUICKLY_READ or _is_sqlite(path)))
    return next(quick, None)


def _is_sqlite(path: Path) -> bool:
    from gpuledger.read.source import look_at

    return look_at(path).head.startswith(_SQLITE)


_BY_NAME: Final[dict[str, Complete | None]] = {
    "": None,
    "files": _files,
    "codes": _finding_codes,
    "ranges": _range_patterns,
    "levels": _level_names,
}
