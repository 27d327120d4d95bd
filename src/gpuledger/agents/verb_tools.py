"""Tools that answer as a verb of the command line does, of more than one profile or with a replay: changes, ranks, a
memory snapshot, a history. Their tables have the keys, and so the units, of the verb's JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from gpuledger.agents.answers import HANDLE, AgentAnswer, AgentTool
from gpuledger.agents.profiles import AgentProfiles
from gpuledger.agents.table_tools import PART, AskedPart, shown_answer, verb_answer
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.ledger.books import LineKind
from gpuledger.present.views.whatif import WhatIfAnswer
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.verbs import history as runs
from gpuledger.verbs import job
from gpuledger.verbs import memory_snapshot as snapshots
from gpuledger.verbs.whatif import whatif as replayed

_NAMED: Final = ("fix", "remove", "graph", "light", "reachable")


def whatif(profiles: AgentProfiles, handle: str, changes: list[dict[str, Any]], **part: Any) -> AgentAnswer:
    """Show the critical path of a step and what can be asked; or predict what `changes` save, alone and in order.

    A change is {"change": "fix", "name": "HOST-SYNC"}, {"change": "speedup", "name": "gemm", "by": 2}, or remove,
    graph, light, reachable, hide (comm or copy) with a name, host with a factor (by), launch_cost with ns (by).
    """
    answers = list[WhatIfAnswer]()

    def replay(trace: Trace, wanted: Selection) -> WhatIfAnswer:
        answers.append(replayed(trace, [_change(**change) for change in changes], wanted=wanted))
        if changes and len(answers[0].refused) == len(changes):
            last = answers[0].refused[-1]
            raise NothingRecorded(last.claim, found=last.found, hint=last.hint)
        return answers[0]

    told = verb_answer(profiles.of(handle), replay, AskedPart(**part))
    return AgentAnswer({**told.content, "refused": [refusal.claim for refusal in answers[0].refused]})


def _change(change: str, name: str = "", by: float = 0) -> tuple[str, Any]:
    if change in _NAMED:
        return change, name
    if change == "hide" and name in (LineKind.COMM, LineKind.COPY):
        return change, LineKind(name)
    if by <= 0 or change == "hide":
        raise GpuledgerError(f"whatif: {change} needs {'comm or copy as name' if change == 'hide' else 'by, above 0'}")
    return change, {"speedup": (name, by), "host": by, "launch_cost": round(by)}[change]


def fleet(profiles: AgentProfiles, paths: list[str], **part: Any) -> AgentAnswer:
    """Put the ranks of a job together, from profiles or folders: who is late, who waits, what fixing it saves."""
    found = job.fleet([profiles.folders.address(path) for path in paths], workers=0, limits=profiles.limits)
    return shown_answer(found.document(), AskedPart(**part))


def memory_snapshot(profiles: AgentProfiles, path: str, **part: Any) -> AgentAnswer:
    """Say who holds the memory in a snapshot of PyTorch (.pickle): the peak, leaks, fragments, an out-of-memory."""
    answer = snapshots.memory_snapshot(profiles.folders.address(path), profiles.limits)
    return shown_answer(answer.document(), AskedPart(**part))


def history(profiles: AgentProfiles, store: str, what: str = "trend", figure: str = "", **part: Any) -> AgentAnswer:
    """Say since which commit a figure is another: `store` is a folder of `gpuledger history`; the step by default.

    trend: runs and changes, each put down to code, method, hardware or noise. blame: the commits, and what moved.
    """
    folder = Path(profiles.folders.address(store))
    ask = {"trend": runs.show_trend, "blame": runs.blame}[what]
    return shown_answer(ask(folder, figure).document(), AskedPart(**part))


_PATH: Final[dict[str, Any]] = {"type": "string", "description": "Relative to a folder is fine."}
_TABLES: Final = {name: schema for name, schema in PART.items() if name != "device"}
_CHANGE: Final = {
    "type": "object",
    "properties": {
        "change": {"enum": [*_NAMED, "hide", "speedup", "host", "launch_cost"]},
        "name": {"type": "string", "maxLength": 200},
        "by": {"type": "number", "maximum": 1e6},
    },
    "required": ["change"],
    "additionalProperties": False,
}
_CHANGES: Final = {"type": "array", "items": _CHANGE, "maxItems": 20}
_PATHS: Final = {"type": "array", "items": _PATH, "minItems": 1, "maxItems": 512}
_ASKED: Final[dict[str, Any]] = {"what": {"enum": ["trend", "blame"]}, "figure": {"type": "string", "maxLength": 300}}

TOOLS: Final = (
    AgentTool(
        whatif, {"handle": HANDLE, "changes": _CHANGES, **_TABLES}, required=("handle", "changes"), title="What if"
    ),
    AgentTool(fleet, {"paths": _PATHS, **_TABLES}, required=("paths",), title="All ranks of a job"),
    AgentTool(memory_snapshot, {"path": _PATH, **_TABLES}, required=("path",), title="Memory snapshot"),
    AgentTool(history, {"store": _PATH, **_ASKED, **_TABLES}, required=("store",), title="History of runs"),
)
