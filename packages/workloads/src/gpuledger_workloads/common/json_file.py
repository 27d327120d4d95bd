"""JSON that a user hands to a workload: the path of a file in, an object out, or one sentence about what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuledger_workloads.common.program import refuse

_MOST_BYTES = 4 << 20  # a model's config.json takes a few kB; whoever hands over weights meant another file


def read_object(path: str, what: str) -> dict[str, Any]:
    """The object in a file; `what` says what it should hold."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        refuse(f"{what}: {path}: {getattr(error, 'strerror', None) or error}")
    if len(text) > _MOST_BYTES:
        refuse(f"{what}: {path} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"{what}: {path} is no JSON: {error}")
    if not isinstance(found, dict):
        refuse(f"{what}: {path} holds no JSON object but {type(found).__name__}")
    return found
