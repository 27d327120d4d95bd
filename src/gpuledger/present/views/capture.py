"""A capture for people: flags with their reasons, verdicts of checks, what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.analyse.capture_checks import CaptureCheck
from gpuledger.present.safe_text import visible, wrapped
from gpuledger.units import bytes_text


def reasons_text(reasons: Sequence[tuple[str, str]], width: int | None) -> str:
    """Each flag, and under it the reason."""
    lines = []
    for flag, why in reasons:
        lines += [visible(flag), wrapped(f"    {visible(why)}", width, 4)]
    return "\n".join(lines) + "\n"


def checks_text(checks: Iterable[CaptureCheck]) -> list[str]:
    """One line per check; what to do stands behind what is missing."""
    return [
        visible(f"{each.verdict:<8} {each.name}: {each.found}" + (f"; {each.advice}" if each.advice else ""))
        for each in checks
    ]


def files_text(files: Iterable[tuple[str, int]]) -> str:
    """Files with their sizes, in one line."""
    return ", ".join(f"{visible(name)} ({bytes_text(size)})" for name, size in files)
