"""Runs a command and samples its Python: `watched.py NAME COMMAND...` writes NAME.samples.gz.

The mark in the command's environment begins with this process's id: stopped, it samples nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.python_samples import StackSampler
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import run_attended


def main() -> int:
    """The command's exit code."""
    name = Path(sys.argv[1])
    with StackSampler(CapturePlace(name.parent, name.name, ".nsys-rep")) as sampler, Interruption() as interruption:
        return run_attended(sys.argv[2:], interruption, on_start=sampler.watch).exit_code


if __name__ == "__main__":
    sys.exit(main())
