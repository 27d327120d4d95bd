"""A workload run from its arguments: what it found goes to stdout as one line of JSON, exit code 3 for a FAIL."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any


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
