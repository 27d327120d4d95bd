"""The compiled passes, where there are any."""

from __future__ import annotations

import os
from typing import Final

_PASSES: Final = ("forward", "slack", "path", "outer", "streams", "lags", "bound", "queue", "order")

try:
    from gpuledger.replay.native import _replay as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

__all__ = ("is_compiled", "native")


def is_compiled() -> bool:
    """Whether the passes were compiled, all of them; GPULEDGER_NATIVE=0 leaves them out.

    A checkout that went on without being built again lacks the newer ones: plain Python gives the same.
    """
    return os.environ.get("GPULEDGER_NATIVE") != "0" and all(hasattr(native, name) for name in _PASSES)
