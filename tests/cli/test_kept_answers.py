"""The same question about the same file is answered from what was kept; any other question never is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.cli import kept_answers
from gpuledger.cli.main import verb_named
from gpuledger.read import open_trace
from gpuledger.read.cache.cached_open import finish_writing
from gpuledger.system.kept_files import FileState
from gpuledger.verbs import VERBS, profiles
from support.command import CAPTURES, PATIENCE_S, ROOT, Ran, gpuledger
from support.profiles.opened import plain


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
    "CSV, with remarks": ("stats", "--format=csv"),
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
    uncached = gpuledger(verb, profile, *options, "--no-cache")
    assert uncached.stdout == re.sub("kept in the cache: .*\n", "", first.stdout)
    assert uncached.stderr == first.stderr
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
    soon = time.time() + 60  # however slow this machine is, within the tick of the file system's clock
    os.utime(profile, (soon, soon))
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
        gpuledger("ranges", profile, f"--ranks={ranks}")
        kept = {path.name for path in folder.iterdir()}
        assert kept
        _changed_bytes(other)
        gpuledger("ranges", profile, f"--ranks={ranks}")
    assert {path.name for path in folder.iterdir()} != kept


VALUES = {
    *(
        "anyway",
        "auto",
        "undecided",
        "brief",
        "comment",
        "control",
        "coverage",
        "device",
        "by_launch",
        "phases",
        "rank",
        "exporter",
        "fix",
        "formats",
        "forwards_e2e",
        "forwards_mock",
        "light",
        "reachable",
    ),
    *(
        "gpu_hour_price",
        "graph",
        "hide",
        "host",
        "kernel_pattern",
        "language",
        "launch_cost",
        "level",
        "limits",
        "measured",
        "metrics",
    ),
    *("mock_range", "no_cache", "least_ns", "range_pattern", "raw", "remove", "reports", "schema"),
    *("range", "speedup", "sql", "step_kernel", "step_range", "tier", "time", "verbose", "workers"),
}
"""Parameters that are all of what they say: their value is part of the question, and there is nothing behind it."""


def test_every_parameter_is_known_to_be_a_value_a_file_or_more_than_a_question() -> None:
    """A file whose state is not looked at would be answered about from what it was."""
    parameters = {
        str(parameter.name) for name, verb in VERBS.items() if verb.answers for parameter in verb_named(name).params
    }
    known = (kept_answers.FILES, kept_answers.DOES_MORE, kept_answers.WHERE_TO, VALUES)
    assert parameters == {name for names in known for name in names}
    assert sum(map(len, known)) == len(parameters)


ASKED = ("report", "gaps", "steps", "memory", "ranges", "ops", "stats", "kernels", "fleet")
SECOND = {
    **{verb: (verb, "RUN") for verb in ASKED},
    "whatif": ("whatif", "RUN", "--host=2"),
    "query": ("query", "RUN", "SELECT count(*) FROM kernels"),
    "diff": ("diff", "RUN", "RUN"),
    "align": ("align", "RUN", "RUN", "--range=.*"),
    "info": ("info", "RUN"),  # which says what is kept: asked after the others, it has no news
}


def test_no_verb_loads_what_reads_profiles_for_an_answer_that_is_kept(folder: Path, profile: Path) -> None:
    assert SECOND.keys() == {verb for verb in VERBS if VERBS[verb].answers}
    calls = [[word.replace("RUN", str(profile)) for word in call] for call in SECOND.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileState, "was_settled", lambda *_: True)
        assert [gpuledger(*call).exit_code for call in calls] == [0] * len(calls)
        finish_writing(PATIENCE_S)  # what was read, of which `info` tells
        assert gpuledger(*calls[-1]).exit_code == 0
    again = (
        "import json, sys\nfrom gpuledger.cli.main import cli\n"
        "for call in json.loads(sys.argv[1]):\n    cli.main(call, standalone_mode=False)\n"
        "sys.exit(str(sorted({'numpy', 'gpuledger.read', 'gpuledger.trace.tables'} & sys.modules.keys())))"
    )
    command = [sys.executable, "-c", again, json.dumps(calls)]
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # as the first calls had it
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    assert ran.stderr.splitlines()[-1] == "[]"


def _ranks(folder: Path, profile: Path) -> Path:
    """A profile at some depth, and one above it."""
    (folder / "node1").mkdir(parents=True)
    for name in ("a.sqlite", "node1/b.sqlite"):
        _aged(Path(shutil.copyfile(profile, folder / name)))
    return folder


def _new_file(folder: Path) -> None:
    shutil.copyfile(folder / "a.sqlite", folder / "node1" / "c.sqlite")


@pytest.mark.parametrize("change", [_new_file, lambda folder: _changed_bytes(folder / "node1" / "b.sqlite")])
@pytest.mark.parametrize("given", ["ranks", "ranks/**/*.sqlite"])
def test_a_folder_is_known_by_its_files_at_any_depth_and_a_glob_by_what_it_matches(
    given: str, change: Callable[[Path], object], folder: Path, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileState, "was_settled", lambda *_: True)
    asked = ("fleet", "--workers=0", given)
    ranks = _ranks(profile.parent / "ranks", profile)
    first = gpuledger(*asked, cwd=profile.parent)
    [kept] = folder.iterdir()
    assert gpuledger(*asked, cwd=profile.parent) == first
    assert list(folder.iterdir()) == [kept]
    change(ranks)
    gpuledger(*asked, cwd=profile.parent)
    assert list(folder.iterdir()) != [kept]


def test_a_member_of_an_archive_is_known_by_the_archive(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    archive = tmp_path / "ranks.tar"
    trace = next((ROOT / "captures" / "torch").glob("decode*.json.gz"))
    with tarfile.open(archive, "w") as packed:
        for name in ("one.json.gz", "two.json.gz"):
            packed.add(trace, name)
    one, two = (f"{archive}::{name}.json.gz" for name in ("one", "two"))
    first = gpuledger("report", one)
    assert first.exit_code == 0
    assert gpuledger("report", one) == first
    assert reads == ["ranks.tar::one.json.gz"]
    gpuledger("report", two)
    os.utime(archive, (1, 1))
    gpuledger("report", one)
    assert len(reads) == 3


def test_what_changes_while_it_is_asked_about_is_not_kept(
    folder: Path, profile: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_trace

    def changed_after(path: str | Path, **options: object) -> object:
        trace = opened(path, **options)  # type: ignore[arg-type]
        os.utime(path, (1, 1))
        return trace

    with monkeypatch.context() as patch:
        patch.setattr(profiles, "open_trace", changed_after)
        gpuledger("gaps", profile)
    assert not folder.exists()


def test_two_writers_at_once_keep_each_its_own(folder: Path, profile: Path, reads: list[str]) -> None:
    """One of them asked about the file as it was before: whoever is done last, the other's question is not answered."""
    before, answer = _question(profile), {}
    _changed_bytes(profile)
    after = _question(profile)
    for question, text in ((after, "new"), (before, "old")):
        question.keep(text, [], question)
        answer[text] = question.kept()
    assert answer == {"new": ("new", []), "old": ("old", [])}
    assert after.kept() == ("new", [])


def _question(profile: Path) -> kept_answers.AskedQuestion:
    command = verb_named("gaps")
    question = kept_answers.asked_question(command.make_context("gaps", [str(profile)]), ())
    assert question is not None
    return question


def test_answers_about_an_older_state_go(folder: Path, profile: Path, reads: list[str]) -> None:
    gpuledger("gaps", profile)
    [old] = folder.iterdir()
    os.utime(profile, (1, 1))
    gpuledger("steps", profile)
    [new] = folder.iterdir()
    assert new.name.split("-")[0] == old.name.split("-")[0]
    assert new != old


@pytest.mark.parametrize("said", ["0", "off", "no", "false", "OFF"])
def test_the_cache_can_be_switched_off_in_several_words(
    said: str, folder: Path, profile: Path, reads: list[str]
) -> None:
    for _ in range(2):
        gpuledger("gaps", profile, GPULEDGER_CACHE=said)
    assert len(reads) == 2
    assert not folder.exists()


def test_another_word_is_refused(folder: Path, profile: Path) -> None:
    ran = gpuledger("gaps", profile, GPULEDGER_CACHE="of")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: GPULEDGER_CACHE=of: no such setting of the cache\n")
    assert "hint: `GPULEDGER_CACHE=0` keeps and uses nothing" in ran.stderr


def test_info_says_what_is_kept_and_where(folder: Path, profile: Path, reads: list[str]) -> None:
    def kept(*options: str) -> dict[str, object] | None:
        found = json.loads(gpuledger("info", profile, "--format=json", *options).stdout)
        kept: dict[str, object] | None = found.get("kept")
        return kept

    assert kept("--no-cache") is None
    first = kept()
    assert first is not None
    assert (first["readings"], first["answers"], first["folder"]) == (1, 0, str(folder.parent))
    for verb in ("gaps", "kernels"):
        gpuledger(verb, profile)
    gpuledger("gaps", profile, "--raw")
    then = kept()
    assert then is not None
    assert (then["answers"], then["verbs"]) == (3, ["gaps", "kernels"])
    answers = [path for path in folder.iterdir() if "-info-" not in path.name]
    assert then["answer_bytes"] == sum(path.stat().st_size for path in answers)
    line = next(line for line in gpuledger("info", profile).stdout.splitlines() if line.startswith("kept in the cache"))
    assert re.search(r": \d readings \(.*B\), 3 answers of gaps, kernels \(.*B\), since 20.* UTC, in /", line)
