"""`gpuledger mcp`: profiles for agents. The SDK is imported when the server starts."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import click

from gpuledger.errors import MissingPackage
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.verbs.definition import PerProfile, VerbArgument


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise ValueError(f"Directory {text!r} {'is a file' if path.exists() else 'does not exist'}.")
    return path


def mcp(
    folders: Annotated[tuple[Path, ...], VerbArgument("[FOLDER]...", _folder, "files")] = (),
    *,
    limits: Annotated[Limits, PerProfile()] = DEFAULT_LIMITS,
) -> None:
    """Serve profiles to agents over the Model Context Protocol (stdio), read-only.

    An agent can open profiles below FOLDER (default: the current folder; symbolic links are followed, and refused
    where they lead elsewhere), and ask for the report, a finding with its evidence, steps, gaps, kernels, a comparison,
    and a picture of the timeline. Answers are small; tables come in pages. Nothing is written but the cache.

    It is started by the agent's program, see docs/guides/agents.md, and ends when its stdin does. Needs
    `pip install 'gpuledger[mcp]'`.

    \b
    Examples:
      gpuledger mcp
      gpuledger mcp traces/ /data/profiles
      claude mcp add gpuledger -- gpuledger mcp traces/
    """
    if importlib.util.find_spec("mcp") is None:
        raise MissingPackage(
            "the server needs the package mcp, which is not installed",
            hint="`pip install 'gpuledger[mcp]'` installs it",
        )
    from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
    from gpuledger.agents.server import serve

    if sys.stdin.isatty():
        click.echo("answers a program on stdin and stdout, see docs/guides/agents.md; Ctrl-C ends", err=True)
    with _ended_by_interrupts():
        serve(AgentProfiles(AllowedFolders(folders or (Path(),)), limits))


@contextlib.contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Ctrl-C ends us at once, as SIGTERM does: the thread that waits for input would hear of nothing else."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
