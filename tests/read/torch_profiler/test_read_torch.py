"""torch.profiler traces: what is in the JSON is in the tables, and broken ones are refused or marked."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import Table, open_trace
from gpuledger.analyse.utilization.kernel_use import UseOfKernels, use_of_kernels
from gpuledger.analyse.utilization.samples import GpuSamples, gpu_samples
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.errors import GpuledgerError, NothingRecorded, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read import SAMPLES, profiles_in
from gpuledger.read.torch import events
from gpuledger.read.torch.reader import end_what_threw
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Severity
from gpuledger.verbs.report import build_report
from support.command import ROOT, gpuledger
from support.profiles.opened import trace_of
from support.profiles.torch_traces import CALL, CORPUS, COUNTED, FILES, KERNEL, KERNEL_ARGS, OP, OURS, SMALL, saved
from support.thorough import some, tries
from support.traces.book_checks import analysed, check_balance
from support.traces.trace_notation import columns_of

CAPTURES = ROOT / "captures" / "torch"


def test_a_small_trace(tmp_path: Path) -> None:
    properties = [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}]
    job = {"rank": 3, "world_size": 8}
    trace = open_trace(saved(tmp_path / "a.json", SMALL, deviceProperties=properties, distributedInfo=job))
    kernels = trace[Table.KERNELS]
    assert columns_of(kernels, "start_ns", "end_ns", "name", "gpu", "stream", "pid", "correlation") == [
        (30_500, 34_750, "k<1>", 0, 7, 9, 5)
    ]
    assert kernels["grid"].tolist() == [[8, 2, 1]]
    assert columns_of(trace[Table.CALLS], "start_ns", "name", "layer") == [(20_000, "cudaLaunchKernel", "runtime")]
    assert columns_of(trace[Table.RANGES], "name", "kind", "inputs") == [
        ("aten::mm", "op", '[[8, 4], [4, 2]]\n["float", "float"]')
    ]
    assert (trace.origin.rank, trace.origin.world_size, trace.origin.gpus[0].sm_count) == (3, 8, 132)
    assert not trace.health


def on_device(number: int) -> list[dict[str, Any]]:
    """The small trace with its kernel on another device."""
    return [OP, CALL, KERNEL | {"args": KERNEL_ARGS | {"device": number}}]


def test_a_device_keeps_its_number(tmp_path: Path) -> None:
    properties = [{"id": number, "name": f"gpu {number}"} for number in range(8)]
    path = saved(tmp_path / "a.json", on_device(7), deviceProperties=properties)
    trace = open_trace(path)
    assert trace[Table.KERNELS]["gpu"].tolist() == [7]
    assert trace.origin.gpus[7].name == "gpu 7"
    assert [device.gpu for device in analysed(trace)] == [7]
    assert gpuledger("report", path, "--device=7").exit_code == 0
    assert "GPUs in use: 7" in gpuledger("report", path, "--device=0").stderr
    about = gpuledger("info", path).stdout
    assert "gpu 7" in about.splitlines()[0]
    assert not any(name in about for name in ("gpu 0", "gpu 6"))


@pytest.mark.parametrize("number", [2**40, 1000, -5])
def test_a_device_number_that_no_machine_has_is_a_name(number: int, tmp_path: Path) -> None:
    trace = open_trace(saved(tmp_path / "a.json", on_device(number)))
    assert trace[Table.KERNELS]["gpu"].tolist() == [0]
    assert len(trace.origin.gpus) == 1


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: path.name.split("__")[-1])
def test_kernels_are_those_of_an_independent_count(path: Path) -> None:
    with gzip.open(path) as file:
        listed = json.loads(file.read(), parse_float=str)["traceEvents"]
    mine = [each for each in listed if each.get("cat") in ("kernel", "Kernel") and each["ph"] == "X"]
    trace = trace_of(path)
    kernels = trace[Table.KERNELS]
    assert len(kernels) == len(mine)
    assert sorted(kernels["start_ns"].tolist()) == sorted(int(Decimal(each["ts"]) * 1000) for each in mine)
    assert int(kernels.duration_ns.sum()) == sum(int(Decimal(each["dur"]) * 1000) for each in mine)
    everything = [
        each for each in listed if each.get("cat") in ("cpu_op", "Operator", "user_annotation", "python_function")
    ]
    assert len(trace[Table.RANGES]) == len(everything)
    starts = sorted(int(Decimal(each["ts"]) * 1000) for each in everything)
    assert sorted(trace[Table.RANGES]["start_ns"].tolist()) == starts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split("__")[-1])
def test_the_books_balance_and_every_verb_answers(path: Path) -> None:
    trace = trace_of(path)
    for device in analysed(trace):
        check_balance(device)
    if trace.missing(Table.KERNELS):
        ran = gpuledger("report", path)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "no GPU work was recorded" in ran.stderr


@pytest.mark.usefixtures("profiles_read_once")
@pytest.mark.parametrize("path", some(OURS, 3), ids=lambda path: path.name)
@pytest.mark.parametrize("verb", ["report", "gaps", "steps", "ranges", "memory", "info", "stats"])
def test_all_verbs_take_a_torch_trace(verb: str, path: Path) -> None:
    ran = gpuledger(verb, path, COLUMNS="80")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout


def test_a_profiler_step_is_a_step(tmp_path: Path) -> None:
    made = []
    for step in range(4):
        at = 1000 * step
        made += [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 9,
                "tid": 10,
                "ts": at,
                "dur": 900,
            },
            CALL | {"ts": at + 20, "args": {"correlation": step}},
            KERNEL | {"ts": at + 30, "args": KERNEL_ARGS | {"correlation": step}},
        ]
    [device] = analysed(saved(tmp_path / "a.json", made))
    assert device.steps is not None
    assert (device.steps.source, len(device.steps)) == ("marked by torch's ProfilerStep", 4)


def test_copies_say_what_they_join(tmp_path: Path) -> None:
    names = ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Host -> Device)")
    made = [KERNEL | {"cat": "gpu_memcpy", "name": name, "args": {"device": 0, "bytes": 8}} for name in names]
    made.append(KERNEL | {"cat": "gpu_memset", "name": "Memset (Device)", "args": {"device": 0, "bytes": "16"}})
    copies = open_trace(saved(tmp_path / "a.json", made))[Table.COPIES]
    assert columns_of(copies, "kind", "src_kind", "dst_kind", "bytes") == [
        ("Host-to-Device", "Pageable", "Device", 8),
        ("Device-to-Host", "Device", "Pinned", 8),
        ("Host-to-Device", "Unknown", "Device", 8),
        ("Memset", "Unknown", "Device", 16),
    ]


def test_blocking_calls_have_pythons_stack(tmp_path: Path) -> None:
    python = {"ph": "X", "cat": "python_function", "pid": 9, "tid": 10}
    made = [
        python | {"name": "/home/user/train.py(7): main", "ts": 0, "dur": 100},
        python | {"name": "/opt/lib/python3.12/site-packages/torch/x.py(3): f", "ts": 10, "dur": 20},
        python | {"name": "<built-in method item>", "ts": 12, "dur": 10},
        CALL | {"name": "cudaStreamSynchronize", "ts": 14, "dur": 4, "args": {"correlation": 1}},
        CALL | {"name": "cudaStreamSynchronize", "ts": 50, "dur": 4, "args": {"correlation": 2}},
        KERNEL | {"args": KERNEL_ARGS},
    ]
    trace = open_trace(saved(tmp_path / "a.json", made))
    stacks = [trace.stacks.texts(stack, trace.strings) for stack in trace[Table.CALLS]["stack"].tolist()]
    assert stacks == [["<built-in method item>", "f (torch/x.py:3)", "main (train.py:7)"], ["main (train.py:7)"]]


# Laws


@settings(deadline=None, max_examples=tries(12))
@given(
    st.lists(st.sampled_from(range(3)), min_size=1, max_size=40),
    st.integers(40, 400),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_pieces_and_layout_change_nothing(
    kinds: list[int], piece: int, indent: int | None, metadata_last: bool
) -> None:
    made = [SMALL[kind] | {"ts": 10 * at, "name": '"},\n  {"ph": ' * kind + str(at)} for at, kind in enumerate(kinds)]
    around = {"note": {"traceEvents": [{"ph": 1}, {"ph": 2}]}, "deviceProperties": [{"id": 0}, {"id": 1, "name": "x"}]}
    whole = {"traceEvents": made} | around if metadata_last else around | {"traceEvents": made}
    text = json.dumps(whole, indent=indent).encode()

    class Small(io.BytesIO):
        end_notes = ()

    def names(size: int) -> list[str]:
        before = events.PIECE
        events.PIECE = size  # type: ignore[misc]
        try:
            stream = events.EventStream(Small(text), "x", Limits())
            found = [event.name for batch in stream.batches() for event in batch]
        finally:
            events.PIECE = before  # type: ignore[misc]
        assert stream.metadata == around
        assert not stream.notes()
        return found

    assert names(piece) == names(1 << 20) == [each["name"] for each in made]


@settings(deadline=None, max_examples=tries(12))
@given(st.data())
def test_a_cut_off_trace_keeps_its_whole_events(data: st.DataObject) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": [each | {"ts": 5 * at} for at, each in enumerate(SMALL * 5)]})
    ends, reach = [], text.index("[", text.index("traceEvents")) + 1
    while text[reach] != "]":
        _, reach = json.JSONDecoder().raw_decode(text, text.index("{", reach))
        ends.append(reach)
    at = data.draw(st.integers(ends[0] - 50, len(text) - 3))

    class Cut(io.BytesIO):
        end_notes = ()

    stream = events.EventStream(Cut(text[:at].encode()), "x", Limits())
    kept = [event for batch in stream.batches() for event in batch]
    assert len(kept) == sum(end <= at for end in ends)
    assert [note.code for note in stream.notes()] == ["trace-cut-off"]


# Hostile


REFUSED: dict[str, bytes] = {
    "not json": b"{this is not json",
    "no events": b'{"a": 1}',
    "events null": b'{"traceEvents": null}',
    "events a dict": b'{"traceEvents": {"a": 1}}',
    "events empty": b'{"traceEvents": []}',
    "a list of nothing": b"[]",
    "deep": b'{"traceEvents": [' + b"[" * 100_000,
    "deep before": b'{"a": ' + b"[" * 100_000,
    "utf-16": '{"traceEvents": [{"ph": "X"}]}'.encode("utf-16"),
    "spaces": b" " * 5000 + b"{" + b" " * 5000,
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_what_is_no_trace_is_refused_in_one_sentence(name: str, suffix: str, tmp_path: Path) -> None:
    ran = gpuledger("report", saved(tmp_path / f"a{suffix}", REFUSED[name]))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr


ODD: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "nan": lambda made: json.dumps({"traceEvents": [made[0] | {"args": {"x": float("nan")}}, *made[1:]]}).encode(),
    "bad utf-8": lambda made: json.dumps({"traceEvents": made}).encode().replace(b"aten::mm", b"aten::\xff"),
    "lone surrogate": lambda made: json.dumps({"traceEvents": made}).encode().replace(b"aten::mm", b"aten::\\ud800"),
    "huge integer": lambda made: (
        json.dumps({"traceEvents": made})
        .encode()
        .replace(b'"correlation": 5}', b'"correlation": ' + b"9" * 5000 + b"}")
    ),
    "text for a number": lambda made: (
        json.dumps({"traceEvents": made}).encode().replace(b'"stream": 7', b'"stream": "7"')
    ),
    "trailing comma": lambda made: json.dumps({"traceEvents": made}).encode().replace(b"}]}", b"},]}"),
    "bom": lambda made: b"\xef\xbb\xbf" + json.dumps({"traceEvents": made}).encode(),
    "list form": lambda made: json.dumps(made).encode(),
    "unknown phase": lambda made: json.dumps(
        {"traceEvents": [{"ph": "?", "ts": 1}, {"ph": "B", "cat": "cpu_op", "ts": 1}, *made]}
    ).encode(),
    "not an object": lambda made: json.dumps({"traceEvents": [1, None, "x", *made]}).encode(),
    "broken in the middle": lambda made: (
        json.dumps({"traceEvents": [made[0], *made]}).encode().replace(b'"cpu_op", "name"', b'"cpu_op" "name"', 1)
    ),
    "duplicate key": lambda made: (
        json.dumps({"traceEvents": made}).encode().replace(b'"tid": 7,', b'"tid": 7, "tid": 7,')
    ),
    "no end": lambda made: json.dumps({"traceEvents": made}).encode()[:-2],
    "time is text": lambda made: json.dumps({"traceEvents": [made[0] | {"ts": "10"}, *made[1:]]}).encode(),
    "no time": lambda made: json.dumps({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}, *made]}).encode(),
    "process is text": lambda made: json.dumps({"traceEvents": [each | {"tid": "main"} for each in made]}).encode(),
    "deep arguments": lambda made: (
        json.dumps({"traceEvents": made})
        .encode()
        .replace(b'"args": {"correlation": 5}', b'"args": {"correlation": 5, "x": ' + b"[" * 900 + b"]" * 900 + b"}")
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_read_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", ODD[name](SMALL))
    trace = open_trace(path)
    assert columns_of(trace[Table.KERNELS], "start_ns", "end_ns", "name") == [(30_500, 34_750, "k<1>")]
    ran = gpuledger("report", path, "--format=json")
    assert (ran.exit_code, "Traceback" in ran.stderr) == (0, False)
    json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("nan", ["events-odd"]),
        ("no end", ["trace-cut-off"]),
        ("no time", ["events-untimed"]),
        ("unknown phase", ["events-begin-end", "events-unknown"]),
        ("broken in the middle", ["events-unreadable"]),
        ("list form", []),
    ],
)
def test_what_was_lost_is_told(name: str, codes: list[str], tmp_path: Path) -> None:
    assert [note.code for note in open_trace(saved(tmp_path / "a.json", ODD[name](SMALL))).health] == codes


def test_gzip_that_breaks_off_is_marked(tmp_path: Path) -> None:
    content = json.dumps({"traceEvents": SMALL * 2000}).encode()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(content)[:-3000])
    trace = open_trace(path)
    assert 0 < len(trace[Table.KERNELS]) < 2000
    assert [note.code for note in trace.health] == ["trace-cut-off"]


@pytest.mark.parametrize(
    ("behind", "trailing"),
    [(b"", 0), (bytes(5000), 0), (b"junk", 4), (b"\x1f", 1), (bytes(9) + b"x" * (3 << 20), 9 + (3 << 20))],
)
def test_what_stands_behind_gzip_is_counted_and_padding_is_not(behind: bytes, trailing: int, tmp_path: Path) -> None:
    content = json.dumps({"traceEvents": SMALL * 2000}).encode()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(content[:5000]) + gzip.compress(content[5000:]) + behind)
    trace = open_trace(path)
    assert len(trace[Table.KERNELS]) == 2000
    told = [(note.severity, note.code, note.count) for note in trace.health if note.code != "ids-repeated"]
    assert told == [(Severity.LOSS, "gzip-trailing", trailing)] * (trailing > 0)


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ('"distributedInfo": {"rank": 1}', '"distributedInfo": {"rank": 1}', None),
        ('"distributedInfo": {"rank": 1}', '"distributedInfo": {"rank": 2}', "distributedInfo"),
        ('"schemaVersion": 1, "schemaVersion": 2', '"traceName": "a"', "schemaVersion"),
        ('"a": 1', '"deviceProperties": [], "deviceProperties": [{"id": 0}], "a": 2', "deviceProperties, a"),
        ('"a": 1', '"traceEvents": []', "traceEvents"),
        ('"a": {"b": 1, "b": 2}', '"c": 1', None),
    ],
)
def test_a_key_that_is_given_twice_is_told(
    before: str, after: str, names: str | None, suffix: str, tmp_path: Path
) -> None:
    text = f'{{{before}, "traceEvents": {json.dumps(SMALL)}, {after}}}'.encode()
    health = open_trace(saved(tmp_path / f"a{suffix}", text)).health
    told = f"the JSON gives {names} more than once, with different values: only one of them was read"
    assert [note.sentence for note in health] == ([told] if names else [])


def test_a_second_list_of_events_that_is_too_long_to_look_at_is_counted(tmp_path: Path) -> None:
    first = json.dumps({"traceEvents": SMALL})[:-1]
    path = saved(tmp_path / "a.json", f'{first}, "traceEvents": {json.dumps(SMALL * 20_000)}}}'.encode())
    [note] = open_trace(path, limits=Limits(event_bytes=1 << 20)).health
    assert (note.code, note.count) == ("json-trailing", path.stat().st_size - len(first) - 1)


def test_bombs_do_not_explode(tmp_path: Path) -> None:
    zeros = tmp_path / "a.json.gz"
    with gzip.open(zeros, "wb") as file:
        for _ in range(40):
            file.write(b"[" + b" " * (1 << 20))
    with pytest.raises(UnreadableProfile, match="unpacks to more than"):
        open_trace(zeros, limits=Limits(unpacked_bytes=1 << 24))
    with pytest.raises(GpuledgerError):
        open_trace(zeros, limits=Limits(event_bytes=1 << 24))
    twice = tmp_path / "b.json.gz"
    twice.write_bytes(gzip.compress(gzip.compress(b"{}")))
    with pytest.raises(UnreadableProfile, match="gzipped twice"):
        open_trace(twice)


def test_archives_are_streamed(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": SMALL}).encode()
    names = ("../../rank1.json", "/rank0.json", "notes.txt", "rank2.json.gz")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        for name in names:
            content = b"hello" if name.endswith("txt") else gzip.compress(text) if name.endswith("gz") else text
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("rank0.json", "rank1.json"):
            archive.writestr(name, text)
    found = profiles_in(tmp_path / "a.tar.gz")
    assert [each.split("::")[1] for each in found] == ["../../rank1.json", "/rank0.json", "rank2.json.gz"]
    for each in (*found, *profiles_in(tmp_path / "a.zip")):
        assert len(open_trace(each)[Table.KERNELS]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "a.zip"]
    with pytest.raises(UnreadableProfile, match="holds 3 traces"):
        open_trace(tmp_path / "a.tar.gz")
    with pytest.raises(UnreadableProfile, match="holds no member"):
        open_trace(f"{tmp_path / 'a.zip'}::nothing")
    (tmp_path / "b.tar.gz").write_bytes((tmp_path / "a.tar.gz").read_bytes()[:-200])
    (tmp_path / "b.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:-20])
    for broken in ("b.tar.gz", "b.zip"):
        ran = gpuledger("report", tmp_path / broken)
        assert (ran.exit_code, ran.stderr.startswith("error: "), "Traceback" in ran.stderr) == (1, True, False)


def test_a_trace_without_gpu_work_says_so(tmp_path: Path) -> None:
    trace = open_trace(saved(tmp_path / "a.json", [OP]))
    with pytest.raises(NothingRecorded):
        build_report(trace, "a", Selection())


def test_the_start_is_that_of_the_first_event(tmp_path: Path) -> None:
    base = 1_751_410_836 * 10**9
    later = [each | {"ts": each["ts"] + 86_400 * 10**6} for each in SMALL]  # type: ignore[operator]
    assert open_trace(saved(tmp_path / "a.json", later, baseTimeNanoseconds=base)).origin.started_utc == (
        "2025-07-02 23:00:36"
    )
    assert open_trace(saved(tmp_path / "b.json", SMALL)).origin.started_utc is None


def test_mtia_is_named(tmp_path: Path) -> None:
    trace = open_trace(saved(tmp_path / "a.json", [KERNEL | {"cat": "mtia_ccp_events"}, OP]))
    assert [note.code for note in trace.health] == ["mtia"]
    assert trace.missing(Table.KERNELS)


def test_times_are_those_of_the_text() -> None:
    if not CORPUS.exists():
        pytest.skip("no corpus")
    [path] = CORPUS.glob("*ns_resolution*")
    trace = trace_of(path)
    with gzip.open(path) as file:
        listed = json.loads(file.read(), parse_float=str)["traceEvents"]
    expected = sorted(int(Decimal(each["ts"]) * 1000) for each in listed if each.get("cat") == "cuda_runtime")
    assert np.array_equal(np.sort(trace[Table.CALLS]["start_ns"]), np.array(expected))


@pytest.mark.parametrize("named", [(), (2, 2, 5)])
def test_work_that_names_no_gpu_is_put_where_most_work_is(named: tuple[int, ...], tmp_path: Path) -> None:
    """It made a GPU -1 of its own."""
    lost = KERNEL | {"args": {key: value for key, value in KERNEL_ARGS.items() if key != "device"}}
    kernels = [KERNEL | {"args": KERNEL_ARGS | {"device": number}} for number in named]
    trace = open_trace(saved(tmp_path / "a.json", [OP, CALL, lost, *kernels]))
    assert sorted(trace[Table.KERNELS]["gpu"].tolist()) == sorted([*named, 2 if named else 0])
    assert [note.code for note in trace.health] == ["gpu-not-recorded"]
    assert min(device.gpu for device in analysed(trace)) >= 0
    said = " ".join(gpuledger("info", tmp_path / "a.json").stdout.split())
    assert ("GPU, name not recorded · 1 process ·" in said, "· 1 kernel" in said) == (True, not named)


def counter(name: str, ts: float, value: float, pid: int | str = "GPU 0 Counters", key: str = "") -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {key: value}}


def counted_run(memory: str = "DRAM BW (%)") -> list[dict[str, Any]]:
    """Two kernels in turn, at 80 % and 20 % of the SMs and the other way round of DRAM, sampled every 100 us."""
    events: list[dict[str, Any]] = []
    at, busy_us = 1000, []
    for turn in range(120):
        name, length = (("k_compute", 330), ("k_memory", 570))[turn % 2]
        number = {"correlation": turn + 1}
        events += [CALL | {"ts": at - 20, "args": number}]
        own = {"ts": at, "dur": length, "name": name, "args": KERNEL_ARGS | number | {"grid": [1000, 1, 1]}}
        events += [KERNEL | own]
        busy_us += [80 if name == "k_compute" else 20] * length
        at += length
    for end in range(100, len(busy_us), 100):
        share = sum(busy_us[end - 100 : end]) / 100
        events += [counter("SM Active (%)", 1000 + end, share), counter(memory, 1000 + end, 100 - share)]
    for at in range(1000, 1000 + len(busy_us), 5000):
        events += [counter("SM Clock (MHz)", at, 1755.0), counter("Power (W)", at, 512.3)]
        events += [counter("GPU 0 Bytes", at, 2**33, pid=9, key="Bytes")]
    return events


@pytest.mark.parametrize("name", ["DRAM BW (%)", "dram__throughput.avg.pct_of_peak_sustained_elapsed"])
def test_counters_are_samples_and_say_what_kernels_use(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", counted_run(name), schemaVersion=1)
    assert Table.METRICS not in open_trace(path).tables  # read where they are asked for
    trace = open_trace(path, only=tuple(Table), where_sampled=SAMPLES)
    rows = columns_of(trace[Table.METRICS], "gpu", "name", "value")
    assert rows[:2] == [(0, "SM Active [%]", 80), (0, name.replace("(", "[").replace(")", "]"), 20)]
    assert {(0, "SM Clock [Hz]", 1_755_000_000), (0, "Power [W]", 513), (0, "Bytes [count]", 2**33)} <= set(rows)
    use = use_of_kernels(trace, 0)
    assert isinstance(use, UseOfKernels)
    levels = {kernel.name: [figure.percent for figure in kernel.figures.values()] for kernel in use.kernels}
    assert levels["k_compute"] == pytest.approx([80, 20], abs=2)
    assert levels["k_memory"] == pytest.approx([20, 80], abs=2)
    samples = gpu_samples(trace, 0)
    assert isinstance(samples, GpuSamples)
    assert set(samples.values[GpuMetric.SM_CLOCK].tolist()) == {1_755_000_000}
    report = gpuledger("report", path).stdout
    assert "at the memory roof" in report
    assert "clock 1,755 MHz" in report


@pytest.mark.parametrize(
    "odd",
    [
        counter("SM Active", 40, 1_234_567),  # cycles, not percent
        counter("DRAM BW (GB/s)", 40, 50),
        counter("GPU 0 DRAM Bytes", 40, 50, key="Bytes"),
        {"ph": "C", "name": "SM Active (%)", "pid": "GPU 0 Counters", "ts": 40, "args": {"": "much", "b": [1]}},
        {"ph": "C", "name": "SM Active (%)", "pid": "GPU 0 Counters", "ts": 40},
        counter("SM Active (%)", 40, 10.0**300),
        counter("Queue Length", 40, 3, pid=0, key="stream 7"),
    ],
)
def test_what_is_no_share_of_a_gpu_is_not_taken_for_one(odd: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", [*SMALL, odd, odd | {"ts": 50}, odd | {"ts": 60}], schemaVersion=1)
    trace = open_trace(path, only=tuple(Table))
    if Table.METRICS in trace.tables:
        assert isinstance(gpu_samples(trace, 0), NotMeasured)
    else:
        assert [note.code for note in trace.health] == ["events-unknown"]
    assert gpuledger("report", path).exit_code == 0


def test_kinds_of_events_that_are_not_known_are_counted(tmp_path: Path) -> None:
    others = [{"ph": "X", "cat": "warp_trace", "name": "w", "ts": 1, "dur": 2}] * 3
    others += [{"ph": "i", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "ts": 1}]
    ours = [{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1, "dur": 2}]
    ours += [{"ph": "i", "name": "Record Window End", "ts": 1}, {"ph": "s", "cat": "critical_path", "id": 1, "ts": 1}]
    path = saved(tmp_path / "a.json", [*SMALL, *ours, *others])
    [note] = open_trace(path).health
    assert (note.code, note.count) == ("events-unknown", 4)
    about = gpuledger("info", path).stdout
    assert "4 events are of a kind that gpuledger does not know (warp_trace, cpu_instant_event)" in about
    assert "nothing was lost" not in about
    assert not open_trace(saved(tmp_path / "b.json", [*SMALL, *ours])).health


def test_copies_of_newer_torch_say_their_way_beside_the_name(tmp_path: Path) -> None:
    args = {"device": 0, "stream": 7, "copy kind": "HtoD", "src kind": "pageable", "dst kind": "device", "bytes": 64}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "pid": 0, "tid": 7, "ts": 40, "dur": 2, "args": args}
    trace = open_trace(saved(tmp_path / "a.json", [*SMALL, copy]))
    assert columns_of(trace[Table.COPIES], "kind", "src_kind", "dst_kind") == [("Host-to-Device", "Pageable", "Device")]


def autograd_event(name: str, begin: float, length: float, where: str, tid: int | str = 1) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": begin, "dur": length, "tid": tid, "pid": f"{where} functions", "args": {}}


AUTOGRAD = [
    autograd_event("aten::linear", 1, 30, "CPU"),
    autograd_event("aten::addmm", 5, 20, "CPU"),
    {"name": "aten::addmm", "ph": "s", "ts": 5, "tid": 1, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda"},
    {"name": "aten::addmm", "ph": "f", "ts": 12, "tid": 0, "pid": "CUDA functions", "id": 0, "cat": "cpu_to_cuda"},
    autograd_event("aten::linear", 10, 50.5, "CUDA", 0),
    autograd_event("aten::addmm", 12, 40.25, "CUDA", 0),
    autograd_event("aten::relu", 70, 5, "CUDA", 0),
    autograd_event("rpc", 2, 3, "CPU", " node_id:1, thread_id:2 "),
]


def test_a_trace_of_the_autograd_profiler(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", json.dumps(AUTOGRAD).encode())
    trace = open_trace(path)
    assert trace.origin.tool == "torch.autograd.profiler"
    assert columns_of(trace[Table.KERNELS], "start_ns", "end_ns", "name", "gpu") == [
        (12_000, 52_250, "aten::addmm", 0),
        (70_000, 75_000, "aten::relu", 0),
    ]
    assert trace[Table.RANGES].texts("name") == ["aten::linear", "aten::addmm", "rpc"]
    assert [note.code for note in trace.health] == ["times-of-operators"]
    assert "1 operators that hold others" in gpuledger("info", path).stdout
    check_balance(analysed(trace)[0])


def test_a_trace_of_the_autograd_profiler_on_the_host_holds_no_gpu_work(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", json.dumps(AUTOGRAD[:2]).encode())
    assert "no GPU work was recorded" in gpuledger("report", path).stderr
    assert len(open_trace(path)[Table.RANGES]) == 2


def test_a_built_in_function_that_threw_ends_where_it_began() -> None:
    """torch sees no exception of such a function, and lets it last to the end; who called it had ended before."""
    codes = {"python": 0, "train.py(3): main": 1, "train.py(9): step": 2, "<built-in function next>": 3, "push_pop": 4}
    start, end = [0, 10, 20, 400, 20], [1000, 100, 1000, 1000, 1000]
    columns = {"pid": [7] * 5, "tid": [7] * 5, "kind": [0, 0, 0, 0, 4], "name": [1, 2, 3, 3, 3]}
    ranges = {name: np.array(column) for name, column in columns.items()}
    ranges |= {"start_ns": np.array(start) * 1000, "end_ns": np.array(end) * 1000}
    end_what_threw(ranges, codes)
    assert (ranges["end_ns"] // 1000).tolist() == [1000, 100, 20, 1000, 1000]
