"""The marks that a profiled program sets: in which order, and nothing at all where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gpuledger.capture import window as module
from gpuledger.capture.window import window


@pytest.fixture(autouse=True)
def ask_again() -> Iterator[None]:
    """Whether there is a device is asked once per process; here it changes between tests."""
    module._cuda.cache_clear()
    yield
    module._cuda.cache_clear()


def fake_torch(log: list[str], *, device: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: device,
            nvtx=SimpleNamespace(
                range_push=lambda name: log.append(f"push {name}"), range_pop=lambda: log.append("pop")
            ),
            profiler=SimpleNamespace(start=lambda: log.append("start"), stop=lambda: log.append("stop")),
        )
    )


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a torch with a CUDA device was asked to do."""
    seen: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(seen))
    return seen


def test_a_window_is_a_range(log: list[str]) -> None:
    with window("step"):
        log.append("work")
    assert log == ["push step", "work", "pop"]


def test_windows_nest_and_the_profiler_is_outermost(log: list[str]) -> None:
    with window("measure", profiler=True), window("step"):
        log.append("work")
    assert log == ["start", "push measure", "push step", "work", "pop", "pop", "stop"]


def test_an_error_closes_the_window_and_goes_on(log: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), window("measure", profiler=True):
        raise ZeroDivisionError
    assert log == ["start", "push measure", "pop", "stop"]


def test_without_a_device_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(log, device=False))
    with window("step", profiler=True):
        log.append("work")
    assert log == ["work"]


def test_without_torch_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # Python's way to say: this import fails
    with window("step", profiler=True):
        pass
    with pytest.raises(ZeroDivisionError), window("step"):
        raise ZeroDivisionError


def test_importing_it_does_not_load_torch() -> None:
    code = "import sys, gpuledger.capture.window; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
