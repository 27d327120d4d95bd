"""CAPTURE-OVERHEAD: the profiler itself held the program up.

The time breakdown has `idle: profiler overhead`. On the timeline the launching thread pauses in the profiler's own
overhead records, for example while it writes a buffer, and the GPU has nothing to run. Such pauses would not exist
without the profiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.finding import SIGNIFICANT_SHARE, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.units import share_text


def _overhead(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    share = subject.largest_share(Cause.PROFILER)
    if share < SIGNIFICANT_SHARE:
        return ()
    claim = say("profiler overhead held up the host for {share} of the time", share=share_text(share))
    return [Finding(rule.code, claim, ())]


RULE: Final = Rule("CAPTURE-OVERHEAD", _overhead, None, triggers=(Cause.PROFILER,))
