"""The rules about gaps: each is about a way in which a GPU is left without work."""

from __future__ import annotations

from typing import Final

from gpuledger.findings.idle import (
    host_alloc,
    host_code,
    host_copy,
    host_load,
    host_sync,
    host_thread,
    launch_bound,
    queued,
    recompile,
)
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import Trigger

ABOUT_GAPS: Final[tuple[Rule[OneGpu], ...]] = (
    host_load.RULE,
    recompile.RULE,
    host_alloc.RULE,
    host_code.HOST_OS,
    host_thread.RULE,
    host_code.HOST_CODE,
    host_sync.RULE,
    host_copy.RULE,
    launch_bound.RULE,
    queued.DEVICE_WAIT,
    queued.GPU_SHARED,
)


def code_of_trigger(trigger: Trigger) -> str | None:
    """The finding that is about gaps of a trigger; None where none is."""
    return next((rule.code for rule in ABOUT_GAPS if trigger in rule.triggers), None)
