"""What `gpuledger bench` found: what a workload measured, and how well tools name planted faults.

A workload's flat result (`gpuledger_workloads.program`) in, text out: the ending of a name is its unit; a count is of
what its name says, which stands behind it, but in tables, where the column's heading says it. Where X is None, X_reason
says why. Lists of dictionaries are tables. JSON is the document gpuledger.bench/1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from gpuledger.diagnosis.cases import DiagnosisBenchmark
from gpuledger.diagnosis.score import CaseScore, ScoreTally, ToolScore
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Column, Sheet, Term
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.rows import Unit
from gpuledger.units import bytes_text, count_text, share_text, three_figures, time_text

_TIMES: Final = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000, "_s": 1_000_000_000}
_LONG: Final = 32
_SHORT: Final = {"p10", "p90", "p99", "p50"}
_RATES: Final = {"tokens": ("throughput", "tokens"), "tflop": ("compute", "TFLOP"), "gb": ("traffic", "GB")}
"""What so much per second is called, and its unit."""
_COUNTED: Final = {
    "tokens": "tokens",
    "parameters": "weights",
    "kv_pages_needed": "pages",
    "kv_pages_there": "pages",
    "launches": "launches",
    "syncs": "synchronizations",
    "copies": "copies",
    "experts_used": "experts",
    "imbalance": "x the mean",
    "ranks_per_token": "ranks",
    "last_to_first_chunk": "x the first",
    "flop": "FLOP",
}
"""What a count is of, by its name or the last word of it."""
_HEADINGS: Final = {
    "weight_bytes": "Weights used",
    "least_bytes": "Minimum traffic",
    "kv_bytes": "KV cache",
    "parameters": "Model",
    "last_to_first_chunk": "Last chunk",
    "double_compute_saves_share": "Saved if compute 2x faster",
    "free_compute_saves_share": "Saved if compute free",
    "wait_share": "Waiting",
    "layout_share": "Layout",
}
_TOLD: Final[dict[str, str]] = {
    name: name
    for name in (
        *(say("Bandwidth"), say("Batch"), say("Checked"), say("Chunks"), say("Comm"), say("Comm share")),
        *(say("Context"), say("Copies"), say("Compute"), say("Decode"), say("Prefill")),
        *(say("Dispatch median"), say("Round trip median"), say("Error"), say("Error share")),
        *(say("Expert error share"), say("Logits error share"), say("Expected ranks per token")),
        *(say("Ranks per token"), say("Remote ranks per token"), say("Expert imbalance")),
        *(say("Rank imbalance"), say("Imbalance"), say("Experts"), say("Experts used"), say("KV cache")),
        *(say("KV pages needed"), say("KV pages available"), say("Last chunk"), say("Launches")),
        *(say("Layers"), say("Minimum traffic"), say("Median"), say("Mode"), say("Modes"), say("Model")),
        *(say("Name"), say("Output"), say("Padding share"), say("Peak memory"), say("Prefill throughput")),
        *(say("Prompt"), say("Rank"), say("Ranks"), say("Received"), say("Remote"), say("Expected remote")),
        *(say("Most remote"), say("Returned"), say("Rows"), say("Sent"), say("Sent tokens")),
        *(say("Sequences"), say("Slowest rank"), say("Step"), say("Steps"), say("Syncs"), say("Targets")),
        *(say("Throughput"), say("Tokens"), say("Prefill tokens"), say("Total"), say("Traffic"), say("TTFT")),
        *(say("TTFT cold"), say("Verdict"), say("Wait"), say("Wait share"), say("Wanted")),
        *(say("Weights used"), say("Is slowest")),
    )
}
"""Headings that have words in other languages; names of modes, settings and percentiles stay as they are."""
_TINY_SHARE: Final = 0.0005
_NAMED: Final = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "kv": "KV", "tflop": "TFLOP", "gb": "GB", "flop": "FLOP"}


_VERDICTS: Final = {"PASS": say("PASS"), "FAIL": say("FAIL")}


def bench_document(result: Mapping[str, Any]) -> doc.Document:
    """What ran, what was found, its tables; JSON is the document gpuledger.bench/1."""
    blocks: list[doc.Block] = [doc.Opening(str(result["workload"]), _settings_text(result["settings"]))]
    for sheet in bench_sheets(result):
        title = doc.SheetTitle.NONE if sheet.name == "result" else doc.SheetTitle.BARE
        blocks.append(doc.SheetBlock(sheet, title, tells_hidden=True))
    long = ((key, shown) for key, shown in _shown(result) if len(shown) > _LONG)
    blocks += [doc.Paragraph(say("{term}: {sentence}", term=heading(key), sentence=shown)) for key, shown in long]
    if "verdict" in result:
        told = _VERDICTS.get(result["verdict"], result["verdict"])
        blocks.append(doc.Conclusion(say("Verdict: {verdict}", verdict=told)))
    return doc.Document(
        blocks=lambda: tuple(blocks),
        data=lambda: {"schema": "gpuledger.bench/1", **result},
        sheets=lambda: (_one_row(result),),
    )


def _settings_text(settings: Mapping[str, Any]) -> str:
    given = ((key.replace("_", "-"), value) for key, value in settings.items() if value not in (None, False))
    return ", ".join(f"{key} {'yes' if value is True else value}" for key, value in given)


def _one_row(result: Mapping[str, Any]) -> Sheet:
    """Settings and figures in one row, so that the rows of several runs make a table."""
    row = {"workload": result["workload"], **result["settings"], **dict(_figures(result))}
    cells = {
        key: value if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in row.items()
    }
    return Sheet.of("bench", "bench", [Column(key, key, Unit.TEXT) for key in row], [cells])


def bench_sheets(result: Mapping[str, Any]) -> list[Sheet]:
    """The figures, then each table."""
    columns = (
        Column("what", say("What"), Unit.TEXT, lambda row: heading(row[0])),
        Column("value", say("Value"), Unit.FIGURE, lambda row: row[1]),
    )
    figures = Sheet.of("result", say("Result"), columns, [row for row in _shown(result) if len(row[1]) <= _LONG])
    tables = [_table(key, value) for key, value in result.items() if _is_table(value)]
    return [figures, *tables] if figures.rows else tables


def _shown(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    reasons = {key: str(text) for key, text in result.items() if key.endswith("_reason")}
    return [
        (key, reasons.get(f"{key}_reason", say("not measured")) if value is None else figure(key, value))
        for key, value in _figures(result)
        if key not in reasons
    ]


def heading(key: str) -> str:
    """A key for people, without its unit: ttft_cold_ms -> 'TTFT cold'; comm_share -> 'comm share'."""
    if (named := _HEADINGS.get(key)) is None:
        bare = key.removesuffix(_unit(key)).removesuffix("_percent").removesuffix("_per_s").removesuffix("_bytes")
        words = bare.split("_")
        if key.endswith("_per_s") and words[-1] in _RATES:
            words[-1] = _RATES[words[-1]][0]
        named = " ".join(_NAMED.get(word, word) for word in words if word)
        named = named if words[0] in _NAMED or words[0] in _SHORT else named[:1].upper() + named[1:]
    return _TOLD.get(named, named)


def names_a_rank(key: str) -> bool:
    """Whether the number is which rank it is, and no amount."""
    return key.endswith("rank")


def figure(key: str, value: object, *, under_heading: bool = False) -> str:
    """A value with its unit: the one that its key ends in, else what it counts, if no heading says that already."""
    if value is None:
        return say("not measured")
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float):
        return ", ".join(str(each) for each in value) if isinstance(value, Sequence) else str(value)
    measured = _measured(key, value)
    if measured is not None:
        return measured
    amount = count_text(value) if isinstance(value, int) else three_figures(value)
    if under_heading:
        return amount
    if names_a_rank(key):
        return f"rank {amount}"
    unit = next((unit for name, unit in _COUNTED.items() if key == name or key.endswith(f"_{name}")), "")
    return f"{amount} {unit}" if unit else amount


def _measured(key: str, value: float) -> str | None:
    """A value whose key ends in a unit."""
    if key.endswith("_share"):
        return f"{100 * value:.1g} %" if 0 < value < _TINY_SHARE else share_text(value)
    if key.endswith("_percent"):
        return share_text(value / 100)
    if key.endswith("_bytes"):
        return bytes_text(round(value))
    if key.endswith("_bytes_per_s"):
        return f"{bytes_text(round(value))}/s"
    if key.endswith("_per_s"):
        amount = count_text(round(value)) if abs(value) >= 1000 else three_figures(value)
        counted = _RATES.get(key.removesuffix("_per_s").split("_")[-1])
        return f"{amount} {counted[1]}/s" if counted else f"{amount} / s"
    unit = _unit(key)
    return time_text(round(value * _TIMES[unit])) if unit else None


def _unit(key: str) -> str:
    if key.endswith("_per_s"):
        return ""
    return next((ending for ending in _TIMES if key.endswith(ending)), "")


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _table(key: str, rows: Sequence[Mapping[str, Any]]) -> Sheet:
    def column(place: int, name: str) -> Column:
        unit = Unit.TEXT if all(isinstance(row[name], str) for row in rows) else Unit.FIGURE
        return Column(name, heading(name), unit, detail=place if place > 2 else 0)

    cells = [{name: figure(name, row[name], under_heading=True) for name in rows[0]} for row in rows]
    return Sheet.of(key, heading(key), [column(place, name) for place, name in enumerate(rows[0])], cells)


def _figures(result: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """All that was found but tables, and how sure a median is, which is for verdicts."""
    apart = {"workload", "settings", "verdict"}
    apart |= {key for key in result if key.endswith(("_interval", "_samples"))}
    return [(key, value) for key, value in result.items() if key not in apart and not _is_table(value)]


class DiagnosisAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.diagnosis/1"):
    """How well tools name planted faults: `gpuledger bench diagnosis`. Counts are of cases."""

    cases: int
    unseen: tuple[str, ...]
    """The programs with a fault that no rule of gpuledger was made on."""
    tools: tuple[ToolScore, ...]

    def blocks(self) -> Iterator[doc.Block]:
        faults = sum(bool(case.accepted) for case in self.tools[0].cases)
        about = say("{faults} faults, {controls} controls", faults=faults, controls=self.cases - faults)
        said = len(self.tools) + bool(self.unseen)
        several = len(self.tools) > 1
        groups = [
            row if several else replace(row, tool=None)
            for of_group in zip(*(score.groups for score in self.tools), strict=True)
            for row in of_group
        ]
        totals = [score.total for score in self.tools]
        tables = (
            row_sheet("tools", say("All cases"), ScoreTally, totals),
            row_sheet("groups", say("By group"), ScoreTally, groups),
            *(
                _cases_sheet(
                    say("Cases, {tool}", tool=score.name) if several else say("Cases"),
                    [(score, case) for case in score.cases],
                    with_tool=False,
                )
                for score in self.tools
            ),
        )
        yield doc.Opening("bench diagnosis", about)
        yield from map(doc.Conclusion, self.sentences[:said])
        yield doc.Group(tuple(doc.SheetBlock(table, doc.SheetTitle.BARE) for table in tables))
        yield doc.Remarks(self.sentences[said:], 6)

    def document(self) -> doc.Document:
        every_case = [(score, case) for score in self.tools for case in score.cases]
        cases = _cases_sheet(say("Cases"), every_case, with_tool=True)
        notes = self.sentences[len(self.tools) + bool(self.unseen) :]
        return replace(super().document(), sheets=lambda: (cases,), remarks=notes, page=None)


def diagnosis_answer(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> DiagnosisAnswer:
    """The scores of some tools over the same cases."""
    unseen = [_of_unseen(benchmark, scores)] if benchmark.unseen else []
    return DiagnosisAnswer(
        sentences=(*map(_verdict, scores), *unseen, *_notes(scores)),
        cases=len(benchmark.cases),
        unseen=benchmark.unseen,
        tools=tuple(scores),
    )


def _of(count: int, whole: int) -> str:
    return f"{count}/{whole} ({share_text(count / whole)})"


def _verdict(score: ToolScore) -> Message:
    total, told = score.total, list[str]()
    if total.faults:
        first, three = (_of(count, total.faults) for count in (total.first, total.in_first_three))
        told.append(say("names the fault first in {first}, in its first three in {three}", first=first, three=three))
    if total.measured:
        told.append(say("savings within 25 % in {count}", count=_of(total.savings_within, total.measured)))
    if total.controls:
        told.append(say("false claims in {count}", count=_of(total.claimed, total.controls)))
    return say("{tool}: {told}.", tool=score.name, told=joined(say("; "), told))


def _of_unseen(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> Message:
    """How each does on programs that are as new to us as to others."""
    told = [
        joined(" ", (score.tool, _of(new.first, new.faults)))
        for score, new in ((score, score.of_cases(benchmark.unseen)) for score in scores)
    ]
    return say(
        "No rule of gpuledger was made on {programs}; there the fault is named first: {told}.",
        programs=joined(say(", "), benchmark.unseen),
        told=joined(say("; "), told),
    )


def _cases_sheet(title: Message, cases: Sequence[tuple[ToolScore, CaseScore]], *, with_tool: bool) -> Sheet:
    columns = (
        *((Column("tool", say("Tool"), Unit.TEXT, lambda row: row[0].name),) if with_tool else ()),
        Column("case", say("Case"), Unit.TEXT, lambda row: row[1].id),
        Column("accepted", say("Accepted"), Unit.TEXT, lambda row: ", ".join(row[1].accepted) or "–"),
        Column("first", say("Named first"), Unit.TEXT, lambda row: row[1].first or "–"),
        Column("result", say("Result"), Unit.TEXT, lambda row: _result(row[1])),
        Column("said_percent", say("Said"), Unit.SHARE_PERCENT, lambda row: row[1].said_percent),
        Column("measured_percent", say("Measured"), Unit.SHARE_PERCENT, lambda row: row[1].measured_percent),
    )
    return Sheet.of("diagnosis" if with_tool else "cases", title, columns, cases)


def _result(score: CaseScore) -> Term:
    if not score.answered:
        return Term("not answered", say("not answered"), badge="bad")
    if not score.accepted:
        if score.false_claims:
            return Term("false claim", say("false claim"), badge="bad")
        return Term("no false claim", say("no false claim"), badge="good")
    if score.place is None:
        return Term("missed", say("missed"), badge="bad")
    if score.place == 1:
        return Term("named first", say("named first"), badge="good")
    return Term(f"place {score.place}", say("place {place}", place=score.place), badge="warn")


def _notes(scores: Sequence[ToolScore]) -> list[str]:
    notes: list[str] = []
    for score in scores:
        if missing := len(score.cases) - score.total.answered:
            text = say("{tool} does not answer {count} cases; they count as missed.", tool=score.name, count=missing)
            notes.append(say("note: {note}", note=text))
        if words := sorted({word for case in score.cases for word in case.not_in_list}):
            text = say(
                "{tool} uses words that are in no list of causes, and count as wrong: {words}.",
                tool=score.name,
                words=joined(", ", words[:8]),
            )
            notes.append(say("note: {note}", note=text))
    return notes
