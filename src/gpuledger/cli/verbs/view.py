"""`gpuledger view`: the timeline of profiles in a browser."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Annotated, BinaryIO

import click

from gpuledger.cli.timelines import Fixes, timeline, write_sections
from gpuledger.errors import OutputRefused, UnreadableProfile
from gpuledger.export.perfetto_server import Viewer, ui_files
from gpuledger.export.sections import (
    ENDINGS,
    TimelineFormat,
)
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.safe_text import visible
from gpuledger.selection import Selection
from gpuledger.verbs.definition import Option, PerProfile, VerbArgument, WithoutRank

_READY = tuple(ending for ending, form in ENDINGS.items() if not form.chrome)
_ASKS_TO_END = (signal.SIGTERM, signal.SIGHUP)


def view(
    given: Annotated[tuple[str, ...], VerbArgument("PROFILE...", completes="files")],
    *,
    port: Annotated[int, Option("Default: any free port.", metavar="N", least=0, most=65535)] = 0,
    no_browser: Annotated[bool, Option("Only print the address.")] = False,
    fixes: Fixes = (),
    wanted: WithoutRank,
    limits: Annotated[Limits, PerProfile()] = DEFAULT_LIMITS,
    quiet: Annotated[bool, Option("No progress or notes, only the address and errors.", "-q --quiet")] = False,
) -> None:
    """Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.

    Writes the timeline to a temporary file without a name, serves it together with the UI on this machine alone, and
    opens the browser, or prints the address where there is none. No network is used. Ctrl-C ends it, and
    the file is gone however it ends. Timelines that `export` wrote (.pftrace) open as they are.

    \b
    Examples:
      gpuledger view run.sqlite
      gpuledger view traces/ --no-browser --port=9000
      gpuledger view run.sqlite --fix=HOST-SYNC
      gpuledger view run.pftrace
    """
    ui_files()  # says what is missing before anything is read
    for number in _ASKS_TO_END:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a script does for what it runs in the background
            signal.signal(number, signal.default_int_handler)
    with (
        _timeline(given, fixes, wanted, limits, quiet) as (content, name),
        contextlib.suppress(KeyboardInterrupt),  # an interruption is how a viewer ends
        Viewer(content, name, port) as viewer,
        ExitStack() as kept,
    ):
        opened = not no_browser and _has_a_screen() and _open_browser(viewer.address, kept)
        _tell(viewer.address, opened=opened, quiet=quiet)
        threading.Event().wait()
    if not quiet:
        click.echo("ended", err=True)


@contextlib.contextmanager
def _timeline(
    given: tuple[str, ...], fixes: tuple[str, ...], wanted: Selection, limits: Limits, quiet: bool
) -> Iterator[tuple[BinaryIO, str]]:
    """The file to show, and what the viewer calls it. What is made for it has no place: it goes with us in any case."""
    ready = [Path(each) for each in given if each.lower().endswith(_READY)]
    if ready and len(given) > 1:
        raise click.UsageError("a timeline that is written already is shown alone.")
    if ready and fixes:
        raise click.UsageError("--fix replays a profile; a timeline that is written already is shown as it is.")
    if ready:
        if not ready[0].is_file():
            raise UnreadableProfile(f"{ready[0]}: no such file")
        with ready[0].open("rb") as file:
            yield file, ready[0].name
        return
    made = timeline(given, wanted, limits, workers=None, quiet=quiet, fixes=fixes)
    with tempfile.TemporaryFile() as unnamed:
        try:
            write_sections(made, unnamed, TimelineFormat(chrome=False, packed=False))
            unnamed.flush()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputRefused(f"{tempfile.gettempdir()}: cannot be written: {reason}") from None
        for line in made.remarks:
            click.echo(visible(line), err=True)
        yield unnamed, "timeline.pftrace"


def _open_browser(address: str, kept: ExitStack) -> bool:
    """Open the browser through a page in a private folder: its command line, which all users see, has no token."""
    start = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-"))) / "open.html"
    start.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    return webbrowser.open_new_tab(start.as_uri())


def _tell(address: str, *, opened: bool, quiet: bool) -> None:
    if not quiet:
        where = "in your browser" if opened else "open this address in a browser"
        click.echo(f"{where}; Ctrl-C ends", err=True)
    click.echo(address)
    sys.stdout.flush()


def _has_a_screen() -> bool:
    """Whether a browser would appear before the user's eyes: not on a machine far away, nor in a terminal."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
