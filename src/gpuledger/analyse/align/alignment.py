"""An alignment put together: two sides in, checks, a verdict and a conclusion out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuledger.analyse.align.checks import checks
from gpuledger.analyse.align.known_differences import KnownDifferences
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.align.remarks import notes
from gpuledger.analyse.align.remedies import with_remedies
from gpuledger.analyse.align.side_by_side import SideBySide, compared
from gpuledger.analyse.align.verdicts import FAIL, KNOWN, LATENCY, NOT_MEASURED, WARN, AlignCheck, Tier, overall


@dataclass(frozen=True, slots=True)
class Isolation:
    """How the operation was found in the model."""

    by: str
    """range, pattern or auto."""
    expression: str | None = None

    @property
    def kernel_pattern(self) -> re.Pattern[str] | None:
        """What the names of kernels have to match, on both sides; None where names say nothing."""
        return None if self.expression is None or self.by != "pattern" else re.compile(self.expression)

    def __str__(self) -> str:
        return self.by if self.expression is None else f"{self.by} '{self.expression}'"


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is to be said of a mock."""

    sides: SideBySide
    isolation: Isolation
    checks: tuple[AlignCheck, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        return overall(check.verdict for check in self.checks)

    @property
    def conclusion(self) -> str:
        """One sentence: the verdict in words, and what weighs most."""
        counting = [check for check in self.checks if check.verdict in (FAIL, WARN)]
        if not counting and self.sides.mock.is_timed and self._ratio is not None:
            return f"ALIGNED IN TIME: a call of the mock takes {self._ratio:.2f} x the model's{self._but}."
        if not counting:
            time = "" if self._ratio is None else f", in {self._ratio:.2f} x its time"
            return f"ALIGNED: the mock runs what the model runs{time}{self._but}."
        first = next(check for check in counting if check.verdict == self.verdict)
        others = [check.title for check in counting if check is not first]
        also = f"; see also {_listed(others)}" if others else ""
        state = "NOT ALIGNED" if self.verdict == FAIL else "ALIGNED WITH REMARKS"
        return f"{state}: {first.evidence[0]}{also}."

    @property
    def _ratio(self) -> float | None:
        """The mock's time over the model's."""
        ratio = next(check.figures["ratio"] for check in self.checks if check.check == LATENCY)
        return ratio if isinstance(ratio, float) else None

    @property
    def _but(self) -> str:
        accepted, untold = (
            [check.title for check in self.checks if check.verdict == what] for what in (KNOWN, NOT_MEASURED)
        )
        known = f"; known: {_listed(accepted)}" if accepted else ""
        return known + (f"; {_listed(untold)} cannot be told" if untold else "")


def alignment(
    mock: OperationSide,
    e2e: OperationSide,
    isolation: Isolation,
    tier: Tier,
    known: KnownDifferences,
    *,
    remarks: tuple[str, ...] = (),
    whole: bool = True,
) -> Alignment:
    """Check a mock; `remarks` are what isolating it had to say."""
    sides = compared(mock, e2e, whole=whole)
    checked = with_remedies(checks(sides, tier, known), sides)
    used = [item.difference for check in checked for item in check.accepted]
    accepted = [f"known: {item.sentence} ({item.difference.reason})" for check in checked for item in check.accepted]
    unused = [
        f"known difference not found any more: {difference}"
        for difference in known.differences
        if difference not in used
    ]
    return Alignment(sides, isolation, checked, (*accepted, *notes(sides), *remarks, *unused))


def _listed(titles: list[str]) -> str:
    return " and ".join((", ".join(titles[:-1]), titles[-1])) if len(titles) > 1 else "".join(titles)
