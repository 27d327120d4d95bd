"""The only module that starts processes. An argument list in, what the program said out; never a shell."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuledger.errors import ToolFailed


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ran to its end."""

    exit_code: int
    output: str
    """Standard output and standard error, in the order they came."""

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.output.replace("\r", "\n").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def run(argv: Sequence[str | Path], *, seconds: float) -> Ran:
    """Run a program to its end, its input closed."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            [str(each) for each in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{name} did not end within {seconds:g} s and was stopped") from None
    except OSError as error:
        raise ToolFailed(f"{name} could not be started: {error.strerror or error}") from None
    return Ran(done.returncode, done.stdout.decode(errors="replace"))
