"""Runs a command and samples its Python: `python -m lab.programs.watched NAME COMMAND...` writes NAME.samples.gz.

The command finds this process's id in SAMPLER_PID: stopped, it samples nothing (`lab.programs.sampler_cost`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.python_samples import StackSampler
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import run_attended


def main() -> int:
    """The command's exit code."""
    name = Path(sys.argv[1])
    variables = {"SAMPLER_PID": str(os.getpid())}
    with StackSampler(CapturePlace(name.parent, name.name, ".nsys-rep")) as sampler, Interruption() as interruption:
        ended = run_attended(sys.argv[2:], interruption, environment=variables, on_start=sampler.watch)
    if sampler.why_nothing:
        print(sampler.why_nothing, file=sys.stderr)  # noqa: T201
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
