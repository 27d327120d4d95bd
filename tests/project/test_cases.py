"""The index of cases: every command that runs on files of the repository is run, and its figures stand in the output.

Figures in brackets are worked out by hand, or of another command. Left out are rows that record, measure or need a file
that is not here: the documents themselves, and what their authors recorded.
"""

from __future__ import annotations

import lzma
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from support.command import ROOT, gpuledger

FILES = {
    **{
        f"{name}.sqlite": f"nsys/{name}.sqlite.xz"
        for name in ("attn", "decode", "graph", "moe_loop", "moe_batched_gemm")
    },
    "run.sqlite": "nsys/decode.sqlite.xz",
    **{f"serve/{name}.sqlite": f"serve/{name}.sqlite.xz" for name in ("normal", "low_latency", "graph", "gloo")},
    "planned.sqlite": "ncu/planned.sqlite.xz",
    **{f"planned-{number}.ncu-rep": f"ncu/planned-{number}.ncu-rep.xz" for number in (1, 2)},
    "layer_raw.csv": "ncu/layer_raw.csv.xz",
}
RECORDS = {"bench", "capture", "doctor", "export", "run", "time", "view"}


def rows() -> list[tuple[str, tuple[str, ...], str]]:
    """What a document asks, the commands that can be run here, and the answer."""
    found = []
    for line in (ROOT / "docs" / "cases" / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        commands = tuple(re.findall(r"`gpuledger ([^`]+)`", cells[1])) if len(cells) == 3 else ()
        if commands and all(can_run(shlex.split(command)) for command in commands):
            found.append((cells[0], commands, cells[2]))
    return found


def can_run(words: list[str]) -> bool:
    named = [word.rpartition("=")[2] for word in words[1:] if re.search(r"\.(?!\d)\w+(?:::\d)?$", word)]
    return words[0] not in RECORDS and bool(named) and all(name in FILES for name in named)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "serve").mkdir()
    for name, packed in FILES.items():
        (folder / name).write_bytes(lzma.decompress((ROOT / "captures" / packed).read_bytes()))
    return folder


@cache
def said_of(command: str, folder: Path) -> str:
    ran = gpuledger(*shlex.split(command), cwd=folder, COLUMNS="200")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_most_questions_of_the_documents_can_be_asked_here() -> None:
    assert len(rows()) >= 30


@pytest.mark.parametrize(("asked", "commands", "answer"), rows())
def test_the_answer_of_a_case_is_what_the_command_says(
    asked: str, commands: tuple[str, ...], answer: str, folder: Path
) -> None:
    said = "".join(said_of(command, folder) for command in commands)
    told = re.sub(r"`[^`]*`|\([^)]*\)", "", answer)
    figures = [figure.rstrip(",") for figure in re.findall(r"\d[\d,]*(?:\.\d+)?", told)]
    assert [figure for figure in figures if figure not in said] == [], asked
