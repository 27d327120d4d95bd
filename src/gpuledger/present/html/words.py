"""The words of tables on a page: headings and cells that the analyses write in English, as messages.

What is not listed here is shown as it is: names of kernels, calls and files.
"""

from __future__ import annotations

from typing import Final

from gpuledger.messages import Message, say
from gpuledger.present.terms import CAUSE_WORDS, line_words

HEADINGS: Final[dict[str, Message]] = {
    str(each): each
    for each in (
        say("Cause"),
        say("Trigger"),
        say("Call"),
        say("Gaps"),
        say("Length"),
        say("Start"),
        say("Largest cause"),
        say("Before"),
        say("After"),
        say("Found by"),
        say("Steps"),
        say("of them warm-up"),
        say("Median"),
        say("Drift"),
        say("Step"),
        say("Line that grew most"),
        say("By"),
        say("Phase"),
        say("Where"),
        say("Total"),
        say("Calls"),
        say("A step"),
        say("Time"),
        say("Share"),
        say("Avg"),
        say("Med"),
        say("Max"),
        say("Of the step"),
        say("Figure"),
        say("Value"),
        say("Range"),
        say("Instances"),
        say("Launches"),
        say("Each"),
        say("Kind"),
        say("From"),
        say("To"),
        say("Copies"),
        say("Running"),
        say("Hidden"),
        say("Exposed"),
        say("Of the window"),
        say("Host"),
        say("GPU, own"),
        say("Waits"),
        say("Name"),
        say("Family"),
        say("Line"),
        say("Per step"),
        say("Whole window"),
        say("Severity"),
        say("What was seen"),
        say("Not in the profile"),
        say("Why"),
        say("What that means"),
    )
} | {"Total Time": say("Time"), "MB": say("Size"), "MB/s": say("Rate")}
"""Headings of the sheets that a report's page shows."""

_BY_KEY: Final = {"time_percent": say("Share"), "gpu_ns": say("GPU time")}
"""Headings that say less than the column holds, once its unit is gone."""

_FIGURES: Final[dict[str, Message]] = {
    str(each): each
    for each in (
        say("GPU activities a step"),
        say("of them under 5 us"),
        say("launched by a recorded call"),
        say("queued, median"),
        say("queued, 10th percentile"),
        say("queued, 90th percentile"),
        say("queued over 10 us (host ahead)"),
        say("peak"),
        say("at the end"),
        say("allocated in all"),
    )
}
_KINDS: Final[dict[str, Message]] = {
    str(each): each for each in (say("compute"), say("communication"), say("copies"), say("idle"))
}
_WHERE: Final[dict[str, Message]] = {
    str(each): each for each in (say("before the steps"), say("steps"), say("after the steps"))
}
_SEVERITIES: Final[dict[str, Message]] = {str(each): each for each in (say("info"), say("warning"), say("loss"))}
_TRIGGERS: Final[dict[str, Message]] = {
    **CAUSE_WORDS,
    "behind": say("the host cannot keep up"),
    "drained": say("the queue ran dry"),
}
_MEANINGS: Final[dict[str, Message]] = {
    str(each): each
    for each in (
        say("no GPU time by kernel"),
        say("no copies or memsets ran, or they were not traced"),
        say("launch overhead, synchronisation and the cause of GPU idle time stay unknown"),
        say("nothing can be told by step or layer; steps must be found from the kernels"),
        say("peak memory and allocation churn stay unknown"),
        say("time that the profiler itself took is not told apart"),
    )
}
_TOTALS: Final = {"total": say("total"), "window": say("window")}
_OUTSIDE: Final[dict[str, Message]] = {"(in no range)": say("(in no range)")}

_CELLS: Final[dict[str, dict[str, Message]]] = {
    "cause": _TRIGGERS,
    "trigger": _TRIGGERS,
    "figure": _FIGURES,
    "kind": _KINDS,
    "where": _WHERE,
    "severity": _SEVERITIES,
    "range": _OUTSIDE,
    "means": _MEANINGS,
    "length": {"under 1 us": say("under 1 us"), "over 1 ms": say("over 1 ms")},
}

BADGES: Final = {
    "PASS": "good",
    "passed": "good",
    "WARN": "warn",
    "FAIL": "bad",
    "TRIPPED": "bad",
    "loss": "bad",
    "warning": "warn",
}
"""Verdicts that are set off from the text around them."""


def heading_words(key: str, heading: str) -> str:
    """A heading as a message where it is one of ours."""
    return _BY_KEY[key] if key in _BY_KEY else HEADINGS.get(heading, heading)


def cell_words(key: str, value: str) -> str:
    """A cell as a message where it is a word of ours."""
    if value in _TOTALS:
        return _TOTALS[value]
    if key in ("line", "largest"):
        return line_words(value)
    if key == "trigger" and " by " in value:
        trigger, _, call = value.partition(" by ")
        return say("{trigger} after {call}", trigger=_TRIGGERS.get(trigger, trigger), call=call)
    return _CELLS.get(key, {}).get(value, value)
