"""Which gpuledger this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """The version that is installed; `source` where the package is run from its source tree and installed nowhere."""
    try:
        return version("gpuledger")
    except PackageNotFoundError:
        return "source"
