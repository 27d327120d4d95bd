"""Reports of Nsight Compute: a report and the CSV of it say the same, and a broken one never says anything wrong."""

from __future__ import annotations

import csv
import io
import lzma
import math
import random
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import GpuledgerError, MissingPackage, NothingRecorded, ToolFailed, UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.ncu import rep_file as ncu_rep
from gpuledger.read.ncu.launch import OVER_ELAPSED, is_wanted, metric_of, plain, scale, scaled
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.read.ncu.rep_file import ChildReply, ReportWalk, walk
from gpuledger.read.source import look_at
from gpuledger.system.processes import Ran
from gpuledger.trace.measured import Advice, KernelReport, Profiled
from gpuledger.trace.model import NotMeasured, Severity
from support.command import ROOT, gpuledger
from support.thorough import some, tries

CAPTURES = ROOT / "captures" / "ncu"
CORPUS = ROOT.parent / "shared" / "corpus" / "ncu"
FILES = sorted(CORPUS.glob("*.*"))

ONE_LAUNCH = 3_926_347
"""Where the block of the first launch ends in our report, after the header, the session and the module."""


@pytest.fixture(scope="session")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks one of our files: a report, or a page that ncu printed of it."""
    folder = tmp_path_factory.mktemp("ncu")

    def unpack(name: str) -> Path:
        path = folder / name
        if not path.exists():
            path.write_bytes(lzma.decompress((CAPTURES / f"{name}.xz").read_bytes()))
        return path

    return unpack


@pytest.fixture(scope="session")
def all_three(layer: Callable[[str], Path]) -> dict[str, tuple[Profiled, ...]]:
    """Every metric of the report and of both pages."""
    names = {"report": "layer.ncu-rep", "raw": "layer_raw.csv", "details": "layer_details.csv"}
    reports = {key: open_kernels([layer(name)], every_metric=True) for key, name in names.items()}
    assert all(not report.health for report in reports.values())
    return {key: report.launches for key, report in reports.items()}


@pytest.fixture(scope="session")
def small(layer: Callable[[str], Path]) -> bytes:
    """A whole report of one launch: a tenth of ours."""
    return layer("layer.ncu-rep").read_bytes()[:ONE_LAUNCH]


def codes(report: KernelReport) -> dict[str, int]:
    return {note.code: note.count for note in report.health}


def opened_or_refused(path: Path) -> KernelReport | GpuledgerError:
    """What comes of a file; anything else than these two is a bug."""
    try:
        return open_kernels([path], limits=Limits(ncu_seconds=60))
    except GpuledgerError as error:
        return error


# ---- the same launches, the same numbers -------------------------------------------------------------------------


def test_all_three_name_the_same_launches(all_three: dict[str, tuple[Profiled, ...]]) -> None:
    told = {
        key: [(each.order, parse(each.name).bare, each.grid, each.block) for each in launches]
        for key, launches in all_three.items()
    }
    assert told["report"] == told["raw"] == told["details"]
    assert len(told["report"]) == 13
    assert [each.name for each in all_three["raw"]] == [each.name for each in all_three["details"]]
    about = {
        key: [(each.process, each.context, each.stream, each.device, each.compute_capability) for each in launches]
        for key, launches in all_three.items()
    }
    assert about["report"] == about["raw"] == about["details"] == [(1464, 1, 7, 0, (9, 0))] * 13


def test_names_of_libraries_are_the_same_to_the_letter(all_three: dict[str, tuple[Profiled, ...]]) -> None:
    """Names without namespaces: all that is not of torch itself."""
    pairs = [(a.name, b.name) for a, b in zip(all_three["report"], all_three["raw"], strict=True)]
    same = [parse(a).canonical == parse(b).canonical for a, b in pairs]
    assert same == ["at::" not in a for a, _ in pairs]
    assert sum(same) == 5


def printed(value: float, unit: str, like: str) -> str:
    """A number of ours as ncu prints it in `unit`, with as many decimals as `like` has."""
    exponent, _ = scale(unit)
    return f"{scaled(value, -exponent):.{len(like.partition('.')[2])}f}"


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?[\d,]+(\.\d+)?", text) is not None


def cells_of_raw(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Launch, metric, unit and text of each cell."""
    header, units, *rows = csv.reader(io.StringIO(path.read_text()))
    for launch, row in enumerate(rows):
        for metric, unit, text in list(zip(header, units, row, strict=True))[11:]:
            yield launch, metric, unit, text


def cells_of_details(path: Path) -> Iterator[tuple[int, str, str, str]]:
    for row in csv.DictReader(io.StringIO(path.read_text())):
        if label := row["Metric Name"]:
            unit = row["Metric Unit"]
            metric = metric_of(row["Section Name"], label, scale(unit)[1], (9, 0))
            assert metric, label
            yield int(row["ID"]), OVER_ELAPSED.get(metric, metric), unit, row["Metric Value"]


NVIDIA_DISAGREES = {
    # 1591 %/byte in the report, 1.591 %/Kbyte on the page: ncu scales the % with the prefix of what is below it
    ("report", "derived__pct_occupancy_per_shared_mem_size")
}


@pytest.mark.parametrize("source", ["report", "raw"])
def test_numbers_are_those_of_the_raw_page(
    source: str, layer: Callable[[str], Path], all_three: dict[str, tuple[Profiled, ...]]
) -> None:
    compared = nothing = 0
    for launch, metric, unit, text in cells_of_raw(layer("layer_raw.csv")):
        if not is_wanted(metric, every_metric=True) or (source, metric) in NVIDIA_DISAGREES:
            continue
        ours = all_three[source][launch]
        if is_number(text):
            compared += 1
            assert printed(ours.metrics[metric], unit, text) == text.replace(",", ""), metric
        elif text in ("", "nan", "no data"):
            nothing += 1
            assert metric not in ours.metrics
            assert isinstance(ours.metric(metric), NotMeasured)
        else:
            assert ours.texts[metric] == text
    assert compared > 27_800
    assert nothing == 52


@pytest.mark.parametrize("source", ["report", "raw", "details"])
def test_numbers_are_those_of_the_details_page(
    source: str, layer: Callable[[str], Path], all_three: dict[str, tuple[Profiled, ...]]
) -> None:
    compared = 0
    for launch, metric, unit, text in cells_of_details(layer("layer_details.csv")):
        ours = all_three[source][launch]
        if is_number(text):
            compared += 1
            assert printed(ours.metrics[metric], unit, text) == text.replace(",", ""), metric
        else:
            assert ours.texts[metric] == text
    assert compared == 1092


@pytest.mark.parametrize("source", ["report", "raw", "details"])
def test_dram_traffic_of_a_known_launch(source: str, all_three: dict[str, tuple[Profiled, ...]]) -> None:
    [launch] = [each for each in all_three[source] if "nvjet_sm90_hsh_256x128" in each.name]
    assert launch.metric("dram__bytes.sum.per_second") == pytest.approx(1.66e12, rel=0.005)
    assert launch.metric("gpu__time_duration.sum") == pytest.approx(141_056, rel=1e-4)


def test_advice_of_the_rules_is_the_same(all_three: dict[str, tuple[Profiled, ...]]) -> None:
    for from_report, from_page in zip(all_three["report"], all_three["details"], strict=True):
        one, other = (
            sorted(
                (each.rule, each.message, each.scope, each.speedup_share or 0) for each in launch.advice if each.message
            )
            for launch in (from_report, from_page)
        )
        assert [each[:3] for each in one] == [each[:3] for each in other]
        assert [each[3] for each in one] == pytest.approx([each[3] for each in other], abs=6e-5)
        assert from_report.advice
        assert not any("http" in message or "@" in message for _, message, _, _ in one)


def test_unless_all_are_asked_for_only_metrics_of_use_are_read(layer: Callable[[str], Path]) -> None:
    report, page = open_kernels([layer("layer.ncu-rep")]), open_kernels([layer("layer_raw.csv")])
    assert report.tool_version == "2025.3.1.0"
    for one, other in zip(report.launches, page.launches, strict=True):
        assert set(one.metrics) == set(other.metrics)
        assert all(is_used(metric) for metric in one.metrics)
        assert one.texts["device__attribute_display_name"] == "NVIDIA H200"
        assert all(math.isfinite(value) for value in one.metrics.values())


def test_several_files_follow_one_another(layer: Callable[[str], Path], tmp_path: Path) -> None:
    report = open_kernels([layer("layer_details.csv"), saved(tmp_path / "b.csv", *SMALL)])
    assert [each.file for each in report.launches] == ["layer_details.csv"] * 13 + ["b.csv"] * 2
    assert [each.order for each in report.launches] == [*range(13), 0, 1]


def test_links_are_left_out_of_messages() -> None:
    assert plain("See the @url:Guide:https://a.b/c#d@ and @section:SourceCounters:Source Counters@.") == (
        "See the Guide and Source Counters."
    )
    assert plain(r"at @source:C:\a.cu:12:a.cu, line 12@ or @sass:0x10:here@") == "at a.cu, line 12 or here"
    assert plain("the Guide (https://a.b/c) says") == "the Guide says"


# ---- reports that are broken -------------------------------------------------------------------------------------


def check_is_part_of(found: KernelReport, whole: tuple[Profiled, ...]) -> None:
    """Nothing in `found` differs from the whole; what is missing is said to be."""
    for launch in found.launches:
        original = whole[launch.order]
        assert parse(launch.name).bare == parse(original.name).bare
        assert launch.metrics.items() <= original.metrics.items()


@pytest.mark.parametrize(
    ("share", "launches"),
    some([(0.5, 6), (0.1, 0), (0.999, 12), (0.15, 2), (0.12, 1), (0.9999999, 12)], 2),
    ids=lambda each: str(each),
)
def test_a_cut_report_gives_what_is_whole(
    share: float,
    launches: int,
    layer: Callable[[str], Path],
    all_three: dict[str, tuple[Profiled, ...]],
    tmp_path: Path,
) -> None:
    content = layer("layer.ncu-rep").read_bytes()
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(content[: int(len(content) * share)])
    if launches == 0:
        with pytest.raises(UnreadableProfile, match="truncated"):
            open_kernels([path])
        return
    report = open_kernels([path])
    assert len(report.launches) == launches
    assert [(note.severity, note.code) for note in report.health] == [(Severity.LOSS, "report-cut-off")]
    assert (
        f"the report is truncated: {launches} of its launches can be read, the rest is lost"
        in report.health[0].sentence
    )
    check_is_part_of(report, all_three["report"])


def broken(small: bytes) -> Iterator[tuple[str, bytes]]:
    """Ways to break a report: lengths, headers, strings and values; by hand, then by chance."""
    chance = random.Random(7)
    yield "only the magic", small[:4]
    yield "a header that is cut", small[:9]
    yield "no launch", small[:145]
    yield "a module that is cut", small[:2_000_000]
    yield "noise", small[:4] + chance.randbytes(5000)
    yield "zeros", small[:10] + bytes(5000)
    yield "a length without end", small[:10] + struct.pack("<I", 0xFFFFFFFF) + small[14:]
    yield "an empty block", small[:10] + struct.pack("<I", 0) + small[10:]
    yield "junk at the end", small + b"junk"
    yield "a launch of zeros", small[:2_900_800] + bytes(len(small) - 2_900_800)
    for number in range(4):
        flipped = bytearray(small)
        for at in (chance.randrange(2_765_696, len(small)) for _ in range(10**number)):
            flipped[at] ^= 1 << chance.randrange(8)
        yield f"{10**number} bits flipped", bytes(flipped)


BROKEN = [name for name, _ in broken(bytes(ONE_LAUNCH))]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_report_is_read_in_part_or_refused(name: str, small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.ncu-rep"
    path.write_bytes(dict(broken(small))[name])
    outcome = opened_or_refused(path)
    if isinstance(outcome, GpuledgerError):
        assert outcome.claim.startswith("broken.ncu-rep: ")
        assert "\n" not in outcome.claim
    else:
        assert len(outcome.launches) == 1
        assert outcome.health or name.endswith("flipped")  # a number in which a bit flipped is still a number


def test_what_a_report_announces(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    container = walk(look_at(path), DEFAULT_LIMITS)
    assert (container.launches, container.processes, container.whole, container.trouble) == (1, (1464,), len(small), "")


def test_without_the_library_it_says_what_to_install(
    small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    monkeypatch.setattr(ncu_rep, "PACKAGE", "no_such_package")
    with pytest.raises(MissingPackage) as caught:
        open_kernels([path])
    assert "gpuledger[ncu]" in caught.value.hint


@pytest.mark.parametrize(
    ("ran", "claim"),
    [(Ran(-11, ""), "crashed on it (signal 11)"), (Ran(1, "Traceback\nMemoryError: no"), "library cannot read it")],
)
def test_a_crash_of_the_library_is_one_sentence(
    ran: Ran, claim: str, small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    monkeypatch.setattr(ncu_rep, "run", lambda *_, **__: ran)
    with pytest.raises(UnreadableProfile, match=re.escape(claim)):
        open_kernels([path])


def test_a_library_that_does_not_end_is_stopped(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    with pytest.raises(ToolFailed, match=r"a\.ncu-rep: .* gave no answer") as caught:
        open_kernels([path], limits=Limits(ncu_seconds=0.02))
    assert "did not end within 0.02 s" in caught.value.found


def test_modules_in_the_current_folder_are_not_run(
    small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.ncu-rep").write_bytes(small)
    for module in ("ncu_report", "msgspec", "math"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    assert len(open_kernels(["a.ncu-rep"]).launches) == 1


class Metric:
    def __init__(self, value: object, unit: str = "") -> None:
        self.value, self.unit, self.has_value = (lambda: value), (lambda: unit), (lambda: value is not None)


class Action:
    """A launch as the library shows it."""

    NameBase_DEMANGLED, NameBase_FUNCTION, WorkloadType_KERNEL, WorkloadType_RANGE = 1, 0, 0, 1

    def __init__(self, name: str | None, kind: int = 0, **metrics: Metric) -> None:
        self.name, self.workload_type = (lambda _: name), (lambda: kind)
        self.metric_names, self.metric_by_name = (lambda: list(metrics)), metrics.get

    def nvtx_state(self) -> Any:
        ranges = SimpleNamespace(push_pop_ranges=lambda: ("step", "forward"), start_end_ranges=lambda: ("run",))
        return SimpleNamespace(domains=lambda: (1, 2), domain_by_id=lambda number: ranges if number == 1 else None)

    def rule_results_as_dicts(self) -> list[dict[str, Any]]:
        said = {"title": "T", "message": "Do @section:A:this@", "type": 2}
        return [
            {"rule_identifier": "R", "rule_message": said, "speedup_estimation": {"type": 1, "speedup": 25.0}},
            {"rule_identifier": "R", "rule_message": said | {"message": ""}},
            {"rule_identifier": "S", "rule_message": said, "speedup_estimation": {"type": 0, "speedup": math.nan}},
        ]


def handed(*actions: Action) -> ChildReply:
    stream = SimpleNamespace(num_actions=lambda: len(actions), action_by_idx=lambda at: actions[at])
    return ReportWalk(every_metric=False, text_bytes=100).of(
        SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda _: stream)
    )


def test_what_the_library_says_is_taken_over() -> None:
    seen = handed(
        Action(
            "k",
            launch__a=Metric(2),
            launch__b=Metric(math.nan),
            launch__c=Metric(None),
            launch__d=Metric(50.0, "%"),
            launch__e=Metric("text"),
            launch__f=Metric(math.inf),
            launch__g=Metric(1.0, "furlong"),
            launch__é=Metric(1.0),
            unused__h=Metric(1.0),
        ),
        Action(None, launch__a=Metric(1)),
        Action("k"),
        Action(None, Action.WorkloadType_RANGE, launch__a=Metric(3)),
    )
    first, second = seen.launches
    assert {seen.names[at]: value for at, value in first.metrics.items()} == {"launch__a": 2.0, "launch__d": 0.5}
    assert {seen.names[at]: value for at, value in first.texts.items()} == {"launch__e": "text"}
    assert [unit for at, unit in enumerate(seen.units) if seen.names[at] == "launch__g"] == ["furlong"]
    assert (seen.actions, first.index, second.index, second.name) == (4, 0, 3, "(range)")
    assert first.nvtx == ["run", "step", "forward"]
    assert first.advice == [Advice("R", "T", "Do this", 0.25, "local"), Advice("S", "T", "Do this")]


def test_a_unit_that_the_library_has_and_we_do_not(
    small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    seen = handed(Action("k", dram__a=Metric(2.0, "furlong")))
    monkeypatch.setattr(ncu_rep, "_from_library", lambda *_: seen)
    with pytest.raises(UnreadableProfile, match="dram__a is given in 'furlong'"):
        open_kernels([path])


def test_launches_of_which_nothing_is_left_are_counted(
    small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small + small[2_765_696:])
    seen = handed(Action(None, launch__a=Metric(1)), Action("k", launch__a=Metric(1)))
    monkeypatch.setattr(ncu_rep, "_from_library", lambda *_: seen)
    report = open_kernels([path])
    assert [(each.order, each.name, each.process) for each in report.launches] == [(1, "k", 1464)]
    assert codes(report) == {"launches-unreadable": 1}


def test_a_report_is_not_taken_for_a_timeline(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(small)
    ran = gpuledger("report", path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "a report of Nsight Compute" in ran.stderr
    assert "gpuledger kernels" in ran.stderr


# ---- CSV -----------------------------------------------------------------------------------------------------------

HEADER = '"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
LONG = HEADER + '"Section Name","Metric Name","Metric Unit","Metric Value"'
WITH_RULES = LONG + ',"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
OWN = "Command line profiler metrics"


def row(metric: str, unit: str, value: str, *more: str, launch: int = 0, section: str = OWN) -> str:
    about = [str(launch), "9", "void k<1>(int)", "1", "7", "(128, 1, 1)", "(8, 2, 1)", "0", "9.0"]
    return ",".join(f'"{cell}"' for cell in (*about, section, metric, unit, value, *more))


SMALL = (
    LONG,
    row("gpu__time_duration.sum", "usecond", "8.51"),
    row("dram__bytes_read.sum", "Mbyte", "1,234.50"),
    row("gpu__time_duration.sum", "usecond", "9.02", launch=1),
    row("dram__bytes_read.sum", "Mbyte", "1,300.25", launch=1),
)
VALUES = [
    {"gpu__time_duration.sum": 8510.0, "dram__bytes_read.sum": 1.2345e9},
    {"gpu__time_duration.sum": 9020.0, "dram__bytes_read.sum": 1.30025e9},
]


def saved(path: Path, *lines: str, end: str = "\n", encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode(encoding))
    return path


def metrics_of(report: KernelReport) -> list[dict[str, Any]]:
    return [{name: pytest.approx(value) for name, value in each.metrics.items()} for each in report.launches]


def test_a_small_page(tmp_path: Path) -> None:
    report = open_kernels([saved(tmp_path / "a.csv", *SMALL)])
    assert metrics_of(report) == VALUES
    assert report.health == ()
    first = report.launches[0]
    assert (first.name, first.grid, first.block, first.file) == ("void k<1>(int)", (8, 2, 1), (128, 1, 1), "a.csv")
    assert (first.process, first.context, first.stream, first.device) == (9, 1, 7, 0)
    assert first.compute_capability == (9, 0)


def test_open_ranges_are_those_of_the_column_that_nvtx_adds(tmp_path: Path) -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    ranges = [f'""<default domain>:{name}:none:none:none:none:none:none""' for name in ("bench:decode", "layer0")]
    head = LONG.replace('"ID",', f'"ID","{column}",')
    first = row("gpu__time_duration.sum", "ns", "8").replace('"0",', f'"0","498  {"  ".join(ranges)}",', 1)
    (launch,) = open_kernels([saved(tmp_path / "a.csv", head, first)]).launches
    assert launch.nvtx == ("bench:decode", "layer0")


@pytest.mark.parametrize(("end", "encoding"), [("\r\n", "utf-8-sig"), ("\n", "utf-16"), ("\r\n", "utf-16-le")])
def test_other_ways_to_write_text(end: str, encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    report = open_kernels([saved(tmp_path / "a.csv", mark + SMALL[0], *SMALL[1:], end=end, encoding=encoding)])
    assert metrics_of(report) == VALUES


def test_what_the_program_prints_is_passed_over(tmp_path: Path) -> None:
    noise = ('loading "weights', "==PROF== Connected to process 9", '"0', "", "step 1, loss 2.5", "==WARNING== slow")
    lines = [line for each in SMALL for line in (*noise, each)]
    report = open_kernels([saved(tmp_path / "a.csv", *lines, *noise[:2])])
    assert metrics_of(report) == VALUES


def test_unquoted_cells_are_understood(tmp_path: Path) -> None:
    """As a spreadsheet saves them again."""
    header = "ID,Kernel Name,gpu__time_duration.sum,launch__grid_dim_x,launch__grid_dim_y,launch__grid_dim_z"
    lines = (header, ",,us,,,", "0,gemm,8.5,8,2,1", "out of turn, said the program", "1,gemm,9.5,8,2,1")
    report = open_kernels([saved(tmp_path / "a.csv", *lines)])
    assert [each.metrics["gpu__time_duration.sum"] for each in report.launches] == [8500.0, 9500.0]
    assert [(each.grid, each.block, each.process) for each in report.launches] == [((8, 2, 1), None, None)] * 2


@pytest.mark.parametrize(
    ("values", "expected"), [(("12,50", "1.234.567"), (0.125, 1234567.0)), (("12.50", "1,234,567"), (0.125, 1234567.0))]
)
def test_a_decimal_comma(values: tuple[str, str], expected: tuple[float, float], tmp_path: Path) -> None:
    lines = (LONG, row("lts__t_sector_hit_rate.pct", "%", values[0]), row("dram__bytes.sum", "byte", values[1]))
    [launch] = open_kernels([saved(tmp_path / "a.csv", *lines)]).launches
    assert tuple(launch.metrics.values()) == expected


def test_numbers_that_can_be_read_two_ways_are_marked(tmp_path: Path) -> None:
    report = open_kernels([saved(tmp_path / "a.csv", LONG, row("dram__bytes.sum", "byte", "98.304"))])
    assert codes(report) == {"numbers-doubtful": 1}


def test_a_decimal_comma_on_a_raw_page(tmp_path: Path) -> None:
    lines = ('"ID","Kernel Name","dram__bytes.sum"', '"","","Kbyte"', '"0","k","1.234,500000"')
    [launch] = open_kernels([saved(tmp_path / "a.csv", *lines)]).launches
    assert launch.metrics == {"dram__bytes.sum": 1234500.0}


@pytest.mark.parametrize("text", ["n/a", "(!) n/a", "nan", "inf", "", "no data"])
def test_what_was_not_measured_is_not_zero(text: str, tmp_path: Path) -> None:
    lines = (*SMALL[:2], row("dram__bytes_read.sum", "", text))
    [launch] = open_kernels([saved(tmp_path / "a.csv", *lines)]).launches
    assert isinstance(launch.metric("dram__bytes_read.sum"), NotMeasured)


def test_texts_and_instances(tmp_path: Path) -> None:
    lines = (
        LONG,
        row("launch__func_cache_config", "", "CachePreferNone"),
        row("launch__occupancy_per_block_size", "", "157 (32; 64; 96)"),
        row("dram__bytes.sum", "byte", "many"),
    )
    report = open_kernels([saved(tmp_path / "a.csv", *lines)])
    assert report.launches[0].texts == {"launch__func_cache_config": "CachePreferNone"}
    assert report.launches[0].metrics == {"launch__occupancy_per_block_size": 157.0}
    assert codes(report) == {"values-unreadable": 1}


def test_the_first_of_two_values_counts(tmp_path: Path) -> None:
    again = row("gpu__time_duration.sum", "usecond", "8.60")
    report = open_kernels([saved(tmp_path / "a.csv", *SMALL, again, SMALL[2])])
    assert metrics_of(report) == VALUES
    assert codes(report) == {"values-repeated": 1}


def test_each_run_of_ncu_counts_from_zero(tmp_path: Path) -> None:
    report = open_kernels([saved(tmp_path / "a.csv", *SMALL, *SMALL)])
    assert metrics_of(report) == VALUES * 2


def test_an_old_release(tmp_path: Path) -> None:
    """Of 2020: no columns for grid, block and device, other labels, other units, no commas."""
    header = '"ID","Process ID","Kernel Name","Kernel Time","Context","Stream","Section Name","Metric Name",'
    about = '"0","28439","step(int,float*)","2020-May-29 12:02:46","1","7",'
    told = (
        '"GPU Speed Of Light","Memory Frequency","cycle/second","768683274.02"',
        '"GPU Speed Of Light","Memory [%]","%","46.47"',
        '"GPU Speed Of Light","SOL L2","%","13.61"',
        '"GPU Speed Of Light","SM [%]","%","22.48"',
        '"GPU Speed Of Light","Duration","nsecond","8992"',
        '"GPU Speed Of Light","SOL Quux","%","1.00"',
        '"Compute Workload Analysis","SM Busy","%","30.00"',
        '"Occupancy","Theoretical Active Warps per SM","warp/cycle","60"',
        '"Launch Statistics","Registers Per Thread","register/thread","20"',
    )
    lines = (header + '"Metric Unit","Metric Value"', *(about + each for each in told))
    report = open_kernels([saved(tmp_path / "a.csv", *lines)], every_metric=True)
    [launch] = report.launches
    assert (launch.grid, launch.block, launch.device, launch.stream) == (None, None, None, 7)
    assert launch.metrics == {
        "dram__cycles_elapsed.avg.per_second": 768683274.02,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 0.4647,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": 0.1361,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 0.2248,
        "gpu__time_duration.sum": 8992.0,
        "sm__instruction_throughput.avg.pct_of_peak_sustained_active": 0.3,
        "sm__maximum_warps_avg_per_active_cycle": 60.0,
        "launch__registers_per_thread": 20.0,
    }
    assert codes(report) == {"labels-unknown": 1}
    assert "'SOL Quux'" in report.health[0].sentence


def test_rules_speak_over_several_lines(tmp_path: Path) -> None:
    rule = row("", "", "", "SOLBottleneck", "OPT", "Look at\nLaunch Statistics.", "global", "12.5", section="X")
    [launch] = open_kernels([saved(tmp_path / "a.csv", WITH_RULES, SMALL[1] + ",", rule)]).launches
    [advice] = launch.advice
    assert (advice.rule, advice.message) == ("SOLBottleneck", "Look at\nLaunch Statistics.")
    assert (advice.speedup_share, advice.scope) == (0.125, "global")


def test_an_unknown_unit_of_a_metric_of_use_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", *SMALL, row("dram__bytes.sum", "furlong", "12.5"))
    with pytest.raises(UnreadableProfile, match=r"a\.csv: dram__bytes\.sum is given in 'furlong'"):
        open_kernels([path])


def test_an_unknown_unit_of_another_metric_is_noted(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", *SMALL, row("foo__bar.sum", "furlong", "12.5"))
    assert open_kernels([path]).health == ()
    report = open_kernels([path], every_metric=True)
    assert metrics_of(report) == VALUES
    assert codes(report) == {"units-unknown": 1}


def test_rows_that_are_torn_are_counted(tmp_path: Path) -> None:
    torn = row("dram__bytes_write.sum", "byte", "12.50")
    report = open_kernels([saved(tmp_path / "a.csv", *SMALL[:2], torn[:60], torn[:90] + '"', *SMALL[2:])])
    assert metrics_of(report) == VALUES
    assert codes(report) == {"rows-damaged": 2}


@pytest.mark.parametrize("page", ["layer_raw.csv", "layer_details.csv"])
def test_a_cut_page_gives_what_is_whole(
    page: str, layer: Callable[[str], Path], all_three: dict[str, tuple[Profiled, ...]], tmp_path: Path
) -> None:
    content = layer(page).read_bytes()
    whole = all_three["raw" if "raw" in page else "details"]
    path = tmp_path / "cut.csv"
    for share in (0.5, 0.77, 0.9999):
        path.write_bytes(content[: int(len(content) * share)])
        report = open_kernels([path])
        assert [(note.severity, note.code) for note in report.health] == [(Severity.LOSS, "csv-cut-off")]
        check_is_part_of(report, whole)


@settings(max_examples=tries(12))
@given(st.integers(0, len("\n".join(SMALL)) + 1))
def test_a_page_cut_anywhere_says_nothing_wrong(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.csv"
    path.write_text(("\n".join(SMALL) + "\n")[:at])
    outcome = opened_or_refused(path)
    if isinstance(outcome, GpuledgerError):
        return
    for found, whole in zip(metrics_of(outcome), VALUES, strict=False):
        assert all(whole[name] == value for name, value in found.items())


@settings(max_examples=tries(10))
@given(st.binary(max_size=400), st.integers(0, len(SMALL)))
def test_anything_among_the_rows_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, after: int
) -> None:
    path = tmp_path_factory.mktemp("noise") / "a.csv"
    rows = [f"{line}\n".encode() for line in SMALL]
    path.write_bytes(b"".join((*rows[:after], noise, b"\n", *rows[after:])))
    outcome = opened_or_refused(path)
    assert isinstance(outcome, KernelReport) or "\n" not in outcome.claim


@pytest.mark.parametrize(
    ("content", "error", "claim"),
    [
        (b"", UnreadableProfile, "the file is empty"),
        (b"hello\nworld\n", UnreadableProfile, "not a report of Nsight Compute"),
        (b"==ERROR== ERR_NVGPUCTRPERM - no permission\n", UnreadableProfile, "not a report of Nsight Compute"),
        (b"SQLite format 3\0", UnreadableProfile, "not a report of Nsight Compute"),
        (b"\xfd7zXZ\0\0", UnreadableProfile, "is compressed with xz"),
        (LONG.encode() + b"\n==WARNING== No kernels were profiled.\n", NothingRecorded, "holds no launches"),
        (LONG.encode() + b'\n"0","9","void', UnreadableProfile, "truncated before its first launch"),
        (
            b'"ID","Kernel Name","dram__bytes.sum"\n"","","byte"\n"0","k"',
            UnreadableProfile,
            "truncated before its first",
        ),
        (b'"ID","Kernel Name","dram__bytes.sum"\n"0","k","1.5"\n', UnreadableProfile, "row of units"),
        (b'"Kernel Name","Metric Name","Metric Unit","Average"\n', UnreadableProfile, "a summary of ncu"),
    ],
)
def test_what_is_none_is_refused_in_one_sentence(
    content: bytes, error: type[GpuledgerError], claim: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        open_kernels([path])
    assert caught.value.claim.startswith("a.csv: ")
    assert claim in caught.value.claim
    if b"==" in content:
        assert "ncu says in it: " in caught.value.found


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableProfile, match="not a report of Nsight Compute"):
        open_kernels([tmp_path])


def test_cells_and_lines_have_a_limit(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", *SMALL, row("dram__bytes.sum", "byte", "1" * 200_000))
    with pytest.raises(UnreadableProfile, match="cannot be read as CSV: field larger than field limit"):
        open_kernels([path], limits=Limits(text_bytes=1000))
    with pytest.raises(UnreadableProfile, match="a line is longer than 100 kB"):
        open_kernels([path], limits=Limits(event_bytes=100_000))


# ---- files of others -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not FILES, reason="no third-party reports beside the checkout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split("__")[-1])
def test_reports_of_others_are_read(path: Path) -> None:
    report = open_kernels([path])
    assert report.health == ()
    for launch in report.launches:
        duration = launch.metric("gpu__time_duration.sum")
        assert isinstance(duration, float)
        assert 1e3 < duration < 1e8
        assert launch.grid
        assert launch.block
        assert launch.process
        assert launch.advice
    if path.suffix == ".csv":
        assert report.launches[0].metrics["dram__bytes.sum.per_second"] == 196_456_177_859.63
    else:
        assert [parse(each.name).canonical for each in report.launches] == ["kernelA", "kernelB", "kernelC"]
