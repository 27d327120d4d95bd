"""`gpuledger view`: the timeline in a browser."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from html import escape
from pathlib import Path
from types import FrameType

import click

from gpuledger.cli.completion import files
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import step_options
from gpuledger.cli.timeline import fix_option
from gpuledger.cli.verbs.export import write_timeline
from gpuledger.errors import UnreadableProfile
from gpuledger.export.perfetto_server import Viewer, ui_files
from gpuledger.export.timeline_format import ENDINGS, TimelineFormat
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.safe_text import visible

_READY = tuple(ending for ending, form in ENDINGS.items() if not form.chrome)
_ASKS_TO_END = (signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("given", metavar="PROFILE...", nargs=-1, required=True, shell_complete=files)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Default: any that is free.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@fix_option
@step_options
@limit_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, no notes; only the address and errors.")
def view(
    given: tuple[str, ...],
    port: int,
    no_browser: bool,
    fixes: tuple[str, ...],
    wanted: Wanted,
    limits: Limits,
    quiet: bool,
) -> None:
    """Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.

    Writes the timeline to a private temporary folder, serves it together with the UI on this machine alone, and opens
    the browser, or prints the address where there is none. Nothing is asked of any network. Ctrl-C ends it and removes
    the folder. Timelines that `export` wrote (.pftrace) open as they are.

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
            signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="gpuledger-") as name:
        folder = Path(name)
        timeline = _timeline(given, folder, fixes, wanted, limits, quiet)
        # an interruption is how a viewer ends
        with contextlib.suppress(KeyboardInterrupt), Viewer(timeline, port) as viewer:
            _show(viewer.address, folder, no_browser=no_browser, quiet=quiet)
            threading.Event().wait()
    if not quiet:
        click.echo("ended", err=True)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _timeline(
    given: tuple[str, ...], folder: Path, fixes: tuple[str, ...], wanted: Wanted, limits: Limits, quiet: bool
) -> Path:
    """The file to show."""
    ready = [Path(each) for each in given if each.lower().endswith(_READY)]
    if ready and len(given) > 1:
        raise click.UsageError("a timeline that is written already is shown alone.")
    if ready and fixes:
        raise click.UsageError("--fix replays a profile; a timeline that is written already is shown as it is.")
    if ready:
        if not ready[0].is_file():
            raise UnreadableProfile(f"{ready[0]}: no such file")
        return ready[0]
    target = folder / "timeline.pftrace"
    form = TimelineFormat(chrome=False, packed=False)
    for line in write_timeline(given, target, form, wanted, limits, quiet=quiet, fixes=fixes):
        click.echo(visible(line), err=True)
    return target


def _show(address: str, folder: Path, *, no_browser: bool, quiet: bool) -> None:
    """Open the browser through a page in the private folder: its command line, which all users see, has no token."""
    start = folder / "open.html"
    start.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    opened = not no_browser and _has_a_screen() and webbrowser.open_new_tab(start.as_uri())
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
