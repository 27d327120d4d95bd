"""The same question about the same file is answered from what was kept; any other question never is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.cli import kept_answers
from gpuledger.cli.main import verb_named
from gpuledger.read import open_trace
from gpuledger.system.kept_files import FileState
from gpuledger.verbs import VERBS, profiles
from support.command import CAPTURES, Ran, gpuledger
from support.opened import plain


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where answers are kept, however soon they came."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GPULEDGER_CACHE", "always")
    return tmp_path / "cache" / "gpuledger" / "answers"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A file that has not changed for a minute."""
    path = tmp_path / "run.sqlite"
    shutil.copyfile(plain(CAPTURES / "decode.sqlite.xz"), path)
    return _aged(path)


def _aged(path: Path) -> Path:
    before = path.stat().st_mtime - 60
    os.utime(path, (before, before))
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The profiles that are opened, and so not answered about from what was kept."""
    names: list[str] = []
    opened = open_trace

    def noted(path: str | Path, **options: object) -> object:
        names.append(Path(path).name)
        return opened(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(profiles, "open_trace", noted)
    monkeypatch.setattr(FileState, "was_settled", lambda *_: True)  # a copy changed its times just now
    return names


QUESTIONS: dict[str, tuple[str, ...]] = {
    "report": ("report",),
    "a brief one": ("report", "--brief"),
    "JSON": ("report", "--format=json"),
    "CSV, with remarks": ("phases", "--format=csv"),
    "Chinese": ("report", "--lang=zh"),
    "a page": ("gaps", "--format=html"),
    "exact numbers": ("gaps", "--raw"),
    "a stretch": ("gaps", "--time=0:100ms"),
    "info": ("info",),
    "NVIDIA's tables": ("stats", "--report=cuda_api_sum"),
    "SQL": ("query", "SELECT count(*) FROM kernels"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_question_has_the_same_answer_and_reads_nothing(
    question: str, folder: Path, profile: Path, reads: list[str]
) -> None:
    verb, *options = QUESTIONS[question]
    first = gpuledger(verb, profile, *options)
    assert len(reads) == len(list(folder.iterdir())) == 1
    assert gpuledger(verb, profile, *options) == first
    assert len(reads) == 1
    assert gpuledger(verb, profile, *options, "--no-cache") == first
    assert len(reads) == 2


def test_no_two_questions_share_an_answer(folder: Path, profile: Path, reads: list[str]) -> None:
    answers = {name: gpuledger(verb, profile, *options) for name, (verb, *options) in QUESTIONS.items()}
    assert len(reads) == len(QUESTIONS)
    assert len({answer.stdout for answer in answers.values()}) == len(QUESTIONS)
    for columns in ("90", "120"):
        gpuledger("report", profile, COLUMNS=columns)
    assert gpuledger("report", profile, "--quiet").stdout == answers["report"].stdout


def _changed_bytes(profile: Path) -> None:
    content = bytearray(profile.read_bytes())
    content[100] ^= 1
    profile.write_bytes(content)


def _changed_manifest(profile: Path) -> None:
    profile.with_name("run.capture.json").write_text("{}")


def _families(profile: Path) -> None:
    profile.with_name("pyproject.toml").write_text('[tool.gpuledger.families]\nmine = ["gemm"]\n')


CHANGES: dict[str, Callable[[Path], object]] = {
    "its bytes": _changed_bytes,
    "its times": lambda profile: os.utime(profile, (1, 1)),
    "a manifest beside it": _changed_manifest,
    "a log beside it": lambda profile: profile.with_name("run.sqlite-wal").write_bytes(b""),
    "families of the project": _families,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_asked_anew(change: str, folder: Path, profile: Path, reads: list[str]) -> None:
    gpuledger("report", profile, cwd=profile.parent)
    CHANGES[change](profile)
    gpuledger("report", profile, cwd=profile.parent)
    assert len(reads) == 2


def test_another_version_of_the_code_asks_anew(
    folder: Path, profile: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpuledger("report", profile)
    monkeypatch.setattr(kept_answers, "code_state", lambda *_: "9.9")
    gpuledger("report", profile)
    assert len(reads) == 2


@pytest.mark.parametrize("damage", [lambda content: content[:40], lambda content: content[:-1] + b"x", lambda _: b""])
def test_a_damaged_answer_is_not_told(
    damage: Callable[[bytes], bytes], folder: Path, profile: Path, reads: list[str]
) -> None:
    first = gpuledger("report", profile)
    [path] = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert gpuledger("report", profile) == first
    assert len(reads) == 2


def test_a_file_that_may_change_unseen_is_not_kept(folder: Path, profile: Path) -> None:
    profile.touch()  # within the tick of the file system's clock
    gpuledger("report", profile)
    assert not folder.exists()


def test_what_does_more_than_answer_does_it_each_time(folder: Path, profile: Path, tmp_path: Path) -> None:
    def gated() -> Ran:
        return gpuledger("diff", profile, profile, "--fail-on=step>2%", "--junit", tmp_path / "out.xml", "--force")

    assert gated() == gated()
    assert (tmp_path / "out.xml").exists()
    refused = [gpuledger("whatif", profile, "--host=2", "--fix=NO-SUCH") for _ in range(2)]
    assert refused[0] == refused[1]
    assert refused[0].exit_code == 1
    assert not folder.exists()


def test_writing_to_a_file_is_the_same_answer(folder: Path, profile: Path, reads: list[str], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        gpuledger("gaps", profile, "-o", tmp_path / name)
    assert len(reads) == 1
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "b.json").read_text())


def test_many_at_once_all_get_the_whole_answer(folder: Path, profile: Path) -> None:
    command = [sys.executable, "-m", "gpuledger", "gaps", str(profile), "--format=json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {process.communicate()[0] for process in running}
    assert len(answers) == 1
    assert json.loads(answers.pop())["schema"] == "gpuledger.gaps/1"


def test_the_order_of_changes_is_part_of_the_question(folder: Path, profile: Path, reads: list[str]) -> None:
    changes = ("--host=2", "--speedup=gemm=3")
    one, other = (gpuledger("whatif", profile, *order) for order in (changes, changes[::-1]))
    assert len(reads) == 2
    assert one.stdout != other.stdout


def test_a_profile_of_another_rank_is_part_of_the_question(folder: Path, profile: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    other = _aged(Path(shutil.copyfile(profile, ranks / "other.sqlite")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileState, "was_settled", lambda *_: True)
        gpuledger("phases", profile, f"--ranks={ranks}")
        kept = {path.name for path in folder.iterdir()}
        assert kept
        _changed_bytes(other)
        gpuledger("phases", profile, f"--ranks={ranks}")
    assert {path.name for path in folder.iterdir()} != kept


VALUES = {
    *("anyway", "auto", "brief", "command", "control", "coverage", "device", "fix", "forwards_e2e", "forwards_mock"),
    *("graph", "hide", "host", "kernel_pattern", "language", "launch_cost", "level", "limits", "measured", "metrics"),
    *("mock_range", "named", "no_cache", "over_ns", "range_pattern", "raw", "remove", "reports", "schema"),
    *("scope_pattern", "speedup", "sql", "step_kernel", "step_range", "tier", "time_ns", "verbose", "workers"),
}
"""Parameters that are all of what they say: their value is part of the question, and there is nothing behind it."""


def test_every_parameter_is_known_to_be_a_value_a_file_or_more_than_a_question() -> None:
    """A file whose state is not looked at would be answered about from what it was."""
    parameters = {
        str(parameter.name) for name, verb in VERBS.items() if verb.answer for parameter in verb_named(name).params
    }
    known = (kept_answers.FILES, kept_answers.DOES_MORE, kept_answers.WHERE_TO, VALUES)
    assert parameters == {name for names in known for name in names}
    assert sum(map(len, known)) == len(parameters)
