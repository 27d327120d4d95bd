"""The check of speed: how long the kernels take that both sides run.

What only one side runs is another check's matter and left out here, so that it does not count twice. Time is the
kernels' own, without gaps: the host's delays are told beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.align.known_differences import KnownDifferences
from gpuledger.analyse.align.side_by_side import AlignRow, SideBySide, called, with_calls
from gpuledger.analyse.align.verdicts import (
    LATENCY,
    NOT_MEASURED,
    PASS,
    WARN,
    AcceptedDifference,
    AlignCheck,
    Figure,
    FoundDifference,
    Tier,
    sifted,
    verdict_of,
)
from gpuledger.messages import say
from gpuledger.units import share_text, time_text

OTHER_SPEED: Final = 2.0
"""A critical kernel that is so many times faster or slower is worth a warning even where the sum hides it."""

NAMED: Final = 3
"""So many kernels are named that make up the difference."""

_TITLE: Final = say("latency per forward")


def latency(sides: SideBySide, tier: Tier, known: KnownDifferences, critical_share: float) -> AlignCheck:
    """Compare the time of the matched kernels."""
    if not sides.matched:
        why = (say("no kernel runs on both sides"),)
        return AlignCheck(LATENCY, _TITLE, NOT_MEASURED, "", "", _figures(sides, (), tier), why)
    rows, set_aside = _set_aside(sides.matched, tier, known)
    mock, e2e = _times(rows)
    factor = factor_of(mock, e2e)
    verdict = tier.verdict(factor)
    items = [] if verdict == PASS else [FoundDifference(verdict, _whole(mock, e2e, tier))]
    hidden = [row for row in rows if _is_hidden(row, e2e, critical_share)] if verdict == PASS else []
    items += [FoundDifference(WARN, say("the sum hides {kernel}", kernel=_one(row)), row.names) for row in hidden]
    counted, accepted = sifted(LATENCY, items, known)
    evidence = [item.sentence for item in counted]
    if verdict != PASS and counted:
        evidence += _makes_it_up(rows, mock - e2e)
        evidence += _spread(sides)
    return AlignCheck(
        check=LATENCY,
        title=_TITLE,
        verdict=verdict_of(counted, (*set_aside, *accepted)),
        mock=time_text(mock),
        e2e=say("{time} ({ratio})", time=time_text(e2e), ratio=_times_text(mock, e2e)),
        figures=_figures(sides, rows, tier),
        evidence=tuple(evidence),
        accepted=(*set_aside, *accepted),
    )


def factor_of(mock_ns: int, e2e_ns: int) -> float:
    """How many times the shorter side's time the longer one takes; 1 where both take none."""
    shorter, longer = sorted((mock_ns, e2e_ns))
    return 1.0 if not longer else longer / shorter if shorter else math.inf


def _set_aside(
    matched: Sequence[AlignRow], tier: Tier, known: KnownDifferences
) -> tuple[list[AlignRow], tuple[AcceptedDifference, ...]]:
    """The rows without those whose speed the user knows to differ."""
    rows, accepted = [], []
    for row in matched:
        difference = known.of_kernel(LATENCY, row.names) if tier.verdict(_row_factor(row)) != PASS else None
        if difference is None:
            rows.append(row)
        else:
            accepted.append(AcceptedDifference(_one(row), difference))
    return rows, tuple(accepted)


def _times(rows: Sequence[AlignRow]) -> tuple[int, int]:
    mock = sum(row.mock.time_ns for row in rows if row.mock is not None)
    return mock, sum(row.e2e.time_ns for row in rows if row.e2e is not None)


def _row_factor(row: AlignRow) -> float:
    return factor_of(*_times([row]))


def _is_hidden(row: AlignRow, e2e_ns: int, critical_share: float) -> bool:
    longer = max(_times([row]))
    return longer >= critical_share * e2e_ns and _row_factor(row) >= OTHER_SPEED


def _whole(mock: int, e2e: int, tier: Tier) -> str:
    limit = tier.passes if tier.verdict(factor_of(mock, e2e)) == WARN else tier.warns
    return say(
        "{mock} in the mock, {e2e} in the model: the mock is {ratio} (limit {limit} x)",
        mock=time_text(mock),
        e2e=time_text(e2e),
        ratio=_times_text(mock, e2e),
        limit=f"{limit:.2f}",
    )


def _times_text(mock: int, e2e: int) -> str:
    factor = factor_of(mock, e2e)
    rounded = f"{factor:.2f}"
    if rounded == "1.00":
        return say("the same")
    return say("{ratio} x slower", ratio=rounded) if mock > e2e else say("{ratio} x faster", ratio=rounded)


def _one(row: AlignRow) -> str:
    mock, e2e = _times([row])
    return say(
        "{kernel}: {mock} in the mock, {e2e} in the model",
        kernel=called(row.names[0]),
        mock=time_text(mock),
        e2e=time_text(e2e),
    )


def _makes_it_up(rows: Sequence[AlignRow], difference: int) -> list[str]:
    """The kernels that make up most of the difference, calls of one name together."""
    grouped: dict[tuple[str, ...], list[AlignRow]] = {}
    for row in rows:
        grouped.setdefault(row.names, []).append(row)
    parts = sorted(
        ((names, *_times(named), len(named)) for names, named in grouped.items()),
        key=lambda part: -(part[1] - part[2]) * (1 if difference > 0 else -1),
    )
    lines = list[str]()
    for names, mock, e2e, calls in parts[:NAMED]:
        part = (mock - e2e) / difference if difference else 0.0
        if part > 0:
            lines.append(
                say(
                    "{kernel}: {mock} in the mock, {e2e} in the model, {share} of the difference",
                    kernel=with_calls(called(names[0]), calls),
                    mock=time_text(mock),
                    e2e=time_text(e2e),
                    share=share_text(part),
                )
            )
    return lines


def _spread(sides: SideBySide) -> list[str]:
    if sides.mock.spread_ns is None or sides.e2e.spread_ns is None:
        return []
    (a, b), (c, d) = sides.mock.spread_ns, sides.e2e.spread_ns
    mock = say("{start} to {end}", start=time_text(a), end=time_text(b))
    e2e = say("{start} to {end}", start=time_text(c), end=time_text(d))
    return [say("P10 to P90 of the forwards: {mock} in the mock, {e2e} in the model", mock=mock, e2e=e2e)]


def _figures(sides: SideBySide, rows: Sequence[AlignRow], tier: Tier) -> dict[str, Figure]:
    mock, e2e = _times(rows)
    return {
        "mock_ns": mock,
        "e2e_ns": e2e,
        "ratio": mock / e2e if e2e else None,
        "tier": tier.name,
        "pass_within": tier.passes,
        "warn_within": tier.warns,
        "mock_gpu_ns": sides.mock.gpu_ns,
        "e2e_gpu_ns": sides.e2e.gpu_ns,
        "mock_elapsed_ns": sides.mock.elapsed_ns,
        "e2e_elapsed_ns": sides.e2e.elapsed_ns,
    }
