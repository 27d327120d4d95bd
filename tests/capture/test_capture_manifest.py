"""What a capture writes down: never the whole environment, never a secret, always a whole file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.capture.manifest import (
    INTERRUPTED,
    CaptureCheck,
    Commit,
    Manifest,
    RecordedFile,
    commit_of,
    environment,
    shareable,
    utc,
    write_manifest,
)
from gpuledger.capture.secrets import WITHHELD, looks_secret
from gpuledger.errors import OutputRefused
from gpuledger.json_types import builtins
from gpuledger.system.machine import InstalledGpu, Machine
from support.pages.schemas import schema_of

SCHEMA = schema_of("capture")
BEGUN = Manifest(
    "nsys",
    {"gpuledger": "1", "nsys": "2025.3.2"},
    ("steady",),
    ("./a",),
    (("nsys", "profile", "./a"),),
    ("gpuledger",),
    utc(0),
)


def test_a_manifest_is_a_document(tmp_path: Path) -> None:
    gpu = InstalledGpu(0, "NVIDIA H200", 150_754_820_096, 1980, None, 700_000)
    whole = replace(
        BEGUN,
        machine=Machine("580.65", "13.0", (gpu,), ""),
        git=Commit("a" * 40, is_dirty=True),
        via=("ssh", "host"),
        state=INTERRUPTED,
        files=(RecordedFile("run.nsys-rep", 12),),
        checks=(CaptureCheck("GPU work", "PASS", "12 kernels", ""),),
        seconds=1.23456,
        exit_code=130,
    )
    for each in (BEGUN, whole):
        write_manifest(each, tmp_path / "run.capture.json")
        found = json.loads((tmp_path / "run.capture.json").read_text())
        SCHEMA.validate(found)
        assert found["started_utc"] == "1970-01-01T00:00:00.000Z"
    assert found["machine"]["gpus"][0]["highest_sm_mhz"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["run.capture.json"]


def test_a_manifest_is_for_its_owner_alone_and_holds_no_secret_of_the_prefix(tmp_path: Path) -> None:
    via = ("kubectl", "--token", "hush", "exec", "pod", "--")
    write_manifest(replace(BEGUN, via=via), tmp_path / "run.capture.json")
    assert (tmp_path / "run.capture.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "run.capture.json").read_text())["via"][1:3] == ["--token", WITHHELD]


@given(st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=2))
def test_any_text_can_be_written_down(words: list[str], variables: dict[str, str]) -> None:
    document = json.loads(json.dumps(builtins(shareable(replace(BEGUN, command=tuple(words), environment=variables)))))
    SCHEMA.validate(document)
    json.dumps(document).encode()


def test_text_that_is_none_does_not_break_the_file(tmp_path: Path) -> None:
    write_manifest(replace(BEGUN, command=("a\udc80b",)), tmp_path / "run.capture.json")
    assert json.loads((tmp_path / "run.capture.json").read_text())["command"] == ["a\udc80b"]


def test_a_place_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputRefused, match="cannot be written to: no such file or directory"):
        write_manifest(BEGUN, tmp_path / "nowhere" / "run.capture.json")


def test_only_listed_variables_are_kept() -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "TOKENIZERS_PARALLELISM": "false",
        "RANK": "3",
        "HOME": "/home/user",
        "AWS_PROFILE": "me",
        "NMOE_DEEPEP_LOW_LATENCY": "1",
        "TORCH_HUB_TOKEN": "hush",
        "HF_TOKEN": "hush",
    }
    kept = environment(variables)
    assert set(kept) == {
        *("CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "PYTORCH_ALLOC_CONF", "TOKENIZERS_PARALLELISM", "RANK"),
        "TORCH_HUB_TOKEN",
    }
    assert kept["TORCH_HUB_TOKEN"] == WITHHELD
    more = environment(variables, ["NMOE_*", "HF_TOKEN", "NOT_SET"])
    assert more["NMOE_DEEPEP_LOW_LATENCY"] == "1"
    assert more["HF_TOKEN"] == WITHHELD


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,12}", fullmatch=True), st.just("the value"), max_size=8))
def test_nothing_unlisted_or_secret_is_ever_kept(variables: dict[str, str]) -> None:
    everything = environment(variables, ["*"])
    assert set(everything) == set(variables)
    assert all(value == WITHHELD for name, value in everything.items() if looks_secret(name))


def test_the_commit_and_what_differs_from_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert commit_of(tmp_path) is None
    git("init", "-q")
    assert commit_of(tmp_path) is None
    (tmp_path / "a").touch()
    git("add", "a")
    git("commit", "-q", "-m", "one")
    found = commit_of(tmp_path)
    assert found is not None
    assert (len(found.commit), found.is_dirty) == (40, False)
    (tmp_path / "a").write_text("changed")
    assert commit_of(tmp_path) == Commit(found.commit, is_dirty=True)


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) is None
