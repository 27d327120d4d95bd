"""Files that are no profile, or half of one: one `error:` sentence, exit 1, nothing on stdout."""

from __future__ import annotations

import lzma
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hostile.databases import another_database, no_tables
from support.command import Ran, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal, push
from support.profiles.rocm_files import rocprof_csv


def refused(ran: Ran) -> str:
    """The first line of a refusal, after checking its form."""
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr
    body, _, hint = ran.stderr.partition("\n\n")
    assert hint == "" or hint.startswith("hint: ")
    assert all(line.startswith("       ") for line in body.splitlines()[1:])
    return body.splitlines()[0].removeprefix("error: ")


def missing(folder: Path) -> Path:
    (folder / "run.sqlite").touch()
    return folder / "rum.sqlite"


def empty(folder: Path) -> Path:
    (folder / "a.sqlite").touch()
    return folder / "a.sqlite"


def plain_text(folder: Path) -> Path:
    (folder / "a.sqlite").write_text("Time (%),Total Time (ns)\n")
    return folder / "a.sqlite"


def lfs_pointer(folder: Path) -> Path:
    (folder / "a.sqlite").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")
    return folder / "a.sqlite"


def truncated(folder: Path) -> Path:
    path = minimal(folder / "a.sqlite", KERNEL=[kernel(1, 2)] * 2000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def short_head(folder: Path) -> Path:
    (folder / "a.sqlite").write_bytes(b"SQLite format 3\0" + bytes(20))
    return folder / "a.sqlite"


def flipped(folder: Path) -> Path:
    path = minimal(folder / "a.sqlite", KERNEL=[kernel(1, 2)] * 2000)
    damaged = bytearray(path.read_bytes())
    for at in range(4096, len(damaged), 4096):
        damaged[at] ^= 0xFF  # the type of every page but the first
    path.write_bytes(damaged)
    return path


def compressed(folder: Path) -> Path:
    (folder / "a.sqlite.xz").write_bytes(lzma.compress(b"x"))
    return folder / "a.sqlite.xz"


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "a.sqlite")
    return folder / "a.sqlite"


def link_to_itself(folder: Path) -> Path:
    (folder / "a.sqlite").symlink_to(folder / "a.sqlite")
    return folder / "a.sqlite"


def device(folder: Path) -> Path:
    return Path("/dev/zero")


def one_parquet_file(folder: Path) -> Path:
    (folder / "StringIds.parquet").write_bytes(b"PAR1" + bytes(100))
    return folder / "StringIds.parquet"


CASES: dict[Callable[[Path], Path], str] = {
    missing: "rum.sqlite: no such file",
    empty: "a.sqlite: the file is empty",
    plain_text: "a.sqlite: not a profile that gpuledger can read",
    lfs_pointer: "a.sqlite: is a Git LFS pointer, not the file itself",
    truncated: "a.sqlite: truncated: ",
    short_head: "a.sqlite: truncated: 36 bytes",
    flipped: "a.sqlite: a damaged SQLite database",
    another_database: "a.sqlite: a database, but not an Nsight Systems export",
    no_tables: "a.sqlite: a database, but not an Nsight Systems export",
    compressed: "a.sqlite.xz: is compressed with xz",
    fifo: "a.sqlite: not a regular file",
    link_to_itself: "a.sqlite: cannot be opened: too many levels of symbolic links",
    device: "zero: not a regular file",
    one_parquet_file: "StringIds.parquet: is one Parquet file of an export",
    lambda folder: folder: "a-folder: is a folder, not a profile",
}


@pytest.mark.parametrize("verb", ["info", "stats"])
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_bad_file_is_refused_in_one_sentence(verb: str, make: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = tmp_path / "a-folder"
    folder.mkdir()
    assert refused(gpuledger(verb, make(folder))).startswith(CASES[make])


def test_a_near_miss_is_suggested(tmp_path: Path) -> None:
    assert f"hint: did you mean {tmp_path / 'run.sqlite'}?" in gpuledger("info", missing(tmp_path)).stderr


def test_a_file_without_permission(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)])
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    assert refused(gpuledger("info", path)) == "a.sqlite: permission denied"


@pytest.mark.parametrize(
    "name",
    ["a?mode=rwc.sqlite", "a#b.sqlite", "a%20b.sqlite", "a b'\".sqlite", "a\nb.sqlite", "日本.sqlite", "-a.sqlite"],
)
def test_odd_names_are_opened_as_they_are(name: str, tmp_path: Path) -> None:
    minimal(tmp_path / "plain.sqlite", KERNEL=[kernel(1, 2)]).rename(tmp_path / name)
    for verb in ("info", "stats"):
        assert gpuledger(verb, "--", name, cwd=tmp_path).exit_code == 0
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff.sqlite")
    minimal(tmp_path / "plain.sqlite", KERNEL=[kernel(1, 2)]).rename(path)
    assert gpuledger("info", path).exit_code == 0


def test_the_extension_does_not_matter(tmp_path: Path) -> None:
    path = minimal(tmp_path / "profile.json", KERNEL=[kernel(1, 2)])
    assert gpuledger("info", path).exit_code == 0


@pytest.mark.parametrize(
    ("report", "sought"),
    [("cuda_gpu_kern_sum", "CUPTI_ACTIVITY_KIND_KERNEL"), ("cuda_api_sum", "CUPTI_ACTIVITY_KIND_RUNTIME")],
)
def test_an_export_without_the_asked_table(report: str, sought: str, tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 1, "step")], OSRT=[call(1, 2, eventClass=27)])
    ran = gpuledger("stats", path, f"--report={report}")
    assert refused(ran).startswith(f"a.sqlite: nothing for {report}: ")
    assert sought in ran.stderr
    assert "rows: NVTX_EVENTS (1), OSRT_API (1)" in ran.stderr
    assert "hint: " in ran.stderr


def test_a_table_that_amds_profiler_did_not_record_is_not_asked_of_nvidias(tmp_path: Path) -> None:
    path = rocprof_csv(tmp_path / "run.csv")
    (tmp_path / "run_marker_api_trace.csv").unlink()
    ran = gpuledger("stats", path, "--report=nvtx_sum")
    assert refused(ran) == "run_kernel_trace.csv: nothing for nvtx_sum: no ranges were recorded"
    assert "rocprofv3 of unknown version; rows: " in ran.stderr
    assert "nsys" not in ran.stderr


def test_what_can_be_answered_is_and_the_rest_is_named(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 1, "step")])
    ran = gpuledger("stats", path)
    assert ran.exit_code == 0
    assert ":step" in ran.stdout
    assert (
        "note: cuda_gpu_kern_sum: no data: no kernels were recorded (looked for CUPTI_ACTIVITY_KIND_KERNEL)"
        in ran.stdout
    )


def test_nothing_is_written_beside_the_profile(decode: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(decode.read_bytes())
    before = (path.stat().st_mtime_ns, path.read_bytes())
    gpuledger("info", path)
    gpuledger("stats", path)
    assert os.listdir(tmp_path) == ["a.sqlite"]
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_read_only_folder_is_enough(decode: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(decode.read_bytes())
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert gpuledger("info", path).exit_code == 0
    finally:
        tmp_path.chmod(0o755)


ROCPROF = (
    b'{ "traceEvents":[{}\n,{"args":{"name":"0 CPU HIP API"},"ph":"M","pid":2,"name":"process_name"}\n'
    b',{"ts":12,"dur":3,"ph":"X","pid":2,"tid":7,"name":"hipLaunchKernel","args":{"BeginNs":"12000","EndNs":"15000",'
    b'"DurationNs":"3000"}}\n], "otherData": {} }'
)
RPD = (
    b'[ {}\n,{"name": "process_name", "ph": "M", "pid":"0","args":{"name":"GPU0"}}\n'
    b',{"name":"thread_name","ph":"M","pid":"9","tid":"9","args":{"name":"Hip 9"}}\n'
    b',{"pid":"0","tid":"0","name":"gemm","ts":"12","dur":"3","ph":"X","args":{"desc":"KernelExecution"}}\n]'
)
XLA = (
    b'{"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},'
    b'{"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":2,"name":"loop_add_fusion"}]}'
)
VIZTRACER = (
    b'{"traceEvents":[' + b'{"ph":"X","cat":"FEE","name":"f","pid":1,"tid":1,"ts":1,"dur":2},' * 2000 + b"{}],"
    b'"viztracer_metadata":{}}'
)
MTIA = (
    b'{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2},'
    b'{"ph":"X","cat":"mtia_ccp_events","name":"matmul","pid":2,"tid":1,"ts":1,"dur":2}]}'
)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(ROCPROF, "is a trace of AMD's rocprof", id="rocprof"),
        pytest.param(RPD, "is a trace of AMD's rpd (rocmProfileData)", id="rpd"),
        pytest.param(XLA, "is a trace of JAX's or TensorFlow's profiler", id="xla"),
        pytest.param(VIZTRACER, "is a trace of VizTracer, which records Python and no GPU", id="viztracer"),
        pytest.param(MTIA, "what was recorded ran on an MTIA accelerator, not on a GPU", id="mtia"),
        pytest.param(b'{"rocprofiler-sdk-tool": []}', "the profile holds no events", id="rocprofv3, of nothing"),
        pytest.param(
            b'{"rocprofiler-sdk-tool": [{"agents": 1}]}', "a result of rocprofv3 that is not whole", id="rocprofv3"
        ),
        pytest.param(b"\n\x10\x12\x0e/host:metadata", "the profile holds no events", id="xplane"),
        pytest.param(b"\n\x06P\x01h\x01P\x01", "is a Perfetto trace, and holds no GPU work", id="perfetto"),
        pytest.param(
            b'{"traceEvents":[{"ph":"X","cat":"v8","name":"f","pid":1,"tid":1,"ts":1,"dur":2}]}',
            "a Chrome trace, but not of torch.profiler",
            id="a browser's",
        ),
    ],
)
def test_a_file_of_another_tool_is_refused_as_what_it_is(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    ran = gpuledger("report", str(tmp_path / "a.json"))
    assert refused(ran).startswith(f"a.json: {what}")
    assert "no GPU work was recorded" not in ran.stderr
    assert "hint: " in ran.stderr


def test_a_database_of_amds_tools_without_events_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rocpd_info_agent_0a1b (id INTEGER)")
    assert "a.db: the profile holds no events" in refused(gpuledger("report", str(path)))
