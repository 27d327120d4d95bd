"""Differences that the user knows of and accepts, each with a reason: the content of a TOML file in, a look-up out.

    [[difference]]
    check = "latency"
    reason = "the mock keeps its weights in L2; modelled as a factor"

    [[difference]]
    kernel = "direct_copy"
    reason = "the model writes its cache in another layout"

With `check`, what that check finds is known; with `kernel`, what any check finds about kernels that match; with both,
what that check finds about those kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuledger.errors import GpuledgerError

_HINT = 'write [[difference]] with reason = "..." and check = "latency" or kernel = "REGEX", or both'


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """One accepted difference."""

    reason: str
    check: str | None = None
    kernel: re.Pattern[str] | None = None

    def covers(self, check: str, names: tuple[str, ...]) -> bool:
        """Whether this is about what `check` found, about these kernels or about none in particular."""
        if self.check is not None and self.check != check:
            return False
        return self.kernel is None or any(self.kernel.search(name) for name in names)

    def __str__(self) -> str:
        parts = [f"check {self.check}" if self.check else "", f"kernel '{self.kernel.pattern}'" if self.kernel else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class KnownDifferences:
    """All of them."""

    differences: tuple[KnownDifference, ...] = ()

    def find(self, check: str, names: tuple[str, ...]) -> KnownDifference | None:
        """The first that accepts what `check` found about these kernels; None if it is not accepted."""
        return next((difference for difference in self.differences if difference.covers(check, names)), None)

    def of_kernel(self, check: str, names: tuple[str, ...]) -> KnownDifference | None:
        """The same among those that name kernels."""
        named = (difference for difference in self.differences if difference.kernel is not None)
        return next((difference for difference in named if difference.covers(check, names)), None)


def known(content: Mapping[str, object], file: str, checks: tuple[str, ...]) -> KnownDifferences:
    """From a TOML file's content; `checks` are the names that a check may have."""
    entries = content.get("difference")
    if not isinstance(entries, list) or not entries:
        raise GpuledgerError(f"{file}: no [[difference]] in it", hint=_HINT)
    return KnownDifferences(
        tuple(_difference(entry, f"{file}: difference {number}", checks) for number, entry in enumerate(entries, 1))
    )


def _difference(entry: object, where: str, checks: tuple[str, ...]) -> KnownDifference:
    if not isinstance(entry, dict):
        raise GpuledgerError(f"{where} is no table", hint=_HINT)
    if unknown := entry.keys() - {"check", "kernel", "reason"}:
        raise GpuledgerError(f"{where} has an unknown key '{min(unknown)}'", hint=_HINT)
    if not all(isinstance(value, str) for value in entry.values()):
        raise GpuledgerError(f"{where} holds something that is no text", hint=_HINT)
    if not str(entry.get("reason", "")).strip():
        raise GpuledgerError(f"{where} gives no reason", hint=_HINT)
    check, kernel = entry.get("check"), entry.get("kernel")
    if check is None and kernel is None:
        raise GpuledgerError(f"{where} names neither a check nor a kernel", hint=_HINT)
    if check is not None and check not in checks:
        raise GpuledgerError(f"{where}: there is no check '{check}'", found=f"checks: {', '.join(checks)}")
    try:
        pattern = None if kernel is None else re.compile(kernel)
    except re.error as error:
        raise GpuledgerError(f"{where}: '{kernel}' is no regular expression: {error}") from None
    return KnownDifference(str(entry["reason"]).strip(), check, pattern)
