"""Python's stacks beside a profile: read where they are of this run, on its clock; else told, and not used."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.attribution.lines import heaviest_line, own_frames
from gpuledger.findings.profiled_run import diagnose
from gpuledger.read import python_samples
from gpuledger.selection import Selection
from gpuledger.trace.model import Severity, Trace
from gpuledger.trace.tables import Table
from support.command import ROOT, gpuledger

PLACES = ROOT / "captures" / "places"
PERIOD = 500_000
AHEAD = 7_000_000_000_000
"""What the sampler's clock shows more than the profile's."""


def recorded(
    folder: Path, profile: str = "function.plain", *, lines: list[str] | None = None, **changes: Any
) -> tuple[Path, Trace]:
    """A profile of H200, and samples of its main thread beside it: always in `resize`, at data.py:88."""
    path = folder / "run.json.gz"
    path.write_bytes((PLACES / f"{profile}.json.gz").read_bytes())
    trace = open_trace(path)
    (folder / "run.samples.gz").write_bytes(gzip.compress("\n".join(lines or made(trace, **changes)).encode() + b"\n"))
    return path, trace


def made(trace: Trace, *, pid: int | None = None, host: str = "", shift: int = 0, schema: str = "") -> list[str]:
    [process], window, zero = trace.origin.processes, trace.span, trace.origin.wall_zero_ns
    assert zero is not None
    header = {"schema": schema or python_samples.SCHEMA, "pid": pid or process.pid, "host": host}
    begun, ended = window.start_ns + AHEAD, window.end_ns + AHEAD  # type: ignore[union-attr]
    clocks = [f"C {at - 500} {at - AHEAD + zero + shift} {at + 500}" for at in (begun, ended)]
    code = ['F [88, 80, "resize", "/srv/me/data.py"]', 'F [12, 3, "main", "/srv/me/train.py"]']
    library = 'F [741, 700, "fft2", "/opt/python/site-packages/numpy/fft/_pocketfft.py"]'
    looks = [f"s {at} {process.pid} 0" for at in range(begun, ended, PERIOD)]
    return [f"H {json.dumps(header)}", *clocks, *code, library, "S 2 0 1", *looks]


def said(trace: Trace) -> list[tuple[Severity, str]]:
    return [(note.severity, str(note.sentence)) for note in trace.health if note.code == python_samples.CODE]


def test_the_line_is_the_first_thing_that_is_said(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    first = diagnose(open_trace(path), "run", Selection()).findings[0]
    assert first.code == "HOST-CODE"
    assert first.claim.endswith("while the host runs its own code, mostly at data.py:88 in resize")
    place = "at data.py:88 in resize -> numpy/fft/_pocketfft.py fft2, called from train.py:12"
    assert first.sentences[0] == f"100.0 % of the lost time {place}"
    line = first.evidence[0].line
    assert line is not None
    assert line.frames == ("main (train.py:12)", "resize (data.py:88)")


def test_samples_are_a_table_on_the_profiles_clock(tmp_path: Path) -> None:
    path, before = recorded(tmp_path)
    trace = open_trace(path, only=[Table.SAMPLES])
    samples = trace["samples"]
    window = before.span
    assert samples["start_ns"][0] == window.start_ns  # type: ignore[union-attr]
    assert set((samples["end_ns"] - samples["start_ns"]).tolist()) == {0}
    assert set(np.diff(samples["start_ns"]).tolist()) == {PERIOD}
    assert trace.stacks.texts(int(samples["stack"][0]), trace.strings)[1:] == [
        "resize (data.py:88)",
        "main (train.py:12)",
    ]
    assert list(trace.tables) == [Table.SAMPLES]
    assert "their times are the wall clock's, read within 1.00 us" in said(trace)[0][1]


def test_gaps_json_and_the_page_have_the_lines(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    assert "data.py:88  resize" in gpuledger("gaps", str(path)).stdout
    answer = json.loads(gpuledger("report", str(path), "--format=json").stdout)
    piece = answer["findings"][0]["evidence_data"][0]
    assert (piece["place"], piece["function"], piece["place_is_exact"]) == ("data.py:88", "resize", True)
    assert piece["calls_into"] == "numpy/fft/_pocketfft.py fft2"
    gpuledger("report", str(path), "-o", str(tmp_path / "page.html"))
    assert "GPU idle time by host stack" in (tmp_path / "page.html").read_text()


def test_a_timeline_has_a_track_of_lines(tmp_path: Path) -> None:
    path, before = recorded(tmp_path)
    assert gpuledger("export", path, "-o", tmp_path / "run.trace.json").exit_code == 0
    events = json.loads((tmp_path / "run.trace.json").read_text())["traceEvents"]
    [line] = [event for event in events if event.get("cat") == "line"]
    assert line["name"] == "data.py:88 resize"
    window = before.span
    assert line["dur"] * 1000 > 0.9 * (window.end_ns - window.start_ns)  # type: ignore[union-attr]


def test_at_80_columns_the_line_number_is_not_cut(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    text = gpuledger("report", path, COLUMNS="80").stdout
    assert text.count("data.py:88 in resize") >= 3
    assert max(map(len, text.splitlines())) <= 80


def test_without_samples_nothing_is_said_of_them(tmp_path: Path) -> None:
    path, trace = recorded(tmp_path)
    (tmp_path / "run.samples.gz").unlink()
    assert said(open_trace(path)) == said(trace) == []
    assert "mostly" not in diagnose(open_trace(path), "run", Selection()).findings[0].claim


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pid": 4711}, "none of its processes is in the profile: it is of another run"),
        ({"shift": 3600 * 10**9}, "its times are not those of the profile: it is of another run"),
        ({"schema": "gpuledger.samples/9"}, "it is of another version of gpuledger"),
        ({"lines": ["nothing of ours"]}, "it does not begin as a recording of samples does"),
        ({"lines": ["H []"]}, "it is empty"),
        ({"lines": ["x" * (python_samples.LONGEST_LINE + 1)]}, "its lines are too long"),
    ],
)
def test_a_file_of_another_run_is_not_used(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    path, before = recorded(tmp_path, **changes)
    trace = open_trace(path)
    [(severity, sentence)] = said(trace)
    assert severity is Severity.WARNING
    assert sentence.startswith("run.samples.gz is not used: ")
    assert reason in sentence
    assert len(trace["samples"]) == 0
    assert dict(trace.tables) == dict(before.tables)


def manifest(folder: Path, **files: int) -> None:
    listed = [{"name": name.replace("__", "."), "bytes": size} for name, size in files.items()]
    (folder / "run.capture.json").write_text(json.dumps({"schema": "gpuledger.capture/1", "files": listed}))


def test_the_manifest_must_list_this_very_file(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    sizes = {
        f"run__{ending.replace('.', '__')}": (tmp_path / f"run.{ending}").stat().st_size
        for ending in ("json.gz", "samples.gz")
    }
    manifest(tmp_path, **sizes)
    assert len(open_trace(path)["samples"])
    manifest(tmp_path, **sizes | {"run__samples__gz": 5})
    assert "the capture's manifest describes another file of that name" in said(open_trace(path))[0][1]
    manifest(tmp_path, **sizes)
    (tmp_path / "run.samples.gz").unlink()
    assert said(open_trace(path)) == [
        (Severity.INFO, "run.samples.gz, the sampled Python stacks of this capture, is missing")
    ]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_told_and_nothing_else_changes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("samples")
    path = folder / "run.json.gz"
    path.write_bytes((PLACES / "function.plain.json.gz").read_bytes())
    (folder / "run.samples.gz").write_bytes(zlib.compress(content, wbits=31) if packed else content)
    trace = open_trace(path, only=[Table.KERNELS, Table.SAMPLES])
    assert len(trace["samples"]) == 0
    assert len(said(trace)) == 1


def test_damaged_records_are_counted_and_a_cut_file_gives_what_is_whole(tmp_path: Path) -> None:
    path, before = recorded(tmp_path)
    lines = made(before)
    lines[3:3] = ["?", "F {}", "s x", "S -1", "C 1"]
    whole = gzip.compress("\n".join([*lines, f"s {AHEAD} 1 99", f"s {10**30} 1 0", ""]).encode())
    (tmp_path / "run.samples.gz").write_bytes(whole[:-20])
    trace = open_trace(path)
    assert len(trace["samples"]) > 0
    assert [severity for severity, _ in said(trace)] == [Severity.INFO, Severity.LOSS]


@pytest.mark.parametrize(("behind", "lost"), [(bytes(999), 0), (b"junk", 1)])
def test_what_stands_behind_gzip_is_told_and_padding_is_not(behind: bytes, lost: int, tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    samples = tmp_path / "run.samples.gz"
    samples.write_bytes(samples.read_bytes() + behind)
    trace = open_trace(path)
    assert len(trace["samples"]) > 0
    assert [severity for severity, _ in said(trace)] == [Severity.INFO] + [Severity.LOSS] * lost


def test_sql_has_the_frames_of_samples(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    asked = "SELECT DISTINCT frame, frames FROM samples WHERE source = 'python'"
    [row] = json.loads(gpuledger("query", path, asked, "--format=json").stdout)["rows"]
    inner = "fft2 (numpy/fft/_pocketfft.py:741)"
    assert row == [inner, f"main (train.py:12) > resize (data.py:88) > {inner}"]


@pytest.mark.parametrize("file", ["cfal3xpiah2v7kq5zr4m6nbt2cjw5yodlqs3gue7xhapi2rftkv4n.py", "json.py", "<frozen x>"])
def test_a_file_that_nobody_wrote_is_no_place(file: str) -> None:
    """torch.compile calls what it generates by a hash."""
    stack = ["main (train.py:12)", f"call ({file}:80)"]
    assert own_frames(stack) == ["main (train.py:12)"]
    place = heaviest_line([(stack, 5)])
    assert place is not None
    assert place.at == "train.py:12"


@pytest.mark.parametrize(
    "frame",
    ["decorate_context (torch/utils/_contextlib.py:117)", "inner (python3.12/contextlib.py:81)", "nn.Module: Model_0"],
)
def test_what_only_hands_on_is_not_what_is_called(frame: str) -> None:
    place = heaviest_line([(["main (train.py:12)", frame, "__call__ (diffusers/pipeline.py:80)"], 5)])
    assert place is not None
    assert place.into == "diffusers/pipeline.py __call__"
    alone = heaviest_line([(["main (train.py:12)", "decorate_context (torch/utils/_contextlib.py:117)"], 5)])
    assert alone is not None
    assert alone.into == "torch/utils/_contextlib.py decorate_context"


def test_what_most_of_a_librarys_time_is_in_is_told() -> None:
    """What a line calls is the outermost function of a library: what takes long is further in."""
    called = ["main (train.py:12)", "__call__ (transformers/vision.py:65)", "resize (transformers/image.py:3)"]
    zoom = "zoom (scipy/ndimage/_interpolation.py:9)"
    place = heaviest_line([([*called, zoom, "<built-in function spline>"], 6), (called, 4)])
    assert place is not None
    assert str(place.whole).endswith(
        "train.py:12 in main -> transformers/vision.py __call__ -> ... -> scipy/ndimage/_interpolation.py zoom"
    )
    spread = heaviest_line([([*called[:2], f"{name} (transformers/image.py:{name})"], 5) for name in ("1", "2", "3")])
    assert spread is not None
    assert (spread.into, spread.down_to) == ("transformers/vision.py __call__", "")


def others(folder: Path, ending: str, write: Any) -> Trace:
    """A profile with what another tool sampled beside it, each half a millisecond; `write` makes its text."""
    path, trace = recorded(folder)
    (folder / "run.samples.gz").unlink()
    [process], zero, window = trace.origin.processes, trace.origin.wall_zero_ns, trace.span
    assert zero is not None
    times = range(window.start_ns + zero, window.end_ns + zero, PERIOD)  # type: ignore[union-attr]
    (folder / f"run{ending}").write_text(write(process.pid, times))
    return open_trace(path)


def perf_text(pid: int, times: range, who: str = "{pid}/{pid}", shift_s: int = 0) -> str:
    stack = (
        "\t    d4ad7 resize(float*)+0x1a (/srv/me/native.so)\n\t   98aa2 py::main:/srv/me/train.py (/tmp/perf-1.map)\n"
    )
    heads = (f"python {who.format(pid=pid)} [003] {at // 10**9 + shift_s}.{at % 10**9 // 1000:06d}: \n" for at in times)
    return "\n".join(head + stack for head in heads) + "\n"


def test_what_perf_printed_is_the_processors_samples(tmp_path: Path) -> None:
    trace = others(tmp_path, ".perf.txt", perf_text)
    [(severity, sentence)] = said(trace)
    assert severity is Severity.INFO
    assert "samples of the processor by perf" in sentence
    samples = trace[Table.SAMPLES]
    assert set(samples.texts("source")) == {"cpu"}
    assert trace.stacks.texts(int(samples["stack"][0]), trace.strings) == ["resize(float*)", "main (train.py:-1)"]
    assert int(samples["start_ns"][0]) - trace.span.start_ns <= 1000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("ending", "write", "reason"),
    [
        (".perf.txt", lambda pid, times: perf_text(pid, times, "{pid}"), "it does not say which process"),
        (".perf.txt", lambda pid, times: perf_text(pid + 1, times), "it is of another run"),
        (".perf.txt", lambda pid, times: perf_text(pid, times, shift_s=-7200), "it is of another run"),
        (".perf.txt", lambda _pid, _times: "\0\xff\n" * 9, "does not begin as a recording"),
    ],
)
def test_another_tools_file_that_cannot_be_used_is_told(tmp_path: Path, ending: str, write: Any, reason: str) -> None:
    trace = others(tmp_path, ending, write)
    [(severity, sentence)] = said(trace)
    assert severity is Severity.WARNING
    assert reason in sentence
    assert not len(trace[Table.SAMPLES])
