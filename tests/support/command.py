"""The command as a user runs it, and where the repository keeps its captures."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures" / "nsys"
NAMES = (
    "attn",
    "decode",
    "graph",
    "moe_batched_gemm",
    "moe_loop",
    "one_nccl",
    "two_gloo",
    "zoo_graph",
    "zoo_node",
)


@dataclass(frozen=True)
class Ran:
    """What one call of the command did."""

    exit_code: int
    stdout: str
    stderr: str


def gpuledger(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
    """Run the command as a user does: a process of its own."""
    clean = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "GPULEDGER_DEBUG")}
    done = subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        capture_output=True,
        cwd=cwd,
        env=clean | {"PYTHONWARNINGS": "error"} | environment,
        check=False,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
