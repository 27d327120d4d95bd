"""A command on another machine or in a pod, by a prefix such as `ssh HOST` or `kubectl exec POD --`.

Files come back through the same prefix, with `cat`, and are counted. Whatever the prefix does with arguments that it
hands to a shell, each of ours arrives as one: ssh puts its arguments into one line for a shell, so for ssh they are
quoted. No prefix hands over our environment, so what the program is to have stands in the command. Everything lies in
one new folder over there, which goes away at the end.
"""

from __future__ import annotations

import base64
import gzip
import re
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Final

from gpuledger.capture.prefix import prefix_words, shells_behind
from gpuledger.capture.withheld import without_secrets
from gpuledger.errors import ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import Ran, fetched, run

_SECONDS: Final = 60.0
_START: Final = (
    'umask 077; mkdir "$1" || exit 125; echo "$$" > "$1/pid"; PATH="$PATH:/usr/local/cuda/bin"; export PATH; '
    '[ -z "$2" ] || echo "$2" | base64 -d | gzip -dc > "$1/script" || exit 125; shift 2; exec "$@"'
)
"""The folder is new, or it is somebody else's. `exec` keeps the process id that was noted.

A script of ours travels in the command: standard input is the program's, and not every prefix hands that over.
"""
_ENVIRONMENT: Final = "environment"
_SIGNAL: Final = (
    'p=$(cat "$1/pid") && read -r stat < "/proc/$p/stat" || exit 0; s=$2; set -- ${stat##*) }; '
    'case $3 in 0|1) kill -s "$s" "$p";; *) kill -s "$s" -- "-$3";; esac'
)
"""To the process group, as a terminal does: the third word behind the name in /proc. Not to the one of init."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a command is to run, and the folder for its files there."""

    prefix: tuple[str, ...]
    folder: str = field(default_factory=lambda: f"/tmp/gpuledger-{secrets.token_hex(6)}")  # noqa: S108 - made anew

    @property
    def script(self) -> str:
        """Where a script lies that was sent along."""
        return f"{self.folder}/script"

    @property
    def environment_file(self) -> str:
        """Where what the program's environment was is written down."""
        return f"{self.folder}/{_ENVIRONMENT}"

    def argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command with its prefix."""
        return (*self.prefix, *(reduce(_quoted, range(shells_behind(self.prefix)), word) for word in command))

    def started(
        self, command: Sequence[str], variables: Mapping[str, str] | None = None, script: Path | None = None
    ) -> tuple[str, ...]:
        """The same, with the folder made first, the process id noted in it, and the environment set."""
        packed = "" if script is None else base64.b64encode(gzip.compress(script.read_bytes(), mtime=0)).decode()
        setting = ("env", *(f"{name}={value}" for name, value in variables.items())) if variables else ()
        return self.argv(("sh", "-c", _START, "sh", self.folder, packed, *setting, *command))

    def signalled(self, which: signal.Signals) -> None:
        """Send a signal to what was started."""
        run(self.argv(("sh", "-c", _SIGNAL, "sh", self.folder, which.name.removeprefix("SIG"))), seconds=_SECONDS)

    def names(self) -> tuple[str, ...]:
        """The files in the folder."""
        listed = self._asked("ls", self.folder)
        return tuple(listed.output.splitlines()) if listed.exit_code == 0 else ()

    def environment_seen(self) -> str | None:
        """What was written down about the program's environment; None where nothing was."""
        shown = self._asked("cat", self.environment_file)
        return shown.output if shown.exit_code == 0 else None

    def exported(self, report: str, target: str, *, seconds: float) -> Ran:
        """Let the nsys over there make an export."""
        options = ("--type=sqlite", "--force-overwrite=true", "--quiet=true", f"--output={self.folder}/{target}")
        path = 'PATH="$PATH:/usr/local/cuda/bin"; export PATH; exec nsys export "$@"'
        return run(self.argv(("sh", "-c", path, "sh", *options, f"{self.folder}/{report}")), seconds=seconds)

    def fetched(self, name: str, target: Path, interruption: Interruption) -> None:
        """Copy a file here, and count its bytes: connections break, and terminals change line ends."""
        there = f"{self.folder}/{name}"
        counted = self._asked("wc", "-c", there)
        size = re.search(r"(?m)^\s*(\d+)", counted.output)
        done = fetched(self.argv(("cat", there)), target, interruption)
        got = target.stat().st_size if target.exists() else 0
        if done.exit_code != 0 or size is None or got != int(size[1]):
            target.unlink(missing_ok=True)
            prefix = shlex.join(without_secrets(self.prefix))
            raise ToolFailed(
                f"{name} could not be copied back whole: {got} of {size[1] if size else 'an unknown number of'} bytes",
                found=f"it is at {there} on the other side, reached with `{prefix}`",
                hint="does something there write to standard output when a shell starts, or ask for a terminal?",
            )

    def cleaned(self) -> None:
        """Take the folder away."""
        self._asked("rm", "-rf", "--", self.folder)

    def _asked(self, *command: str) -> Ran:
        return run(self.argv(command), seconds=_SECONDS)


def remote(via: str) -> Remote:
    """The place that --via names."""
    return Remote(prefix_words(via))


def _quoted(word: str, _: int) -> str:
    return shlex.quote(word)
