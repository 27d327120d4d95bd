"""CAPTURE-DAMAGED: what was recorded cannot be true.

"This recording cannot be true: 2,446 of 2,446 kernels start before the call that launched them, by up to 994 us". The
profile breaks a law that no program can break, so its clocks, ids or rows are wrong. This finding comes before all
others; those are a guess (confidence low), and where work does not fit the host's calls, no cause of idle time is
reported.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.messages import say
from gpuledger.trace.model import CORRECTED, Trace

_NOT_KNOWN: Final = {
    "ids-repeated",
    "launches-lost",
    "starts-before-launch",
    "starts-late",
    "stream-order",
    "sync-before-end",
}
"""Damage after which nothing is known of why a GPU was idle: its work does not fit the host's calls."""


def _damage(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """What cannot be true of the recording, before all that is said of the program."""
    damage = subject.trace.damage
    if not damage:
        return ()
    claim = say("this recording cannot be true: {sentence}", sentence=damage[0].sentence)
    others = [Evidence(note.sentence, count=note.count) for note in damage[1:]]
    again = Evidence(say("record it again, or export it again from the original"))
    return [Finding(rule.code, claim, (*others, again))]


def drop_findings_on_damaged_data(
    trace: Trace, findings: Sequence[Finding], about_idle: Collection[str]
) -> list[Finding]:
    """The findings as far as a damaged recording lets them be believed; `about_idle` are codes of causes of idle time.

    Where clocks were put right, none is believed highly.
    """
    damage = {note.code for note in trace.damage}
    if not damage:
        is_moved = any(note.code in CORRECTED for note in trace.health)
        return [
            replace(found, confidence=say("medium")) if is_moved and found.confidence == "high" else found
            for found in findings
        ]
    refused = about_idle if damage & _NOT_KNOWN else ()
    guess = Evidence(say("a guess, as this recording cannot be true"))
    return [
        replace(found, confidence=say("low"), evidence=(guess, *found.evidence))
        for found in findings
        if found.code not in refused
    ]


RULE: Final = Rule("CAPTURE-DAMAGED", _damage, None)
