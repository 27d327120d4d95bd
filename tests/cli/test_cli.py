"""The command as a user meets it: help, formats, files, errors."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.cli import main
from gpuledger.cli.main import sentence
from gpuledger.errors import UnreadableProfile
from gpuledger.present.safe_text import cut_apart, visible_lines
from gpuledger.present.views.schema import answer_types
from gpuledger.system.interruption import noted_interrupts
from gpuledger.verbs import VERBS
from support.command import gpuledger, gpuledger_process
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import kernel, minimal, push

pytestmark = pytest.mark.usefixtures("ncu_asked_once")


def test_help_lists_the_verbs() -> None:
    ran = gpuledger("--help")
    assert ran.exit_code == 0
    for name, verb in VERBS.items():
        assert f"{name} " in ran.stdout
        assert verb.help.split(".")[0][:40] in " ".join(ran.stdout.split())


def test_version() -> None:
    from importlib.metadata import version

    assert gpuledger("--version").stdout == f"gpuledger {version('gpuledger')}\n"


@given(
    st.lists(st.text("ab_…<>", max_size=40), max_size=8),
    st.integers(1, 30),
    st.sampled_from([None, lambda text: text[:5]]),
)
def test_cut_names_fit(texts: list[str], width: int, shorten: Callable[[str], str] | None) -> None:
    cut = cut_apart(texts, width, shorten)
    assert len(cut) == len(texts)
    assert all(len(each) <= width for each in cut)


def test_names_that_differ_in_the_middle_are_told_apart() -> None:
    names = [
        f"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize{tile}_stage4_execute_kernel__5x_cublas"
        for tile in ("128x256x16", "64x64x32")
    ]
    assert cut_apart(names, 32) == ["sm80_xmma_…tilesize128x256x16_s…", "sm80_xmma_…tilesize64x64x32_sta…"]


NO_TABLE_OF_A_PROFILE = {
    "explain",
    "mcp",
    "query",
    "whatif",
    "time",
    "diff",
    "align",
    "capture",
    "doctor",
    "bench",
    "run",
    "export",
    "history",
    "view",
}
"""They have tests of their own."""


@pytest.mark.usefixtures("profiles_read_once")
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in NO_TABLE_OF_A_PROFILE])
@pytest.mark.parametrize("width", [60, 80, 132])
def test_no_line_is_wider_than_the_terminal(verb: str, width: int, decode: Path, layer_report: Path) -> None:
    from gpuledger.present.safe_text import display_width as cell_len

    profile = layer_report if verb == "kernels" else decode
    ran = gpuledger(verb, profile.name, cwd=profile.parent, COLUMNS=str(width))
    assert ran.exit_code == 0
    assert max(map(cell_len, ran.stdout.splitlines())) <= width


def test_long_names_are_cut_on_a_terminal_and_whole_elsewhere(decode: Path) -> None:
    name = "nvjet_sm90_tst_128x8_64x12_4x1_v_bz_TNT"
    assert name not in gpuledger("stats", decode, COLUMNS="80").stdout
    assert "nvjet_sm90_tst_1…12_4x1_v_bz_TNT" in gpuledger("stats", decode, COLUMNS="80").stdout
    for form in ("csv", "json", "md", "text"):
        assert name in gpuledger("stats", decode, f"--format={form}").stdout.replace("\\_", "_")


def test_text_csv_markdown_and_json_hold_the_same_numbers(decode: Path) -> None:
    def read(form: str) -> str:
        return gpuledger("stats", decode, "--report=cuda_gpu_kern_sum", f"--format={form}").stdout

    rows = list(csv.DictReader(StringIO(read("csv"))))
    [report] = json.loads(read("json"))["reports"]
    assert len(report["rows"]) == len(rows) == 20
    for from_csv, from_json in zip(rows, report["rows"], strict=True):
        assert from_csv["Name"] == from_json["name"]
        assert int(from_csv["Total Time (ns)"]) == from_json["total_ns"]
        assert float(from_csv["Avg (ns)"]) == from_json["avg_ns"]
        assert float(from_csv["Time (%)"]) == from_json["time_percent"]
    for shown in map(read, ("text", "md")):
        for row in rows:
            assert row["Total Time (ns)"] in shown
            assert row["StdDev (ns)"] in shown


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [("info", ()), ("report", ()), ("stats", ("--report=nvtx_kern_sum,osrt_sum,cuda_gpu_kern_gb_sum",))],
)
@pytest.mark.parametrize("capture", ["decode", "zoo_graph"])
def test_json_is_valid_against_its_schema(
    verb: str, arguments: tuple[str, ...], capture: str, unpacked: Callable[[str], Path]
) -> None:
    profile = unpacked(f"{capture}.sqlite")
    content = gpuledger(verb, profile, *arguments, "--format=json").stdout
    schema_of(verb).validate(json.loads(content))
    assert gpuledger(verb, profile, *arguments, "--format=json").stdout == content


@pytest.mark.parametrize("verb", ["gaps", "steps", "ranges", "memory", "ops", "whatif"])
def test_the_json_of_one_question_is_valid_against_its_schema(verb: str, decode: Path) -> None:
    ran = gpuledger(verb, decode, "--format=json", *(["--speedup=gemm=2"] if verb == "whatif" else []))
    assert ran.exit_code == 0
    content = json.loads(ran.stdout)
    assert content["schema"] == f"gpuledger.{verb}/1"
    schema_of(verb if verb in answer_types() else "tables").validate(content)


def test_several_csv_tables_are_parted_by_an_empty_line(decode: Path) -> None:
    ran = gpuledger("stats", decode, "--report=cuda_gpu_kern_sum,nvtx_sum", "--format=csv", "--quiet")
    assert ran.stderr == ""
    first, second = ran.stdout.split("\n\n")
    assert first.startswith("Time (%),Total Time (ns),Instances")
    assert second.splitlines()[0].endswith("Style,Range")


@pytest.mark.parametrize(
    ("name", "start"), [("a.json", "{"), ("a.csv", "Time (%)"), ("a.md", "## CUDA"), ("a.txt", "CUDA GPU")]
)
def test_the_format_follows_the_output_file(name: str, start: str, decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("stats", decode, "--report=cuda_gpu_kern_sum", "-o", tmp_path / name)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr.splitlines()[-1] == f"Wrote {tmp_path / name}"
    assert (tmp_path / name).read_text().startswith(start)
    assert os.listdir(tmp_path) == [name]


def test_nothing_is_overwritten_unless_forced(decode: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("mine")
    ran = gpuledger("stats", decode, "-o", target)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {target}: exists already")
    assert target.read_text() == "mine"
    assert gpuledger("stats", decode, "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"


def test_an_output_that_cannot_be_written_is_one_sentence(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("stats", decode, "-o", tmp_path / "no" / "such" / "folder.csv")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "cannot be written: no such file or directory" in ran.stderr


def test_a_full_disk_leaves_no_half_file(decode: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gpuledger", "stats", str(decode), "--format=csv"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode().startswith("error: ")
    assert "Traceback" not in ran.stderr.decode()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list threads")
@pytest.mark.parametrize("own", [None, "2"])
def test_a_verb_starts_no_threads_that_it_never_uses_and_hands_nothing_on(own: str | None, decode: Path) -> None:
    """numpy would start one on each core; a program that we start later must not find our setting."""
    code = (
        f"import os; from gpuledger.cli.main import cli; cli.main(['info', {str(decode)!r}, '--no-cache', '--force', "
        "'-q', '-o', '/dev/null'], standalone_mode=False); "
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    env = {name: text for name, text in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    env |= {} if own is None else {"OPENBLAS_NUM_THREADS": own}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    threads, left = ran.stdout.split()
    assert left == str(own)
    assert own is not None or threads == "1"


def test_a_closed_pipe_is_no_error(decode: Path) -> None:
    command = f"'{sys.executable}' -m gpuledger stats {decode} --format=csv --report=nvtx_kern_sum | head -1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert ran.stdout.startswith(b"NVTX Range,Style,PID")
    assert b"Traceback" not in ran.stderr
    assert b"BrokenPipe" not in ran.stderr


def test_info_never_prints_commands_or_environment_unless_asked(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("zoo_node.sqlite")
    for form in ("text", "md", "csv", "json"):
        assert "hunter2" not in gpuledger("info", profile, f"--format={form}").stdout
        assert "hunter2" not in gpuledger("stats", profile, f"--format={form}").stdout
    shown = gpuledger("info", profile, "--verbose").stdout
    assert "hunter2" not in shown
    assert "API_TOKEN=(withheld)" in shown


def test_rows_lost_on_reading_are_told_in_every_format(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(3, "x")])
    for verb in ("info", "stats"):
        for form in ("text", "md", "json"):
            assert "1 rows of CUPTI" in gpuledger(verb, path, f"--format={form}").stdout.replace("\\_", "_")
    ran = gpuledger("stats", path, "--format=csv")
    assert "1 rows of CUPTI_ACTIVITY_KIND_KERNEL have no usable start" in ran.stderr
    assert "1 rows" not in ran.stdout


NASTY = "<script>alert(1)</script>|`a`\x1b[31m\u202e=cmd\n[/red]\0"


def test_names_are_shown_harmless_everywhere(tmp_path: Path) -> None:
    path = minimal(
        tmp_path / "a.sqlite", NVTX=[push(0, 5, NASTY), push(6, 7, "=1+1", domainId=0)], KERNEL=[kernel(1, 2)]
    )
    text = gpuledger("stats", path, "--report=nvtx_sum").stdout
    assert "\x1b" not in text
    assert "\\x1b[31m\\u202e=cmd\\x0a[/red]\\x00" in text
    markdown = gpuledger("stats", path, "--report=nvtx_sum", "--format=md").stdout
    assert "<script>" not in markdown
    assert "\\|" in markdown
    [report] = json.loads(gpuledger("stats", path, "--report=nvtx_sum", "--format=json").stdout)["reports"]
    assert report["rows"][0]["range"] == ":" + NASTY
    [_, first, _] = csv.reader(StringIO(gpuledger("stats", path, "--report=nvtx_sum", "--format=csv").stdout))
    assert first[-1] == ":" + visible_lines(NASTY)


def test_a_name_that_starts_like_a_formula_stays_text_in_csv(tmp_path: Path) -> None:
    import sqlite3

    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)])
    with sqlite3.connect(path) as database:
        database.execute("UPDATE StringIds SET value = '=HYPERLINK(1)' WHERE id = 1")
    database.close()
    assert "'=HYPERLINK(1)" in gpuledger("stats", path, "--report=cuda_gpu_kern_sum", "--format=csv").stdout


def test_an_unknown_failure_is_one_sentence_and_a_traceback_on_request(
    decode: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuledger.verbs.profiles.open_trace", lambda *_, **__: 1 / 0)
    told = gpuledger("info", decode)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("error: internal error: ZeroDivisionError")
    assert "Traceback" not in told.stderr
    traced = gpuledger("info", decode, GPULEDGER_DEBUG="1")
    assert (traced.exit_code, traced.stdout) == (1, "")
    assert traced.stderr.startswith("Traceback")
    assert traced.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_the_locale_c_prints_what_it_can(decode: Path) -> None:
    ran = gpuledger_process("report", decode, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert ran.exit_code == 0
    assert "NVIDIA H200" in ran.stdout
    assert "####################-  " in ran.stdout  # a bar
    assert "\\u" not in ran.stdout


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in NO_TABLE_OF_A_PROFILE | {"kernels", "fleet"}])
def test_a_profile_without_calls_is_answered(verb: str, tmp_path: Path) -> None:
    path = minimal(tmp_path / "run.sqlite", KERNEL=[kernel(10, 20), kernel(30, 40)], NVTX=[push(0, 50, "a")])
    ran = gpuledger(verb, path)
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_an_error_is_a_sentence_however_long_the_names_of_a_file_are() -> None:
    said = sentence(UnreadableProfile("a", found=f"table {'x' * 100_000} is bad", hint="export it again"))
    assert len(said) < 1_200
    assert "table xxx" in said
    assert "xxx is bad" in said
    assert said.endswith("hint: export it again")


def test_what_fails_after_ctrl_c_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pandas swallows a KeyboardInterrupt while it is imported, and then has no such attribute."""

    def swallows(**_: object) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("partially initialized module")

    monkeypatch.setattr(main.cli, "main", swallows)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with noted_interrupts() as interrupts:
            assert main._run(interrupts) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_a_file_that_is_not_there_is_no_verb_and_names_only_what_is_like_it(tmp_path: Path) -> None:
    (tmp_path / "attn.sqlite").touch()
    missing, misspelt = (gpuledger(tmp_path / name) for name in ("missing.sqlite", "atn.sqlite"))
    assert missing.stderr.strip().endswith("missing.sqlite: no such file")
    assert "did you mean" in misspelt.stderr
    assert "attn.sqlite?" in misspelt.stderr
