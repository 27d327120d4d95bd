"""The store of a history: what `history add` keeps, what DuckDB reads, damaged files, many writers; what is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet
import pytest

from gpuledger.analyse.diff.baseline import baseline_content
from gpuledger.verbs.run_store import RunFacts, add_run, read_store
from support.command import gpuledger
from support.pages.chinese_text import CJK
from support.traces.diff_sides import kernel, side

GEMM, NORM = "ampere_gemm_64x64", "rms_norm"


def saved(folder: Path, name: str, gemm_ns: int) -> str:
    """A run of ten steps of 1 ms and more, of which the GEMM takes so much, as a baseline."""
    lengths = [1_000_000 + gemm_ns + 100 * step for step in range(10)]
    run = side(lengths, [kernel(GEMM, 10, 10 * gemm_ns), kernel(NORM, 10, 500)], name=name)
    path = folder / f"{name}.json"
    path.write_bytes(baseline_content(run))
    return str(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve commits; the GEMM is slower from the seventh on."""
    folder = tmp_path_factory.mktemp("history")
    files = [saved(folder, "fast", 400_000), saved(folder, "slow", 600_000)]
    for number in range(12):
        facts = RunFacts(f"c{number:02}", f"2026-01-{number + 1:02}T00:00:00.000Z", "node1")
        add_run([files[number >= 6]], folder / "store", facts)
    return folder / "store"


def shown(store: Path, *words: str) -> str:
    ran = gpuledger("history", *words, f"--store={store}")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def test_a_run_keeps_its_figures_and_duckdb_reads_them_all(store: Path) -> None:
    rows = duckdb.execute(
        f"SELECT commit, value, low, high FROM '{store}/*.parquet' WHERE figure = 'step' ORDER BY date_utc"
    ).fetchall()
    assert [row[0] for row in rows] == [f"c{number:02}" for number in range(12)]
    assert {row[1] for row in rows} == {1_400_400.0, 1_600_400.0}
    assert all(low <= value <= high for _, value, low, high in rows)
    figures = {row[0] for row in duckdb.execute(f"SELECT DISTINCT figure FROM '{store}/*.parquet'").fetchall()}
    assert figures >= {"step", "launches", "line:compute.gemm", "line:idle.host_code"}


def test_the_trend_names_the_commit(store: Path) -> None:
    said = shown(store, "trend")
    assert "step: ▁▁▁▁▁▁██████\n" in said
    assert "Code: +14.3 % at c06." in said
    tables = json.loads(shown(store, "trend", "--format=json"))
    [change] = tables["changes"]
    assert (change["verdict"], change["last_before"], change["first_after"]) == ("code", "c05", "c06")
    assert (change["before_ns"], change["after_ns"]) == (1_400_400, 1_600_400)
    assert [row["value_ns"] for row in tables["runs"]] == [1_400_400] * 6 + [1_600_400] * 6
    assert shown(store, "trend", "--format=csv").startswith("verdict,")
    assert CJK.search(shown(store, "trend", "--lang=zh"))


def test_a_figure_by_a_part_of_its_name_and_one_that_is_not_there(store: Path) -> None:
    assert "compute: gemm: ▁▁▁▁▁▁██████" in shown(store, "trend", "gemm")
    ran = gpuledger("history", "trend", "nothing", f"--store={store}")
    assert ran.exit_code == 1
    assert "no figure 'nothing'" in ran.stderr


def test_blame_says_what_moved(store: Path) -> None:
    said = shown(store, "blame")
    assert "time per call: +200 us" in said
    assert f"kernel {GEMM}: 400 -> 600 us" in said
    assert re.search(r"compute: gemm +400 us +600 us +\+200 us", said)
    comment = shown(store, "blame", "--comment")
    assert comment.startswith("<!-- gpuledger -->\n\n### gpuledger: step over 12 runs\n")
    assert "| code | c05 | c06 | 1.40 ms | 1.60 ms | +14.3 % |" in comment
    assert "Nothing changed launches beyond noise." in shown(store, "blame", "launches")


def test_one_run_shows_neither_a_change_nor_noise(store: Path, tmp_path: Path) -> None:
    [first, *_] = sorted(store.iterdir())
    (tmp_path / first.name).write_bytes(first.read_bytes())
    assert "Runs: 1, too few to tell a change from noise." in shown(tmp_path, "trend")
    assert "Runs: 1, too few to tell a change from noise." in shown(tmp_path, "blame")
    assert "Runs: 12; changes beyond noise: 1; from run to run it varies by 0.0 %." in shown(store, "trend")


def test_a_damaged_file_is_named_and_left_out(store: Path, tmp_path: Path) -> None:
    for path in store.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files = sorted(tmp_path.iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-30])
    files[1].write_bytes(b"nonsense")
    files[2].rename(tmp_path / "copy.parquet")
    duckdb.sql(f"COPY (SELECT 1 AS one) TO '{tmp_path / 'other.parquet'}'")
    held = read_store(tmp_path)
    assert len(held.runs) == 9
    assert len(held.damaged) == 4
    assert gpuledger("history", "show", f"--store={tmp_path}").stdout.count("Left out, as it cannot be read:") == 4
    health = json.loads(shown(tmp_path, "trend", "--format=json"))["health"]
    assert [note["severity"] for note in health] == ["loss"] * 4


def test_figures_that_are_none_and_names_that_nobody_knows(store: Path, tmp_path: Path) -> None:
    [first, second, *_] = sorted(store.iterdir())
    for path, change in ((first, "value * 'nan'::DOUBLE AS value"), (second, "'line:\x1b[2J' AS figure")):
        duckdb.execute(f"COPY (SELECT * REPLACE ({change}) FROM '{path}') TO '{tmp_path / path.name}'")
    held = read_store(tmp_path)
    assert (len(held.runs), len(held.damaged)) == (1, 1)
    assert "\x1b" not in shown(tmp_path, "trend")


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    profile = saved(tmp_path, "run", 1000)
    facts = RunFacts("same", "2026-01-01T00:00:00.000Z")
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: add_run([profile], tmp_path / "store", facts)[1].stem, range(12)))
    assert len(set(runs)) == 12
    assert {path.stem for path in (tmp_path / "store").iterdir()} == set(runs)
    assert len(read_store(tmp_path / "store").runs) == 12


def test_a_real_profile_with_its_phases(unpacked: object, tmp_path: Path) -> None:
    profile = unpacked("decode.sqlite")  # type: ignore[operator]
    ran = gpuledger("history", "add", str(profile), f"--store={tmp_path}", "--commit=none", "--clock=1500")
    assert ran.exit_code == 0, ran.stderr
    [run] = read_store(tmp_path).runs
    assert (run.commit, run.clock_hz, run.gpu) == ("none", 1.5e9, "NVIDIA H200")
    assert run.tool.startswith("nsys 20")
    assert any(name.startswith("phase:") for name in run.figures)
    assert sum(figure.value for name, figure in run.figures.items() if name.startswith("line:")) > 0


def test_what_is_no_store(tmp_path: Path) -> None:
    ran = gpuledger("history", "show", f"--store={tmp_path / 'none'}")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "is no folder" in ran.stderr
    assert "holds no runs" in gpuledger("history", "trend", f"--store={tmp_path}").stderr


def test_a_manifest_of_anybodys_names_no_file_and_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands beside a profile is as untrusted as the profile."""
    profile = saved(tmp_path, "run", 1000)
    hostile = {"started_utc": "../../../x", "git": {"commit": "--output=/tmp/x"}, "presets": 3 * [None]}
    monkeypatch.setattr("gpuledger.verbs.run_store.manifest_of", lambda _: hostile)
    _, path = add_run([profile], tmp_path / "store", RunFacts())
    assert path.parent == tmp_path / "store"
    [run] = read_store(tmp_path / "store").runs
    assert not run.commit.startswith("-")
    _, path = add_run([profile], tmp_path / "store", RunFacts("--output=/tmp/x"))
    assert path.is_file()
    assert len(read_store(tmp_path / "store").runs) == 2


def test_git_names_the_commits_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve commits, two of them without a run, the slow one among them; runs are added in another order."""
    files = [saved(tmp_path, "fast", 400_000), saved(tmp_path, "slow", 600_000)]
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q"], check=True)
    for number in range(12):
        when = {"GIT_COMMITTER_DATE": f"2026-01-{number + 1:02}T00:00:00Z"}
        words = ["git", *author, "commit", "-q", "--allow-empty", "-m", f"Change {number}"]
        subprocess.run(words, check=True, env={**os.environ, **when})
    for number in (11, 0, 1, 2, 3, 4, 7, 8, 9, 10):
        add_run([files[number >= 6]], tmp_path / "store", RunFacts(f"HEAD~{11 - number}"))
    assert [run.subject for run in read_store(tmp_path / "store").runs][4:6] == ["Change 4", "Change 7"]
    said = shown(tmp_path / "store", "blame")
    assert re.search(r"Code: \+14\.3 % at [0-9a-f]{10} Change 7\.", said)
    assert re.search(r"Commits in between: \w+ Change 7; \w+ Change 6; \w+ Change 5\.", " ".join(said.split()))


@pytest.mark.parametrize("value", [1e308, 1e-320, -1.0, 2.0**70])
def test_a_figure_that_no_run_has_is_not_ours(store: Path, tmp_path: Path, value: float) -> None:
    """The trend over figures at the ends of what a float holds was an internal error."""
    [first, *_] = sorted(store.iterdir())
    duckdb.execute(f"COPY (SELECT * REPLACE ({value!r}::DOUBLE AS value) FROM '{first}') TO '{tmp_path / first.name}'")
    held = read_store(tmp_path)
    assert (held.runs, len(held.damaged)) == ((), 1)


def test_a_few_bytes_that_unpack_to_gigabytes_and_a_pipe_are_left_out(store: Path, tmp_path: Path) -> None:
    [first, *_] = sorted(store.iterdir())
    rows = pyarrow.parquet.read_table(first)
    rows = pyarrow.concat_tables([rows] * (9_000 // len(rows)))
    units = pyarrow.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), pyarrow.array(["x" * 1_000_000]))
    table = rows.set_column(rows.column_names.index("unit"), "unit", units)
    pyarrow.parquet.write_table(table, tmp_path / first.name, store_schema=False)
    os.mkfifo(tmp_path / "pipe.parquet")  # who opens it waits for a writer
    held = read_store(tmp_path)
    assert [why.partition(": ")[2] for why in held.damaged] == ["unpacks to more than 64 MiB", "is no file"]
