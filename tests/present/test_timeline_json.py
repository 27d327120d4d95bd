"""What a page's timeline is drawn from: columns come back as they were, and events are those of the trace."""

from __future__ import annotations

import base64
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.timeline.events import EventFinder, EventSource, stream_cover
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.writers.html.scripted import packed, steps_between
from gpuledger.selection import Selection
from gpuledger.trace.spans import total, union
from gpuledger.trace.tables import Table
from gpuledger.verbs.profiled_report import Report
from support.pages.html_pages import HOSTILE, named_export, page_of, parsed, reported


def unpacked(text: str, count: int) -> list[int]:
    """As the page's script reads it."""
    values, value, place = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 127) << place
        place += 7
        if byte < 128:
            values.append(-(value + 1) // 2 if value % 2 else value // 2)
            value = place = 0
    return values or [0] * count


def timeline_of(report: Report) -> dict[str, Any]:
    page = parsed(page_of(report))
    held: dict[str, Any] = json.loads(page.one("timeline-json").text)
    for element in page.all("script"):
        if element.attrs.get("id") == "timeline-others":
            held["stretches"] += json.loads(element.text)
    return held


def events_of(document: dict[str, Any], stretch: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Kind, start and length of every event."""
    count = sum(some for _, some in stretch["tracks"])
    start = accumulate(unpacked(stretch["start"], count))
    names = [document["names"][number] for number in unpacked(stretch["name"], count)]
    length = unpacked(stretch["length"], count)
    return [
        (document["kinds"][kind], stretch["span"][0] + begin, long)
        for (*_, kind), begin, long in zip(names, start, length, strict=True)
    ]


def test_ranges_of_pytorch_are_called_by_their_operator_and_not_by_their_number(tmp_path: Path) -> None:
    """A page of 3,600 kernels had 2 MB, most of it `op_id = 993403` and the like."""
    around = [f"aten::mm, seq = {at}, op_id = {40 + at}" for at in range(9)]
    document = timeline_of(reported(named_export(tmp_path / "a.sqlite", ["gemm"], ranges=around)))
    assert [shown for shown, *_ in document["names"] if shown.startswith("aten")] == ["aten::mm"]


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=30))
def test_columns_come_back_as_they_were(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert unpacked(packed(column), len(values)) == values
    assert list(accumulate(unpacked(packed(steps_between(column)), len(values)))) == values


def test_the_kernels_of_a_step_in_the_page_are_the_traces(decode: Path) -> None:
    report = reported(decode)
    document, kernels = timeline_of(report), report.trace[Table.KERNELS]
    start, end = kernels["start_ns"] - report.zero_ns, kernels["end_ns"] - report.zero_ns
    assert len(document["stretches"]) >= 20
    for stretch in document["stretches"]:
        begin, finish = stretch["span"]
        expected = kernels.where((start < finish) & (end > begin))
        shown = sorted((at, length) for kind, at, length in events_of(document, stretch) if kind == "GPU kernel")
        assert shown == sorted(
            zip((expected["start_ns"] - report.zero_ns).tolist(), expected.duration_ns.tolist(), strict=True)
        )


def test_every_finding_leads_to_a_stretch_that_shows_it(decode: Path) -> None:
    report = reported(decode)
    page, stretches = parsed(page_of(report)), timeline_of(report)["stretches"]
    links = [link for link in page.all("a") if "data-stretch" in link.attrs]
    assert {link.attrs["data-what"] for link in links} >= {found.code for found in report.findings}
    for link in links:
        begin, end = stretches[int(link.attrs["data-stretch"])]["core"]
        assert begin <= int(link.attrs["data-start"]) < end


def test_names_in_the_timeline_are_text_whatever_they_hold(tmp_path: Path) -> None:
    report = reported(named_export(tmp_path / "x.sqlite", HOSTILE, ranges=HOSTILE))
    text = page_of(report)
    raw = text[text.index('id="timeline-json"') :].partition("</script>")[0]
    assert not {"<", "\u2028", "\u202e"} & set(raw.partition(">")[2])
    names = [name for entry in timeline_of(report)["names"] for name in entry[:2]]
    assert HOSTILE[0] in names
    assert any("\\u202egnp.exe" in name for name in names)


def test_the_first_step_with_the_fix_is_as_short_as_the_replay_says(decode: Path) -> None:
    """Times of the same events; what runs on the GPU takes as long as before, and idle time fills the rest."""
    report = reported(decode)
    document = timeline_of(report)
    [stretch] = [stretch for stretch in document["stretches"] if "fixed" in stretch]
    fixed, count = stretch["fixed"], sum(some for _, some in stretch["tracks"])
    before, after = (core[1] - core[0] for core in (stretch["core"], fixed["core"]))
    top = report.findings[0]
    assert 0.5 < (before - after) / top.saving_ns_per_step < 1.5
    kinds = [document["kinds"][document["names"][number][3]] for number in unpacked(stretch["name"], count)]
    recorded, replayed = (unpacked(columns["length"], count) for columns in (stretch, fixed))
    gpu = [(old, new) for kind, old, new in zip(kinds, recorded, replayed, strict=True) if kind == "GPU kernel"]
    assert gpu
    assert all(old == new for old, new in gpu)
    [gaps] = fixed["gaps"]
    idle = sum(unpacked(gaps["length"], gaps["count"]))
    start = list(accumulate(unpacked(fixed["start"], count)))
    busy = sum(
        max(
            min(begin + long, fixed["core"][1] - stretch["span"][0])
            - max(begin, fixed["core"][0] - stretch["span"][0]),
            0,
        )
        for kind, begin, long in zip(kinds, start, replayed, strict=True)
        if kind in ("GPU kernel", "copy")
    )
    assert idle + busy == pytest.approx(after, rel=1e-3)  # kernels may overlap by a little


def test_where_events_are_left_out_the_page_says_how_busy_each_stream_was(decode: Path) -> None:
    """As shares of a thousand parts of the stretch: their sum is the stream's busy time."""
    trace = reported(decode).trace
    [device] = analyse_devices(trace, "decode", Selection())
    finder = EventFinder(trace, device.host, device.work)
    few, every = (finder.events(device.ledger.window, room) for room in (100, 1_000_000))
    assert few.left_out
    cover = stream_cover(finder, few)
    on_gpu = every.of(EventSource.GPU_WORK)
    busy = total(union(every.start_ns[on_gpu], every.end_ns[on_gpu]))
    length = device.ledger.window.end_ns - device.ledger.window.start_ns
    assert sum(shares.mean() for shares in cover.values()) * length == pytest.approx(busy, rel=0.01)
