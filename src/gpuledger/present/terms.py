"""Our own words in cells: lines of the books, causes and triggers of idle time, as terms with their colour.

Programs see the name that the books use (`idle.sync`), people on a page what it is called, in their language.
"""

from __future__ import annotations

from typing import Final

from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.messages import say
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Term
from gpuledger.trace.model import Severity

_SEVERITY_WORDS: Final = {
    Severity.INFO: say("info"),
    Severity.WARNING: say("warning"),
    Severity.LOSS: say("loss"),
}
_SEVERITY_BADGES: Final = {Severity.WARNING: "warn", Severity.LOSS: "bad"}

TOTAL: Final = say("total")
"""Stands before the sum of a table's rows."""


def line_term(line: Line) -> Term:
    """A line of the books, with its colour."""
    return Term(line, line.label, tone=line_tone(line))


def cause_term(cause: Cause) -> Term:
    """A cause of idle time, with its colour."""
    return Term(cause, cause.label, tone=line_tone(Line.of_cause(cause)))


def trigger_term(trigger: Trigger, drained_by: str = "") -> Term:
    """What set a gap off; a wait that let the queue run dry is named with the call that waited."""
    if not drained_by:
        return Term(trigger, trigger.label)
    return Term(f"{trigger} by {drained_by}", say("{trigger} after {call}", trigger=trigger.label, call=drained_by))


def severity_term(severity: Severity) -> Term:
    """How much a note about the profile matters."""
    return Term(severity.value, _SEVERITY_WORDS[severity], badge=_SEVERITY_BADGES.get(severity, ""))
