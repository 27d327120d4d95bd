"""The compiled passes, where there are any."""

from __future__ import annotations

import os

try:
    from gpuledger.replay.native import _replay as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

__all__ = ("is_compiled", "native")


def is_compiled() -> bool:
    """Whether the passes were compiled; GPULEDGER_NATIVE=0 leaves them out."""
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"
