"""`gpuledger explain`: a page about a finding."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import click

from gpuledger.cli.terminal import columns, has_colours
from gpuledger.findings.pages import codes, page
from gpuledger.present.terminal import Terminal
from gpuledger.present.writers.page_text import page_text
from gpuledger.verbs.definition import Option, VerbArgument


def explain(
    code: Annotated[str | None, VerbArgument(completes="codes")] = None,
    *,
    language: Annotated[Literal["en", "zh"], Option("Language of the page: English or Chinese.", "--lang")] = "en",
) -> None:
    """Explain a finding's CODE: symptom, how it was detected, causes, fix, how to verify.

    Without CODE, lists them all.

    \b
    Examples:
      gpuledger explain
      gpuledger explain HOST-SYNC
      gpuledger explain HOST-SYNC --lang=zh
    """
    if code is None:
        for each in codes():
            click.echo(page(each, language).splitlines()[0].removeprefix("# "))
        return
    wanted = code.upper()
    if wanted not in codes():
        import difflib

        close = difflib.get_close_matches(wanted, codes(), n=1)
        meant = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(codes())}."
        raise click.BadParameter(f"no finding {code!r}. {meant}", param_hint="CODE")
    terminal = Terminal(columns(sys.stdout), has_colours(sys.stdout))
    click.echo(page_text(page(wanted, language), terminal), nl=False, color=terminal.has_colours)
