"""Which gpuledger this is, installed or not."""

from __future__ import annotations

import importlib.metadata

import pytest

from gpuledger.version import own_version


def test_an_installed_package_says_its_version() -> None:
    assert own_version() == importlib.metadata.version("gpuledger")


def test_a_source_tree_on_the_path_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("gpuledger.version.version", nowhere)
    assert own_version() == "source"
