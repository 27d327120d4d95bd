"""Units and numbers of Nsight Compute: every way of writing a quantity leads to the same number."""

from __future__ import annotations

import csv
import io
import lzma
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.read.ncu.csv import NumberStyle, style_of
from gpuledger.read.ncu.launch import UnknownUnit, scale, scaled
from support.command import ROOT

CAPTURES = ROOT / "captures" / "ncu"
CORPUS = ROOT.parent / "shared" / "corpus" / "ncu"
COUNTS = ("inst", "cycle", "sector", "sectors", "warp", "thread", "block", "request", "wavefront", "branches")
PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "u": 1e-6, "n": 1e-9}
values = st.floats(0, 1e12, allow_subnormal=False)


def to_base(value: float, unit: str) -> tuple[float, str]:
    """The number in base units, and which: (1.5, 'Kbyte/block') -> (1500.0, 'byte/block')."""
    exponent, base = scale(unit)
    return scaled(value, exponent), base


@pytest.mark.parametrize(
    ("value", "unit", "base"),
    [
        (8.5, "us", (8500, "ns")),
        (2.5, "msecond", (2_500_000, "ns")),
        (1, "second", (1e9, "ns")),
        (7, "nsecond", (7, "ns")),
        (1.5, "Kbyte", (1500, "byte")),
        (1.5, "mbyte", (1_500_000, "byte")),
        (2, "GB", (2e9, "byte")),
        (1.66, "Tbyte/s", (1.66e12, "byte/s")),
        (3, "Gbyte/second", (3e9, "byte/s")),
        (3, "byte/us", (3e6, "byte/s")),
        (2, "sector/ns", (2e9, "sector/s")),
        (4, "Ksector/s", (4000, "sector/s")),
        (1.96, "Ghz", (1.96e9, "hz")),
        (1.96, "GHz", (1.96e9, "hz")),
        (768, "cycle/usecond", (768e6, "hz")),
        (1.1, "cycle/nsecond", (1.1e9, "hz")),
        (9, "cycle/second", (9, "hz")),
        (62.5, "%", (0.625, "share")),
        (2, "%/register", (2, "%/register")),
        (1, "Kbyte/block", (1000, "byte/block")),
        (25, "register/thread", (25, "register/thread")),
        (5, "Mcycle", (5e6, "cycle")),
        (5, "Kinst/cycle", (5000, "inst/cycle")),
        (132, "SM", (132, "SM")),
        (3, "", (3, "")),
    ],
)
def test_a_quantity_in_base_units(value: float, unit: str, base: tuple[float, str]) -> None:
    number, name = to_base(value, unit)
    assert math.isclose(number, base[0], rel_tol=1e-15)
    assert name == base[1]


@given(values, st.sampled_from(COUNTS), st.sampled_from(sorted(PREFIXES)))
def test_a_prefix_scales(value: float, thing: str, prefix: str) -> None:
    number, name = to_base(value, f"{prefix}{thing}")
    assert math.isclose(number, value * PREFIXES[prefix])
    assert name == thing


@given(values, st.sampled_from(("byte", "inst", "sector")), st.sampled_from(("", "K", "M", "G", "T")))
def test_per_nanosecond_is_a_thousand_million_per_second(value: float, thing: str, prefix: str) -> None:
    slow, fast = to_base(value, f"{prefix}{thing}/s"), to_base(value, f"{prefix}{thing}/ns")
    assert math.isclose(slow[0] * 1e9, fast[0])
    assert slow[1] == fast[1] == f"{thing}/s"


@given(st.sampled_from((*COUNTS, "byte")), st.sampled_from((*COUNTS, "byte")), st.sampled_from(("", "K", "M")))
def test_a_ratio_is_scaled_by_both_its_sides(above: str, below: str, prefix: str) -> None:
    assert scale(f"{prefix}{above}/{below}")[0] == scale(f"{prefix}{above}")[0]
    assert scale(f"{above}/{prefix}{below}")[0] == -scale(f"{prefix}{below}")[0]


@given(values, st.sampled_from(("Kbyte", "us", "%", "Ghz", "sector/ms", "Kbyte/block", "inst")))
def test_base_units_are_their_own(value: float, unit: str) -> None:
    number, base = to_base(value, unit)
    if base != "share":
        assert to_base(number, base) == (number, base)


@pytest.mark.parametrize("unit", ["furlong", "Kfurlong", "byte/furlong", "KK", "byte/", "/s/s", "1", "Kibyte", "bit"])
def test_an_unknown_unit_is_not_guessed(unit: str) -> None:
    with pytest.raises(UnknownUnit):
        to_base(1.0, unit)


@given(st.text(max_size=12))
def test_any_text_is_a_unit_or_unknown(unit: str) -> None:
    try:
        assert isinstance(scale(unit)[1], str)
    except UnknownUnit:
        return


def units_of(text: str) -> set[str]:
    rows = list(csv.reader(io.StringIO(text)))
    if "Metric Unit" in rows[0]:
        return {row[rows[0].index("Metric Unit")] for row in rows[1:]}
    return set(rows[1])


@pytest.mark.parametrize("name", ["layer_raw.csv", "layer_details.csv"])
def test_every_unit_of_our_files_is_known(name: str) -> None:
    units = units_of(lzma.decompress((CAPTURES / f"{name}.xz").read_bytes()).decode())
    assert len(units) > 15
    assert all(isinstance(scale(unit)[1], str) for unit in units)


def test_every_unit_of_other_peoples_files_is_known() -> None:
    paths = list(CORPUS.glob("*.csv"))
    if not paths:
        pytest.skip("no third-party files beside the checkout")
    assert all(scale(unit) for path in paths for unit in units_of(path.read_text()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4,963,609,951.19", 4963609951.19),
        ("16896.000000", 16896.0),
        ("0", 0.0),
        ("-1.5", -1.5),
        ("1e+06", 1e6),
        ("12.3 (1; 2; 3)", 12.3),
        ("12,34,567.5", 1234567.5),
        ("1\u202f234.5", 1234.5),
        ("n/a", None),
        ("(!) n/a", None),
        ("", None),
        ("nan", None),
        ("-inf", None),
        ("no data", None),
        ("1e999", float("inf")),  # told as implausible where it is used
        ("0x1f", "0x1f"),
        ("CachePreferNone", "CachePreferNone"),
        ("12,5", "12,5"),
    ],
)
def test_a_number_with_a_decimal_point(text: str, value: float | str | None) -> None:
    assert NumberStyle().read(text) == value


@pytest.mark.parametrize(
    ("texts", "numbers", "first"),
    [
        (["16,737", "10.32"], NumberStyle(), 16737.0),
        (["16.737", "10,32"], NumberStyle(comma=True), 16737.0),
        (["9.420.231,80"], NumberStyle(comma=True), 9420231.8),
        (["0,125"], NumberStyle(comma=True), 0.125),
        (["16,737"], NumberStyle(), 16737.0),
        (["16.737", "12"], NumberStyle(doubtful=True), 16.737),
        (["no", "n/a", "10,5", "11,25", "13.0"], NumberStyle(comma=True), "no"),
        ([], NumberStyle(), None),
    ],
)
def test_how_a_file_writes_numbers_is_decided_once(texts: list[str], numbers: NumberStyle, first: float | str) -> None:
    assert style_of(texts) == numbers
    assert [numbers.read(text) for text in texts][:1] == ([first] if texts else [])


@given(st.lists(st.floats(-1e15, 1e15), min_size=1), st.sampled_from((2, 6)), st.booleans(), st.booleans())
def test_a_number_is_read_as_it_was_written(
    numbers: list[float], decimals: int, is_grouped: bool, has_comma: bool
) -> None:
    texts = [f"{each:,.{decimals}f}" if is_grouped else f"{each:.{decimals}f}" for each in numbers]
    printed = [text.translate(str.maketrans(".,", ",.")) for text in texts] if has_comma else texts
    read = [style_of(printed).read(text) for text in printed]
    assert read == [float(text.replace(",", "")) for text in texts]


@given(st.text(max_size=20))
def test_any_text_is_read_as_something(text: str) -> None:
    for numbers in (NumberStyle(), NumberStyle(comma=True)):
        value = numbers.read(text)
        assert value is None or isinstance(value, str) or math.isfinite(value)
