"""A workload run here: what it found, or as a program, with one line of JSON on stdout and exit code 3 for a FAIL."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from gpuledger_workloads.command_lines import PARSERS


def found_by(workload: str, *arguments: str) -> Any:
    """What a workload finds on the CPU; nothing on a rank that is not the first."""
    return import_module(f"gpuledger_workloads.{workload}").run(
        PARSERS[workload]().parse_args(["--device=cpu", *arguments])
    )


def told(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], dict[str, Any] | None],
    arguments: Sequence[str] | None = None,
) -> None:
    result = run(parser.parse_args(arguments))
    if result is not None:
        sys.stdout.write(json.dumps(result) + "\n")
        if result.get("verdict") == "FAIL":
            raise SystemExit(3)
