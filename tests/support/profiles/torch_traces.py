"""Small torch.profiler traces, and all that we have of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from support.command import ROOT
from support.thorough import IS_THOROUGH

CAPTURES = ROOT / "captures" / "torch"
OURS = sorted(CAPTURES.glob("*.json.gz"))


CORPUS = ROOT.parent / "shared" / "corpus" / "torch"


FILES = [*OURS, *sorted(CORPUS.glob("*.json.gz"))]


COUNTED = [path for path in FILES if IS_THOROUGH or path.stat().st_size < 600_000]
"""Those that plain Python counts again, event by event, which takes seconds for a large one."""


KERNEL = {"ph": "X", "cat": "kernel", "name": "k<1>", "pid": 0, "tid": 7, "ts": 30.5, "dur": 4.25}


KERNEL_ARGS = {"device": 0, "context": 1, "stream": 7, "correlation": 5, "grid": [8, 2, 1], "block": [128, 1, 1]}


CALL = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 10, "ts": 20, "dur": 3}


OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 10, "ts": 10, "dur": 20}


SMALL = [
    OP | {"args": {"Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"]}},
    CALL | {"args": {"correlation": 5}},
    KERNEL | {"args": KERNEL_ARGS},
]


def saved(path: Path, content: Any, **metadata: Any) -> Path:
    text = content if isinstance(content, bytes) else json.dumps(metadata | {"traceEvents": content}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
