"""The questions that are answered by tables: steps, gaps, kernels, and the others of the command line by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from gpuledger.agents.answers import MOST_LETTERS, AgentAnswer, paged
from gpuledger.agents.profiles import AgentProfiles, OpenedProfile
from gpuledger.agents.tools.tool import DEVICE, HANDLE, LIMIT, OFFSET, AgentTool
from gpuledger.analyse.kernels.step_kernels import overview
from gpuledger.analyse.use.stretches import SampledUse, use_of_device
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Sheet
from gpuledger.present.views import answers
from gpuledger.present.views.kernel_use import kernels_use_json, use_answer
from gpuledger.present.views.questions import (
    gaps_of,
    launches_of,
    memory_of,
    operators_of,
    overlap_of,
    ranges_of,
    steps_of,
)
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.timeline_kernels import step_kernels_sheet
from gpuledger.present.writers.json import tables_json
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table

_FEW: Final = 5
"""Rows of each table where no table is named."""

_USUAL: Final = 20
"""Rows of a table that is named."""

Question = Callable[[Trace, Device], TableAnswer]


@dataclass(frozen=True, slots=True)
class AskedPart:
    """Which part of an answer is wanted: all tables in short, or one of them, from a row on."""

    device: int | None = None
    table: str | None = None
    offset: int = 0
    limit: int | None = None


def steps(profiles: AgentProfiles, handle: str, **part: Any) -> AgentAnswer:
    """List the steps: usual length, drift, unusual ones and what made them so, and what else repeats (levels).

    The number of a step is what timeline_picture(handle, step=N) takes. Keys are those of `gpuledger steps`.
    """
    return _answer(profiles.of(handle), steps_of, AskedPart(**part))


def gaps(profiles: AgentProfiles, handle: str, **part: Any) -> AgentAnswer:
    """Say why the GPU was idle: causes, triggers, lengths, and the longest gaps with what was launched after each.

    Start and end of a gap can be given to timeline_picture as time. Keys are those of `gpuledger gaps`.
    """
    return _answer(profiles.of(handle), gaps_of, AskedPart(**part))


def ask(profiles: AgentProfiles, handle: str, question: str, **part: Any) -> AgentAnswer:
    """Ask for the tables of another question, as the command line's verb of the same name answers it.

    launches: what launches cost and whether the host runs ahead. memory: what is copied and allocated. ranges: host and
    GPU time by NVTX range. overlap: whether communication and copies hide under compute. ops: time by operator (torch).
    """
    return _answer(profiles.of(handle), _OTHERS[question], AskedPart(**part))


def kernels(
    profiles: AgentProfiles, handle: str, device: int | None = None, offset: int = 0, limit: int = 8
) -> AgentAnswer:
    """List the kernels of the steady steps, those with the most time first: calls, time per step, share of compute.

    Where the GPU was sampled, `use` says by name and shape how kernels use it: SMs, tensor cores, DRAM in percent with
    an interval, and whether each is at a roof, under-filled or stalled. Keys are those of `gpuledger kernels`; times in
    the table are per step, `ns` under `use` is of the whole window.
    """
    opened = profiles.of(handle)
    on = opened.device(device)
    found = overview(opened.run.trace, on, opened.wanted.scope_pattern)
    sheet = step_kernels_sheet(found, on, opened.wanted.families)
    time = [column.key for column in sheet.columns].index("time_ns")
    by_time = replace(sheet, rows=tuple(sorted(sheet.rows, key=lambda row: -int(str(row[time])))))
    used = _use(opened, on)
    sentences = answers.kernel_answer(found, on) if used is None else use_answer(*used)
    content = {
        **_about(opened, on),
        "answer": list(sentences),
        "tables": _tables([by_time], AskedPart(table=sheet.name, offset=offset, limit=limit), MOST_LETTERS // 2),
        "use": None,
    }
    if used is not None:
        content["use"] = paged(kernels_use_json(used[0]), offset, limit, MOST_LETTERS // 2)
    return AgentAnswer(content)


def _use(opened: OpenedProfile, device: Device) -> SampledUse | None:
    if Table.METRICS not in opened.run.trace.tables:
        return None
    use = use_of_device(opened.run.trace, device)
    return None if isinstance(use, NotMeasured) else use


def _answer(opened: OpenedProfile, question: Question, part: AskedPart) -> AgentAnswer:
    device = opened.device(part.device)
    told = question(opened.run.trace, device)
    return AgentAnswer(
        {**_about(opened, device), "answer": list(told.sentences), "tables": _tables(told.sheets, part, MOST_LETTERS)}
    )


def _about(opened: OpenedProfile, device: Device) -> dict[str, Any]:
    return {
        "handle": opened.handle,
        "profile": opened.run.name,
        "zero_ns": opened.run.zero_ns,
        "device": device.gpu,
    }


def _tables(sheets: Sequence[Sheet], part: AskedPart, letters: int) -> list[dict[str, Any]]:
    """Tables as every JSON document has them, but for their rows, of which there is a page."""
    chosen = [sheet for sheet in sheets if part.table in (None, sheet.name)]
    if not chosen:
        there = ", ".join(sheet.name for sheet in sheets)
        raise GpuledgerError(f"no table {part.table!r} in this answer", found=f"there are {there}")
    limit = part.limit or (_FEW if part.table is None else _USUAL)
    return [
        {"table": table["table"], "title": table["title"], **paged(table["rows"] or [], part.offset, limit, share)}
        for share in [letters // len(chosen)]
        for table in tables_json(chosen)
    ]


_OTHERS: Final[Mapping[str, Question]] = {
    "launches": launches_of,
    "memory": memory_of,
    "ranges": ranges_of,
    "overlap": overlap_of,
    "ops": operators_of,
}

_PART: Final[Mapping[str, Mapping[str, Any]]] = {
    "device": DEVICE,
    "table": {"type": "string", "description": "Only this table, by the name in an answer. Default: all, in short."},
    "offset": OFFSET,
    "limit": LIMIT,
}

_table_tool = partial(AgentTool, arguments={"handle": HANDLE, **_PART})

TOOLS: Final = (
    _table_tool(steps, title="Steps"),
    _table_tool(gaps, title="Idle time"),
    AgentTool(kernels, {"handle": HANDLE, "device": DEVICE, "offset": OFFSET, "limit": LIMIT}, title="Kernels"),
    AgentTool(
        ask,
        {"handle": HANDLE, "question": {"type": "string", "enum": list(_OTHERS)}, **_PART},
        ("handle", "question"),
        title="Another question",
    ),
)
