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
from gpuledger.messages import joined, say


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
            return say(
                "ALIGNED IN TIME: a call of the mock takes {ratio} x the model's{but}.",
                ratio=f"{self._ratio:.2f}",
                but=self._but,
            )
        if not counting and self._ratio is None:
            return say("ALIGNED: the mock runs what the model runs{but}.", but=self._but)
        if not counting:
            return say(
                "ALIGNED: the mock runs what the model runs, in {ratio} x its time{but}.",
                ratio=f"{self._ratio:.2f}",
                but=self._but,
            )
        first = next(check for check in counting if check.verdict == self.verdict)
        others = [check.title for check in counting if check is not first]
        also = say("; see also {checks}", checks=_listed(others)) if others else ""
        state = say("NOT ALIGNED") if self.verdict == FAIL else say("ALIGNED WITH REMARKS")
        return say("{state}: {evidence}{also}.", state=state, evidence=first.evidence[0], also=also)

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
        known = say("; known: {checks}", checks=_listed(accepted)) if accepted else ""
        return joined("", (known, say("; {checks} could not be checked", checks=_listed(untold)) if untold else ""))


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
    accepted = [
        say("known: {sentence} ({reason})", sentence=item.sentence, reason=item.difference.reason)
        for check in checked
        for item in check.accepted
    ]
    unused = [
        say("known difference no longer present: {difference}", difference=str(difference))
        for difference in known.differences
        if difference not in used
    ]
    return Alignment(sides, isolation, checked, (*accepted, *notes(sides), *remarks, *unused))


def _listed(titles: list[str]) -> str:
    if len(titles) < 2:
        return joined("", titles)
    return joined(say(" and "), (joined(say(", "), titles[:-1]), titles[-1]))
