"""One time base: what a table, a document or a page says of when something happened can be given to `--time`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuledger.analyse.idle.gap_summary import GapRow, gap_summary
from gpuledger.analyse.phases.step_summary import StepRow
from gpuledger.answers.report import ReportAnswer
from gpuledger.errors import NothingRecorded
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import idle_label
from gpuledger.ledger.device import Device, devices
from gpuledger.ledger.window import default_window
from gpuledger.present.digits import cell_text
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Sheet, Unit
from gpuledger.present.views.report import report_document
from gpuledger.present.views.steps import steps_answer
from gpuledger.present.writers import write
from gpuledger.present.writers.html.tables import Room, cell
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.units import parse_instant, time_text
from support.command import NAMES, ROOT, gpuledger
from support.profiles.corpus import FILES
from support.profiles.opened import report_of
from support.thorough import some

TORCH = sorted((ROOT / "captures" / "torch").glob("*.json.gz"))


def profiles() -> list[Path | str]:
    return [*some(NAMES, 2), *some(TORCH, 2), *some(FILES, 4)]


@pytest.fixture(scope="module", params=profiles(), ids=lambda given: Path(given).name.split("__")[-1])
def report(request: pytest.FixtureRequest, unpacked: Callable[[str], Path]) -> ProfiledRun:
    path = unpacked(f"{request.param}.sqlite") if isinstance(request.param, str) else request.param
    try:
        return report_of(path)
    except NothingRecorded:
        pytest.skip("no GPU work in this one")


def pasted(trace: Trace, device: Device, first: str, last: str) -> Device:
    """What `--time=first:last --device=N` looks at."""
    window = default_window(device.host, device.work)
    assert isinstance(window, Span)
    wanted = Selection(device=device.gpu, time_ns=(parse_instant(first), parse_instant(last)))
    [narrowed] = devices(trace, device.work, device.host, window, wanted)
    return narrowed


def printed_ends(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Start and end of every row, as text and CSV have them; pages print the same instants in seconds."""
    keys = [column.key for column in sheet.columns]
    ends = [sheet.columns[keys.index(key)] for key in ("start_ns", "end_ns")]
    for row in sheet.rows:
        values = [row[keys.index(column.key)] for column in ends]
        texts = [cell_text(value, column.digits) for value, column in zip(values, ends, strict=True)]
        on_page = [cell(value, column, str, Room(1, 100)).text for value, column in zip(values, ends, strict=True)]
        assert [column.unit for column in ends] == [Unit.INSTANT_NS, Unit.INSTANT_NS]
        assert list(map(parse_instant, on_page)) == list(map(parse_instant, texts))
        yield texts[0], texts[1]


def test_a_gap_or_step_that_is_printed_is_found_where_it_is_said_to_be(report: ProfiledRun) -> None:
    for device in report.devices:
        summary = gap_summary(report.trace, device)
        gaps = list(zip(summary.longest, printed_ends(row_sheet("longest", "", GapRow, summary.longest)), strict=True))
        for gap, ends in (*gaps[:2], *gaps[-1:]):
            narrowed = pasted(report.trace, device, *ends)
            assert narrowed.ledger.window_ns == gap.length_ns
            assert gap_summary(report.trace, narrowed).longest == (gap,)
        if device.steps is not None:
            listed = steps_answer(report.name, report.trace, [device]).steps
            steps = list(printed_ends(row_sheet("steps", "", StepRow, listed)))
            step = len(steps) // 2
            narrowed = pasted(report.trace, device, *steps[step])
            assert narrowed.steps is not None
            assert narrowed.steps.length_ns.tolist() == [int(device.steps.length_ns[step])]


def test_the_evidence_is_found_where_it_is_said_to_be(report: ProfiledRun) -> None:
    document = report_document(ReportAnswer(report)).json()
    by_gpu = {device.gpu: device for device in report.devices}
    for finding in document["findings"]:
        for piece in finding["evidence_data"]:
            if piece["t0_ns"] is None:
                continue
            device = by_gpu.get(finding["device"], report.main_device)
            narrowed = pasted(report.trace, device, str(piece["t0_ns"]), str(piece["t1_ns"]))
            assert narrowed.ledger.window_ns <= piece["t1_ns"] - piece["t0_ns"]
            assert narrowed.zero_ns == document["zero_ns"]
            spans = (gap for gap in every_gap(device) if gap == (piece["t0_ns"], piece["t1_ns"]))
            assert list(every_gap(narrowed)) == list(spans) or next(spans, None) is None


def every_gap(device: Device) -> Iterator[tuple[int, int]]:
    gaps = device.ledger.gaps
    yield from zip((gaps.start_ns - device.zero_ns).tolist(), (gaps.end_ns - device.zero_ns).tolist(), strict=True)


def test_text_says_per_step_what_json_says_of_the_steady_steps(report: ProfiledRun) -> None:
    document = report_document(ReportAnswer(report)).json()
    for told, device in zip(document["devices"], report.devices, strict=True):
        steady = told["steady"]
        assert sum(line["ns"] for line in steady["ledger"]) == steady["steady_ns"]
        assert sum(line["ns"] for line in told["ledger"]) == told["window_ns"]
        assert steady["steps"] == device.step_count
        if told["device"] == report.main_device.gpu:
            text = write(report_document(ReportAnswer(report)), "text").splitlines()
            amounts = {idle_label(trigger): ns for trigger, ns in device.idle_by_trigger.items()}
            assert sum(amounts.values()) == sum(line["ns"] for line in steady["ledger"] if Line(line["line"]).is_idle)
            for words, ns in (amounts | {"total": steady["steady_ns"]}).items():
                row = re.compile(rf"  {re.escape(words)}[ ▏▎▍▌▋▊▉█]*[0-9.]+ % +(.+)")
                assert [match[1] for match in map(row.fullmatch, text) if match] == [time_text(ns // steady["steps"])]


def test_gaps_are_found_again_from_csv_json_and_text(decode: Path) -> None:
    def longest(*options: str) -> dict[str, str]:
        ran = gpuledger("gaps", decode, "--format=csv", *options)
        assert ran.exit_code == 0, ran.stderr
        table = ran.stdout[ran.stdout.index("gpu,length_ns,start_ns") :]
        return next(csv.DictReader(io.StringIO(table)))

    gap = longest()
    for first, last in (
        (gap["start_ns"], gap["end_ns"]),
        (f"{gap['start_ns']} ns", f"{gap['end_ns']}ns"),
        (f"{int(gap['start_ns']) / 1e3:.3f}us", f"{int(gap['end_ns']) / 1e3:.3f} us"),
        (f"{int(gap['start_ns']) / 1e9:.9f} s", f"{int(gap['end_ns']) / 1e9:.9f} s"),
    ):
        assert longest(f"--time={first}:{last}") == gap
    content = json.loads(gpuledger("gaps", decode, "--format=json").stdout)
    assert content["longest"][0]["start_ns"] == int(gap["start_ns"])
    assert content["zero_ns"] == 11_830_820


def test_zero_is_the_same_whatever_is_looked_at(decode: Path) -> None:
    zeros = [
        json.loads(gpuledger(verb, decode, "--format=json", *options).stdout)["zero_ns"]
        for verb in ("report", "steps")
        for options in ((), ("--device=0",), ("--time=0.1s:0.2s",), ("--range=layer1",))
    ]
    assert set(zeros) == {11_830_820}
