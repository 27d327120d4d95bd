"""Tools made from verbs: a profile is a handle, options are arguments, tables come in pages with the JSON's keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from msgspec.structs import replace

from gpuledger.agents.answers import MOST_LETTERS, AgentAnswer, AgentTool, Handle, paged, tool_of
from gpuledger.agents.profiles import AgentProfiles
from gpuledger.agents.table_tools import FEW, PART, TABLES, USUAL, AskedPart
from gpuledger.errors import GpuledgerError
from gpuledger.json_types import builtins
from gpuledger.present.views.answer import Answer, VerbAnswer
from gpuledger.verbs import VERBS, history
from gpuledger.verbs.definition import Option, OptionsInOrder, VerbParameter, parameters_of
from gpuledger.verbs.fleet import fleet as ranks_of_job
from gpuledger.verbs.memory import memory_snapshot as snapshot_of


def profile_tool(verb: Callable[..., Answer], title: str) -> AgentTool:
    """The tool of a verb about one profile, with all its options but those that name files."""
    summary, _, more = (inspect.getdoc(verb) or "").replace("PROFILE", "the profile").partition("\n\n")
    about = more.partition("\n\n")[0]

    def ask(profiles: AgentProfiles, handle: Handle, **given: Any) -> AgentAnswer:
        part = AskedPart(**{name: given.pop(name) for name in PART if name in given})
        opened = profiles.of(handle)
        device = opened.device(part.device)
        answer = verb(opened.run.trace, wanted=replace(opened.wanted, device=device.gpu), **given)
        about = {"handle": handle, "profile": opened.run.name, "zero_ns": opened.run.zero_ns, "device": device.gpu}
        return AgentAnswer({**about, **_in_pages(answer, part)})

    given = [parameter for parameter in parameters_of(verb) if _is_given(parameter)]
    made = tool_of(ask, title, *given, *PART.values())
    return replace(made, name=verb.__name__, description=f"{summary}\n\n{about}")


def _is_given(parameter: VerbParameter) -> bool:
    """Whether agents may pass it: not files, nor selections, as a handle stands for a profile cut into steps."""
    kind = get_args(parameter.kind)[0] if get_origin(parameter.kind) is tuple else parameter.kind
    if isinstance(parameter.said, Option):
        return kind is not Path and parameter.said.completes != "files"
    return isinstance(parameter.said, OptionsInOrder)


def _in_pages(answer: VerbAnswer, part: AskedPart) -> dict[str, Any]:
    """Its sentences, its tables in pages, one without rows if asked for, and what could not be answered."""
    whole, there = builtins(answer), answer.tables()
    chosen = {name: title for name, title in there.items() if part.table == name or (whole[name] and not part.table)}
    if part.table not in (None, *there):
        raise GpuledgerError(f"no table {part.table!r} in this answer", found=f"there are {', '.join(there)}")
    limit = part.limit or (FEW if part.table is None else USUAL)
    tables = [
        {"table": name, "title": title, **paged(whole[name], part.offset, limit, MOST_LETTERS // len(chosen))}
        for name, title in chosen.items()
    ]
    beside = {name: whole[name] for name in ("refused", "commands") if whole.get(name)}
    return {"answer": whole["sentences"], "tables": tables, **beside}


_Path = Annotated[str, Option("Relative to a folder is fine.", most=4096)]


def fleet(
    profiles: AgentProfiles,
    paths: Annotated[tuple[str, ...], Option("Relative to a folder is fine.", most=512)],
    **part: Any,
) -> AgentAnswer:
    """Put the ranks of a job together, from profiles or folders: who is late, who waits, what fixing it saves."""
    found = ranks_of_job([profiles.folders.address(path) for path in paths], workers=0, limits=profiles.limits)
    return AgentAnswer(_in_pages(found, AskedPart(**part)))


def memory_snapshot(profiles: AgentProfiles, path: _Path, **part: Any) -> AgentAnswer:
    """Say who holds the memory in a snapshot of PyTorch (.pickle): the peak, leaks, fragments, an out-of-memory."""
    answer = snapshot_of(profiles.folders.address(path), profiles.limits)
    return AgentAnswer(_in_pages(answer, AskedPart(**part)))


def figure_history(
    profiles: AgentProfiles,
    store: _Path,
    what: Annotated[Literal["trend", "blame"], Option("Default: trend.")] = "trend",
    figure: Annotated[str, Option("Default: the step.")] = "",
    **part: Any,
) -> AgentAnswer:
    """Say since which commit a figure is another: `store` is a folder of `gpuledger history`; the step by default.

    trend: runs and changes, each put down to code, method, hardware or noise. blame: the commits, and what moved.
    """
    folder = Path(profiles.folders.address(store))
    ask = {"trend": history.trend, "blame": history.blame}[what]
    return AgentAnswer(_in_pages(ask(figure, store=folder), AskedPart(**part)))


TOOLS: Final = (
    *(
        profile_tool(getattr(import_module(f"gpuledger.verbs.{name}"), name), verb.tool)
        for name, verb in VERBS.items()
        if verb.tool
    ),
    tool_of(fleet, "All ranks of a job", *TABLES),
    tool_of(memory_snapshot, "Memory snapshot", *TABLES),
    replace(tool_of(figure_history, "History of runs", *TABLES), name="history"),
)
