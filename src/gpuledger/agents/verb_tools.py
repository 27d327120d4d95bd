"""Tools made from verbs: a profile is a handle, options are arguments, tables come in pages with the JSON's keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from msgspec.structs import replace

from gpuledger.agents.answers import HANDLE, MOST_LETTERS, AgentAnswer, AgentTool, paged
from gpuledger.agents.profiles import AgentProfiles, OpenedProfile
from gpuledger.agents.table_tools import FEW, PART, USUAL, AskedPart
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.json_types import builtins
from gpuledger.ledger.books import LineKind
from gpuledger.present.views.answer import Answer, VerbAnswer
from gpuledger.present.views.whatif import WhatIfAnswer
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.verbs import fleet as all_ranks
from gpuledger.verbs import gaps as idle_time
from gpuledger.verbs import history as runs
from gpuledger.verbs import memory as memory_verb
from gpuledger.verbs import steps as steps_verb
from gpuledger.verbs.definition import Option, Profile, VerbParameter, parameters_of
from gpuledger.verbs.kernels import kernels as steady_kernels
from gpuledger.verbs.ops import ops
from gpuledger.verbs.ranges import ranges
from gpuledger.verbs.whatif import whatif as replayed

_JSON_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}
_OF_A_PROCESS: Final = ("wanted", "names_from", "limits", "progress", "ranks")
"""Parameters that an agent does not give: a handle is a profile cut into steps."""


def profile_tool(verb: Callable[..., Answer], title: str, summary: str = "") -> AgentTool:
    """The tool of a verb about one profile; `summary` where the first paragraphs of its help do not suit."""
    parameters = [
        parameter
        for parameter in parameters_of(verb)
        if parameter.kind is not Profile and parameter.name not in _OF_A_PROCESS
    ]

    def ask(profiles: AgentProfiles, handle: str, **given: Any) -> AgentAnswer:
        part = AskedPart(**{name: given.pop(name) for name in PART if name in given})
        return verb_answer(profiles.of(handle), partial(verb, **given), part)

    ask.__name__ = verb.__name__
    ask.__doc__ = summary or (inspect.getdoc(verb) or "").partition("\n\n\b")[0].replace("PROFILE", "the profile")
    return AgentTool(
        ask,
        {"handle": HANDLE, **{parameter.name: _schema(parameter) for parameter in parameters}, **PART},
        title=title,
        required=(
            "handle",
            *(parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty),
        ),
    )


def _schema(parameter: VerbParameter) -> dict[str, Any]:
    kind, several = parameter.kind, get_origin(parameter.kind) is tuple
    inside = get_args(kind)[0] if several else kind
    values = get_args(inside) if get_origin(inside) is Literal else ()
    one: dict[str, Any] = {"enum": list(values)} if values else {"type": _JSON_TYPES.get(inside, "array")}
    if get_origin(inside) is tuple:
        one["items"] = {"type": _JSON_TYPES[get_args(inside)[0]]}
    said = parameter.said.help if isinstance(parameter.said, Option) else ""
    return {"description": said, **({"type": "array", "items": one, "maxItems": 20} if several else one)}


def verb_answer(opened: OpenedProfile, verb: Callable[..., Answer], part: AskedPart) -> AgentAnswer:
    """What a verb answers about one GPU: its sentences, and its tables in pages; one without rows if asked for."""
    device = opened.device(part.device)
    answer = verb(opened.run.trace, wanted=replace(opened.wanted, device=device.gpu))
    about = {"handle": opened.handle, "profile": opened.run.name, "zero_ns": opened.run.zero_ns, "device": device.gpu}
    return AgentAnswer({**about, **_in_pages(answer, part)})


def _in_pages(answer: VerbAnswer, part: AskedPart) -> dict[str, Any]:
    """Its sentences, and its tables in pages."""
    whole, there = builtins(answer), answer.tables()
    chosen = {name: title for name, title in there.items() if part.table == name or (whole[name] and not part.table)}
    if part.table not in (None, *there):
        raise GpuledgerError(f"no table {part.table!r} in this answer", found=f"there are {', '.join(there)}")
    limit = part.limit or (FEW if part.table is None else USUAL)
    tables = [
        {"table": name, "title": title, **paged(whole[name], part.offset, limit, MOST_LETTERS // len(chosen))}
        for name, title in chosen.items()
    ]
    return {"answer": whole["sentences"], "tables": tables}


def kernels(profiles: AgentProfiles, handle: str, *, by_launch: bool = False, **part: Any) -> AgentAnswer:
    """List the kernels of the steady steps, the most time first: launches, time per step, share of compute, light.

    Where the GPU was sampled, `use` says by name and shape what they use of it: SMs, tensor cores, DRAM, with an
    interval, and what binds each. `by_launch` adds every launch of one step. Keys are those of `gpuledger kernels`.
    """
    return verb_answer(profiles.of(handle), partial(steady_kernels, by_launch=by_launch), AskedPart(**part))


_NAMED: Final = ("fix", "remove", "graph", "light", "reachable")


def whatif(profiles: AgentProfiles, handle: str, changes: list[dict[str, Any]], **part: Any) -> AgentAnswer:
    """Show the critical path of a step and what can be asked; or predict what `changes` save, alone and in order.

    A change is {"change": "fix", "name": "HOST-SYNC"}, {"change": "speedup", "name": "gemm", "by": 2}, or remove,
    graph, light, reachable, hide (comm or copy) with a name, host with a factor (by), launch_cost with ns (by).
    """
    refused = list[str]()

    def replay(trace: Trace, wanted: Selection) -> WhatIfAnswer:
        answer = replayed(trace, [_change(**change) for change in changes], wanted=wanted)
        refused.extend(refusal.claim for refusal in answer.refused)
        if changes and len(refused) == len(changes):
            last = answer.refused[-1]
            raise NothingRecorded(last.claim, found=last.found, hint=last.hint)
        return answer

    told = verb_answer(profiles.of(handle), replay, AskedPart(**part))
    return AgentAnswer({**told.content, "refused": refused})


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
    found = all_ranks.fleet([profiles.folders.address(path) for path in paths], workers=0, limits=profiles.limits)
    return AgentAnswer(_in_pages(found, AskedPart(**part)))


def memory_snapshot(profiles: AgentProfiles, path: str, **part: Any) -> AgentAnswer:
    """Say who holds the memory in a snapshot of PyTorch (.pickle): the peak, leaks, fragments, an out-of-memory."""
    answer = memory_verb.memory_snapshot(profiles.folders.address(path), profiles.limits)
    return AgentAnswer(_in_pages(answer, AskedPart(**part)))


def history(profiles: AgentProfiles, store: str, what: str = "trend", figure: str = "", **part: Any) -> AgentAnswer:
    """Say since which commit a figure is another: `store` is a folder of `gpuledger history`; the step by default.

    trend: runs and changes, each put down to code, method, hardware or noise. blame: the commits, and what moved.
    """
    folder = Path(profiles.folders.address(store))
    ask = {"trend": runs.trend, "blame": runs.blame}[what]
    return AgentAnswer(_in_pages(ask(figure, store=folder), AskedPart(**part)))


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
    profile_tool(idle_time.gaps, "Idle time"),
    AgentTool(kernels, {"handle": HANDLE, "by_launch": {"type": "boolean"}, **PART}, title="Kernels"),
    profile_tool(
        steps_verb.steps,
        "Steps",
        "List the steps: usual length, drift, unusual ones and what made them so, and what else repeats (levels).\n\n"
        "Of a server (vLLM, SGLang, ...): tokens a second, what a step costs by its batch, what the host does between "
        "steps. The number of a step is what timeline_picture(handle, step=N) takes.",
    ),
    profile_tool(
        memory_verb.memory,
        "Memory",
        "Show what the profile copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.",
    ),
    profile_tool(
        ranges,
        "Ranges and phases",
        "Show where time goes by NVTX range, as a tree: host and GPU time, launches, waits; and what attention, "
        "experts and the like cost, by layer. `phases` are [name, regex] of phases that go by other names.",
    ),
    profile_tool(ops, "Operators"),
    AgentTool(
        whatif, {"handle": HANDLE, "changes": _CHANGES, **_TABLES}, required=("handle", "changes"), title="What if"
    ),
    AgentTool(fleet, {"paths": _PATHS, **_TABLES}, required=("paths",), title="All ranks of a job"),
    AgentTool(memory_snapshot, {"path": _PATH, **_TABLES}, required=("path",), title="Memory snapshot"),
    AgentTool(history, {"store": _PATH, **_ASKED, **_TABLES}, required=("store",), title="History of runs"),
)
