"""What a changed profile may be answered with: the same as before, less with a word about the loss, or a refusal."""

from __future__ import annotations

from typing import Any

from torture.bench import Tried


def judged(whole: Tried, changed: Tried) -> str:
    """Of a profile that lost something: `equal`, `told`, `refused`; `silent`: other numbers and no word about it."""
    if changed.verdict != "read":
        return changed.verdict
    if not balances(changed.document):
        return "wrong"
    ours, theirs = whole.document, changed.document
    if ours is None:
        return "told"
    if _numbers(ours) == _numbers(theirs):
        return "equal"
    is_told = theirs["health"] != ours["health"] or theirs["not_measured"] != ours["not_measured"]
    return "told" if is_told else "silent"


def sane(changed: Tried) -> str:
    """Of a profile with other values: whatever is said must add up; that it is other than before cannot be seen."""
    if changed.verdict == "read" and changed.document is not None and not balances(changed.document):
        return "wrong"
    return changed.verdict


def balances(document: Any) -> bool:
    """Whether the lines of each GPU sum to its window, and no GPU is one that cannot be."""
    return all(
        device["device"] >= 0 and sum(line["ns"] for line in device["ledger"]) == device["window_ns"]
        for device in document.get("devices", ())
    )


def _numbers(document: Any) -> Any:
    """How the time of each GPU is booked."""
    return [(device["device"], device["window_ns"], device["ledger"]) for device in document["devices"]]
