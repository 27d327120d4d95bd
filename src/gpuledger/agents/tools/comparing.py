"""What changed from one profile to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gpuledger.agents.answers import AgentAnswer, paged, picked
from gpuledger.agents.profiles import AgentProfiles, OpenedProfile
from gpuledger.agents.tools.tool import HANDLE, LIMIT, OFFSET, AgentTool
from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.like_sides import like_sides
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.present.views.diff.compared import Compared
from gpuledger.present.views.diff.document import verdict_text
from gpuledger.present.views.diff.json import diff_data

_LISTS: Final = ("lines", "kernels", "calls", "ranges")
"""What can be asked for in full, the largest changes first."""

_IN_SHORT: Final = 6
_SIDE: Final = ("name", "gpu", "device", "steps_by", "steps", "step_ns", "losses")


def diff(
    profiles: AgentProfiles,
    before: str,
    after: str,
    what: str = "lines",
    offset: int = 0,
    limit: int = _IN_SHORT,
    *,
    anyway: bool = False,
) -> AgentAnswer:
    """Tell whether `after` is faster than `before`, by how much, how sure that is, and why.

    `parts` sum to step_delta_ns. `interval_ns` is the 95 % interval of the difference; a verdict of no change means
    that it is inside the noise. `what` chooses the list that comes with it: lines of time, kernels, calls or ranges,
    the largest change first, per step. Keys are those of `gpuledger diff`.
    """
    one, other = profiles.of(before), profiles.of(after)
    compared = Compared(compare(*_sides(one, other), anyway=anyway))
    whole = diff_data(compared)
    content = {
        "headline": verdict_text(compared.diff),
        **picked(whole, "verdict", "step_delta_ns", "interval_ns", "no_interval", "whole"),
        "before": {"handle": before, **picked(whole["before"], *_SIDE)},
        "after": {"handle": after, **picked(whole["after"], *_SIDE)},
        "parts": [part for part in whole["parts"] if part["ns"]],
        "notes": whole["notes"],
        what: paged(sorted(whole[what], key=_change), offset, limit),
    }
    return AgentAnswer(content)


def _sides(one: OpenedProfile, other: OpenedProfile) -> tuple[RunSide, RunSide]:
    """The books that are open already, where they have steps; else both by what repeats in them."""

    def read(wanted: Wanted) -> tuple[RunSide, RunSide]:
        first = _side(one, None, any_level=wanted.any_level)
        return first, _side(other, first.gpu, any_level=wanted.any_level)

    return like_sides(read, Wanted())


def _side(opened: OpenedProfile, gpu: int | None, *, any_level: bool) -> RunSide:
    run, wanted = opened.run, opened.wanted
    devices = analysed(run.trace, run.name, replace(wanted, any_level=True)) if any_level else run.devices
    return side_of(run.trace, devices, busiest(devices, gpu), run.name, wanted.families)


def _change(row: dict[str, Any]) -> int:
    """Sorts the largest change to the front, whichever way it goes; ranges have that of their host time."""
    change: int = row["host_delta_ns"] if "host_delta_ns" in row else row["delta_ns"]
    return -abs(change)


TOOLS: Final = (
    AgentTool(
        diff,
        {
            "before": HANDLE,
            "after": HANDLE,
            "what": {"type": "string", "enum": list(_LISTS), "description": "Default: lines."},
            "offset": OFFSET,
            "limit": LIMIT,
            "anyway": {"type": "boolean", "description": "Compare even if the two are unlike: other GPU, no steps."},
        },
        ("before", "after"),
        title="Compare two profiles",
    ),
)
