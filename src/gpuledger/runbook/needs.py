"""What steps need that a machine may not have: names in, for each that is missing the reason out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from gpuledger.system.machine import machine
from gpuledger.system.tools import find_ncu, find_nsys


def _gpu() -> str:
    here = machine()
    return "" if here.gpus else f"there is no GPU here ({here.reason})"


def _nsys() -> str:
    return "" if find_nsys() else "nsys is not installed here"


def _ncu() -> str:
    return "" if find_ncu() else "ncu is not installed here"


def _torch() -> str:
    return "" if find_spec("torch") else "the package torch is not installed here"


ASKED: Final[Mapping[str, Callable[[], str]]] = {"gpu": _gpu, "nsys": _nsys, "ncu": _ncu, "torch": _torch}
"""How each need is looked for; '' where it is there."""


def missing(needs: Iterable[str], asked: Mapping[str, Callable[[], str]] = ASKED) -> dict[str, str]:
    """Those that are not here, each with the reason."""
    return {need: reason for need in dict.fromkeys(needs) if (reason := asked[need]())}
