"""Counts of judged kernels, for `kernels` and `report --ncu`: a few lines for people, an object for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuledger.analyse.kernels.judgement import SEVERITIES
from gpuledger.analyse.kernels.step_kernels import HALF, HITS, PEAKS, ROOF, KernelTally
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Points
from gpuledger.present.views.kernel_words import BOUNDS, LIMITERS, SEVERITY_WORDS
from gpuledger.units import count_text, share_text

_SEVERITY_ORDER: Final = (*(name for name, _ in SEVERITIES), "none", "unknown")


def counts_points(counts: KernelTally) -> Points:
    """What a reader of many kernels asks first: how many of which kind."""
    items = [
        say("bottlenecks: {kinds}", kinds=_listed(_kind(bound, limits) for bound, limits in counts.limits.items())),
        say("severity: {kinds}", kinds=_listed(_severities(counts.severities))),
    ]
    half = share_text(HALF)
    if (roof := counts.low[ROOF]).of:
        amounts = {"count": count_text(roof.low), "kernels": count_text(roof.of)}
        items.append(say("below {half} of the nearest roof: {count} of {kernels}", half=half, **amounts))
    if peaks := _low(counts, PEAKS):
        items.append(say("below {half}: {counts}", half=half, counts=peaks))
    if hits := _low(counts, HITS):
        items.append(say("below {half}: {counts} (data that is read once cannot hit)", half=half, counts=hits))
    return Points(say("Kernels in numbers"), tuple(items))


def counts_json(counts: KernelTally) -> dict[str, Any]:
    """The same for programs."""
    return {
        "kernels": counts.kernels,
        "bottlenecks": {bound: dict(limits) for bound, limits in counts.limits.items()},
        "severities": {name: counts.severities.get(name, 0) for name in _SEVERITY_ORDER},
        "low": {key: {"count": low.low, "of": low.of} for key, low in counts.low.items()},
        "low_below": HALF,
    }


def _kind(bound: str, limits: Mapping[str, int]) -> Message:
    details = _listed(
        say("{what} {count}", what=LIMITERS[limiter], count=count_text(count)) for limiter, count in limits.items()
    )
    return say("{bound} {count} ({details})", bound=BOUNDS[bound], count=sum(limits.values()), details=details)


def _severities(severities: Mapping[str, int]) -> Iterable[Message]:
    for name in _SEVERITY_ORDER:
        if name in severities:
            yield say("{what} {count}", what=SEVERITY_WORDS[name], count=count_text(severities[name]))


def _low(counts: KernelTally, keys: Iterable[str]) -> Message | None:
    """Some figures in a line, without those that were measured of no kernel; None where that is all."""
    texts = [
        say("{figure} {count} of {kernels}", figure=FIGURE_NAMES[key], count=count_text(low.low), kernels=low.of)
        for key in keys
        if (low := counts.low[key]).of
    ]
    return _listed(texts) if texts else None


def _listed(texts: Iterable[str]) -> Message:
    return joined(say(", "), texts)
