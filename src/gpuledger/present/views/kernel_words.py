"""What verdicts on kernels, and their shapes, are called."""

from __future__ import annotations

from typing import Final

from gpuledger.messages import say
from gpuledger.present.sheet import Term

BOUNDS: Final = {
    "memory": say("memory"),
    "compute": say("compute"),
    "latency": say("latency"),
    "unknown": say("unknown"),
}

LIMITERS: Final = {
    "DRAM": say("DRAM"),
    "L2": say("L2"),
    "L1": say("L1"),
    "tensor": say("tensor cores"),
    "fp64": say("FP64"),
    "fma": say("FMA"),
    "alu": say("ALU"),
    "fp16": say("FP16"),
    "special functions": say("special functions"),
    "load/store": say("load/store"),
    "uniform": say("uniform"),
    "texture": say("texture"),
    "issue": say("issue slots"),
    "sm": say("a unit of the SM"),
    "too few blocks": say("too few blocks"),
    "tail": say("tail effect"),
    "occupancy": say("occupancy"),
    "uneven": say("load imbalance"),
    "short": say("too short"),
    "stalls": say("stalls"),
    "unexplained": say("cause not collected"),
    "unmeasured": say("not collected"),
}

SEVERITY_WORDS: Final = {
    "high": say("high"),
    "medium": say("medium"),
    "low": say("low"),
    "none": say("none"),
    "unknown": say("unknown"),
}


_SEVERITY_BADGES: Final = {"high": "bad", "medium": "warn"}


def severity_cell(level: str) -> Term:
    """How much a kernel has to gain, in a table."""
    return Term(SEVERITY_WORDS[level], SEVERITY_WORDS[level], badge=_SEVERITY_BADGES.get(level, ""))


def shape_text(shape: tuple[int, int, int] | None) -> str:
    """A grid or block: (64, 1, 1)."""
    return "-" if shape is None else f"({', '.join(map(str, shape))})"
