"""What a range's name says of it: that a library made it, that it is set-up, or that it holds a whole round of work."""

from __future__ import annotations

import re
from typing import Final

LIBRARIES: Final = frozenset(
    (
        *("nccl", "rccl", "nvshmem", "ucx", "cublas", "cublaslt", "cudnn", "cufft", "cusparse", "cusolver", "cutensor"),
        *("cccl", "cub", "thrust", "tensorrt", "trt", "dali", "libcudf", "rmm"),
    )
)
"""Domains of NVTX that libraries put their own calls in."""

_SET_UP: Final = re.compile(
    r"(?:(?<![a-z])(?:init|load|compile|set_?up|warm_?up|tear_?down|shut_?down|finali[sz]e|destroy|abort))"
    r"|Init|Load|Compile|Set_?[Uu]p|Warm_?[Uu]p|Finali[sz]e|Destroy|Abort"
)

_ROUND: Final = re.compile(
    r"(?<![A-Za-z])(?:step|iter|iteration|epoch|batch|measure|bench|request|generate|forward|decode|prefill|layer|train|"
    r"run|main|total)(?![A-Za-z])",
    re.IGNORECASE,
)


def is_of_library(name: str) -> bool:
    """Whether a range, named with its domain and a colon before it, is a library's own."""
    domain, colon, _ = name.partition(":")
    return bool(colon) and domain.lower() in LIBRARIES


def sounds_like_set_up(name: str) -> bool:
    """Whether it is called as what happens before or after the work is."""
    return _SET_UP.search(name) is not None


def sounds_like_a_round(name: str) -> bool:
    """Whether it is called as what holds one round of all the work is."""
    return _ROUND.search(name) is not None
