"""The version is that of the installed package, the one source of it."""

from __future__ import annotations

import importlib.metadata

from gpuledger.version import installed_version, own_version


def test_the_version_is_the_package_s() -> None:
    assert own_version() == importlib.metadata.version("gpuledger")
    assert installed_version("numpy") == importlib.metadata.version("numpy")


def test_a_package_that_is_installed_nowhere_is_run_from_its_source() -> None:
    assert installed_version("gpuledger-nowhere") == "source"
