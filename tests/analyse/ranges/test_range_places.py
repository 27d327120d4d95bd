"""Which range holds lost time: an example, the definition applied instant by instant, and ranges that make no sense."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.attribution.lost_time import ThreadTime
from gpuledger.attribution.places import LEAST_OF_ALL, RangePlace, range_places
from gpuledger.attribution.ranges import NamedNest, ProgramRanges
from gpuledger.trace.spans import union
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.trace_notation import of_tables, table

Row = tuple[str, int, int]
LAST = 40


def named(rows: Sequence[Row], kind: str = "push_pop") -> NamedNest:
    strings = Strings(dict.fromkeys(("", kind, "mark", "python", *(name for name, _, _ in rows))))
    columns = {
        "start_ns": [start for _, start, _ in rows],
        "end_ns": [end for _, _, end in rows],
        "name": [name for name, _, _ in rows],
        "kind": [kind] * len(rows),
    }
    return ProgramRanges(of_tables(strings, {Table.RANGES: table(Table.RANGES, strings, len(rows), **columns)})).named


def lost(*spans: tuple[int, int]) -> list[ThreadTime]:
    return [ThreadTime(0, 0, 0, union([start for start, _ in spans], [end for _, end in spans]))]


def places(rows: Sequence[Row], *spans: tuple[int, int]) -> tuple[RangePlace, ...]:
    return range_places(named(rows), lost(*spans))


def test_the_path_ends_where_the_time_is() -> None:
    [place] = places([("step 1", 0, 20), ("data", 2, 15), ("step 2", 20, 40), ("data", 22, 35)], (0, 14), (20, 34))
    assert (place.path, place.time_ns, place.span) == (("step #", "data"), 24, (2, 14))


def test_an_operator_keeps_its_digits_and_a_lone_range_its_number() -> None:
    assert [place.path for place in range_places(named([("aten::conv2d", 0, 9)], "op"), lost((0, 9)))] == [
        ("aten::conv2d",)
    ]
    assert places([("layer 7", 0, 9)], (0, 9))[0].path == ("layer 7",)
    shown = [("aten::conv2d, seq = 1, op_id = 8", 0, 9), ("aten::conv2d, seq = 2, op_id = 9", 9, 18)]
    assert places(shown, (0, 18))[0].path == ("aten::conv2d",)
    steps = [("ProfilerStep#7", 0, 9), ("ProfilerStep#8", 9, 18)]
    assert range_places(named(steps, "op"), lost((0, 18)))[0].path == ("ProfilerStep#",)


def test_without_any_range_there_is_no_place() -> None:
    assert range_places(named([("elsewhere", 0, 9)]), [ThreadTime(5, 0, 5, lost((0, 9))[0].spans)]) == ()


def _nested(rows: list[Row]) -> list[Row]:
    """Those of the rows that nest in, or lie beside, all that were kept before."""
    kept: list[Row] = []
    for name, start, length in rows:
        end = start + length
        if all(end <= s or start >= e or (s < start and end < e) or (start < s and e < end) for _, s, e in kept):
            kept.append((name, start, end))
    return kept


names = st.sampled_from(["a", "b", "c"])
nests = st.lists(st.tuples(names, st.integers(0, LAST), st.integers(1, LAST)), max_size=12).map(_nested)
stretches = st.lists(st.tuples(st.integers(0, LAST), st.integers(1, LAST)), min_size=1, max_size=5)


def _path(rows: list[Row], instant: int) -> tuple[str, ...]:
    around = [row for row in rows if row[1] <= instant < row[2]]
    return tuple(name for name, start, end in sorted(around, key=lambda row: (row[1], -row[2])))


@given(nests, stretches)
def test_a_place_holds_the_instants_that_lie_in_it(rows: list[Row], cut: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in cut]
    instants = sorted({at for start, end in spans for at in range(start, end)})
    paths = [_path(rows, at) for at in instants]
    for place in places(rows, *spans):
        depth = len(place.path)
        held = sum(path[:depth] == place.path if depth else not path for path in paths)
        assert place.time_ns == held
        if depth:
            assert held >= LEAST_OF_ALL * len(instants)
        assert set(range(*place.span)) <= set(instants)
        assert all(
            path[:depth] == place.path for at, path in zip(instants, paths, strict=True) if at in range(*place.span)
        )


@given(st.lists(st.tuples(names, st.integers(-5, LAST), st.integers(-3, LAST)), max_size=12), stretches)
def test_ranges_that_cross_or_end_before_they_begin_are_borne(rows: list[Row], cut: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in cut]
    whole = len({at for start, end in spans for at in range(start, end)})
    for place in places([(name, start, start + length) for name, start, length in rows], *spans):
        assert 0 <= place.time_ns <= whole
