"""Operators with their inputs as a trace of torch: `aten::mm [[8,4],[4,4]] -> gemm 1000 in MmBackward0`.

A line is an operator, its shapes, the kernel that it launches and its microseconds, and what stands around it, the
outermost first; `types=["float","int"]` and `arguments=["","2"]` come after the shapes. `-` is a kernel without one.
Four steps run them all, the GPU right behind the host.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from gpuledger import Trace, open_trace
from support.traces.trace_notation import gpu_of, run, statements

HALF = "c10::BFloat16"
_LINE = re.compile(
    r"(?P<name>\S+)(?: (?P<dims>\[\S*\]))?(?: types=(?P<types>\[[^\]]*\]))?(?: arguments=(?P<arguments>\[[^\]]*\]))?"
    r"(?: -> (?P<kernel>.+?) (?P<us>\d+))?(?: in (?P<around>.+))?"
)


def torch_trace(text: str, **known: Any) -> Trace:
    """What a file of such a program is read as."""
    lines: list[str] = []
    run(statements(text), lambda line, _: lines.append(line), known={"unit_ns": 1_000, **known})
    gpu = next((line.removeprefix("gpu ") for line in lines if line.startswith("gpu ")), "NVIDIA H200")
    operators = [_LINE.fullmatch(line) for line in lines if not line.startswith("gpu ")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(_document([match for match in operators if match is not None], gpu)))
        if None in operators:
            raise ValueError(f"not an operator: {lines[operators.index(None)]!r}")
        return open_trace(path, cache=False)


def _document(operators: list[re.Match[str]], gpu: str, steps: int = 4) -> dict[str, Any]:
    events: list[dict[str, Any]] = []

    def put(category: str, name: str, start: float, length: float, **args: Any) -> None:
        at = {"pid": 0, "tid": 7} if category in ("kernel", "gpu_memcpy") else {"pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": args, **at})

    host = device = 1000.0
    for step in range(steps):
        began = host
        for number, one in enumerate(operators):
            around = one["around"].split(" > ") if one["around"] else []
            for level, outer in enumerate(around):
                put("cpu_op", outer, host + level * 0.1, 9 - level * 0.2)
            if one["name"] != "-":
                dims = json.loads(one["dims"] or "[]")
                types = json.loads(one["types"]) if one["types"] else [HALF if size else "" for size in dims]
                given = {"Input Dims": dims, "Input type": types}
                given |= {"Concrete Inputs": json.loads(one["arguments"])} if one["arguments"] else {}
                put("cpu_op", one["name"], host + len(around) * 0.1, 9 - len(around) * 0.2, **given)
            if one["kernel"]:
                launch = {"stream": 7, "correlation": step * len(operators) + number + 1}
                put("cuda_runtime", "cudaLaunchKernel", host + 2, 3, correlation=launch["correlation"])
                device = max(device, host + 6)
                shape = {"grid": [4096, 1, 1], "block": [256, 1, 1]}
                put("kernel", one["kernel"], device, int(one["us"]), device=0, context=1, **launch, **shape)
                device += int(one["us"]) + 1
            host += 10
        host = max(host, device)
        put("user_annotation", f"ProfilerStep#{step}", began, host - began)
        host += 5
    described = gpu_of(gpu)
    major, minor = described.compute_capability or (9, 0)
    sms = {"id": 0, "name": described.name, "numSms": described.sm_count or 132}
    return {"deviceProperties": [sms | {"computeMajor": major, "computeMinor": minor}], "traceEvents": events}
