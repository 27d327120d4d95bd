"""What a check answers: its verdict, its figures, and what it found; and how much counts as how bad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.align.known_differences import KnownDifference, KnownDifferences

PASS, KNOWN, WARN, FAIL, NOT_MEASURED = "PASS", "KNOWN", "WARN", "FAIL", "NOT MEASURED"
"""KNOWN: all that was found is accepted. NOT_MEASURED: neither passed nor failed."""

_ORDER: Final = (NOT_MEASURED, PASS, KNOWN, WARN, FAIL)

NAMES, COUNTS, MISSING_KERNELS, EXTRA_KERNELS, LATENCY, GRAPH, SHAPE = CHECKS = (
    "names",
    "counts",
    "missing",
    "extra",
    "latency",
    "graph",
    "shape",
)

Figure = int | float | str | None


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts."""
    return max(verdicts, key=_ORDER.index, default=PASS)


def overall(verdicts: Iterable[str]) -> str:
    """Of a whole alignment: what is known or cannot be measured is no reason not to pass."""
    said = worst(verdicts)
    return said if said in (WARN, FAIL) else PASS


@dataclass(frozen=True, slots=True)
class Tier:
    """How close latencies have to be: within `passes` times is a pass, within `warns` times a warning."""

    name: str
    passes: float
    warns: float
    bounds_count: bool
    """Whether exactly the limit is within."""

    def verdict(self, factor: float) -> str:
        """`factor`: how many times the shorter side's time the longer one takes."""
        if self._within(factor, self.passes):
            return PASS
        return WARN if self._within(factor, self.warns) else FAIL

    def _within(self, factor: float, limit: float) -> bool:
        return factor <= limit if self.bounds_count else factor < limit


TIERS: Final = {
    tier.name: tier
    for tier in (Tier("mock", 1.10, 2.0, bounds_count=False), Tier("same-module", 1.01, 1.10, bounds_count=True))
}


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """One difference that a check found. `names` are the kernels that it is about."""

    verdict: str
    sentence: str
    names: tuple[str, ...] = ()
    amount: int = 1


@dataclass(frozen=True, slots=True)
class AcceptedDifference:
    """One that the user knows of."""

    sentence: str
    difference: KnownDifference


@dataclass(frozen=True, slots=True)
class AlignCheck:
    """One check's answer."""

    check: str
    title: str
    verdict: str
    mock: str
    """The mock's figure, for people."""
    e2e: str
    figures: Mapping[str, Figure]
    evidence: tuple[str, ...] = ()
    accepted: tuple[AcceptedDifference, ...] = ()
    remedy: str | None = None


def sifted(
    check: str, items: Iterable[FoundDifference], known: KnownDifferences
) -> tuple[list[FoundDifference], tuple[AcceptedDifference, ...]]:
    """What counts, the worst first, and what is accepted."""
    counted, accepted = [], []
    for item in sorted(items, key=lambda item: -_ORDER.index(item.verdict)):
        difference = known.find(check, item.names)
        if difference is None:
            counted.append(item)
        else:
            accepted.append(AcceptedDifference(item.sentence, difference))
    return counted, tuple(accepted)


def verdict_of(counted: Iterable[FoundDifference], accepted: tuple[AcceptedDifference, ...]) -> str:
    """The worst of what counts."""
    return worst((KNOWN if accepted else PASS, *(item.verdict for item in counted)))
