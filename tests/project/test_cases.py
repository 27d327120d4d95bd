"""The index of cases: every row is run, or says what it needs; what its answer names stands in the output.

Named are figures, words in capitals, italics, `code` and Chinese; what stands in brackets is of another command, or
worked out by hand. Captures and runbooks are planned, and of benches the options are read. Of the notes' tables, which
are published, the totals are here. "The same" is the command of the row above.
"""

from __future__ import annotations

import lzma
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gpuledger_workloads.command_lines import PARSERS
from support.command import ROOT, gpuledger
from support.profiles.corpus import corpus_file
from support.profiles.published_tables import KERNELS, NOTES, write_published_tables

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
    "decode.json.gz": "torch/decode.json.gz",
}
PUBLIC = "dlrm_kineto.tar.gz"  # of facebookresearch/param; not in the repository
NEEDS_MORE = re.compile(r"needs (a GPU|torch|a browser)|worked out|not in the repository|`tests/[\w/]+\.py`")


@dataclass(frozen=True)
class CaseRow:
    """What a document asks, our commands, and the answer."""

    asked: str
    commands: tuple[str, ...]
    answer: str

    @property
    def named(self) -> list[str]:
        """What the answer says that the commands print."""
        if "measured" in self.answer:
            return []
        told = re.sub(r"\([^)]*\)|\*\*Instead\*\*.*", "", self.answer)
        code = re.findall(r"`(?!tests/)([^`]+)`", told)
        told = re.sub(r"`[^`]*`", "", told)
        words = re.findall(r"(?<![\w-])[A-Z]{2,}(?:[ -][A-Z]{2,})+(?![\w-])|\b(?:PASS|WARN|ALIGNED)\b", told)
        figures = [figure.rstrip(",") for figure in re.findall(r"-?\d[\d,]*(?:\.\d+)?", told)]
        return [*figures, *words, *code, *re.findall(r"\*([^*]+)\*", told), *re.findall("[\u4e00-\u9fff]{2,}", told)]


def rows() -> list[CaseRow]:
    """All of them."""
    found, before = list[CaseRow](), tuple[str, ...]()
    for line in (ROOT / "docs" / "cases" / "README.md").read_text().split("## Notes on", 1)[1].splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3 or cells[1] in ("command", "---"):
            continue
        commands = tuple(re.findall(r"`gpuledger ([^`]+)`", cells[1]))
        if re.fullmatch(r"the same(, (\*[^*]+\*|under \w+|by \w+|`--[^`]+`))*", cells[1]):
            options = "".join(f" {option}" for option in re.findall(r"`(--[^`]+)`", cells[1]))
            commands = tuple(command + options for command in before)
        else:
            before = commands
        found.append(CaseRow(cells[0], commands, cells[2]))
    return found


def can_run(command: str) -> bool:
    words = shlex.split(command)
    named = [word.rpartition("=")[2] for word in words[1:] if re.search(r"\.(?!\d)\w+(?:::\d)?$", word)]
    known = {*FILES, *KERNELS, PUBLIC, "run.pftrace", "align.html"}
    if words[0] in ("capture", "run", "help"):
        return True
    reads = words[0] not in ("bench", "doctor", "time", "view")
    return reads and bool(named) and all(name in known or name.startswith("notes.txt") for name in named)


RUN = [row for row in rows() if row.commands and all(map(can_run, row.commands))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "serve").mkdir()
    write_published_tables(folder)
    for name, packed in FILES.items():
        content = (ROOT / "captures" / packed).read_bytes()
        (folder / name).write_bytes(lzma.decompress(content) if packed.endswith(".xz") else content)
    return folder


@cache
def said_of(command: str, folder: Path) -> tuple[str, int]:
    """What a command prints, and how it ends; what records is planned only."""
    verb, _, rest = command.partition(" ")
    if verb == "capture":
        tool, _, rest = rest.partition(" ")
        command = f"capture {tool} --dry-run {rest}"
    ran = gpuledger(
        *shlex.split(command), *(["--dry-run", "--size=real"] if verb == "run" else []), cwd=folder, COLUMNS="200"
    )
    return ran.stdout + ran.stderr, ran.exit_code


@pytest.mark.usefixtures("ncu_asked_once", "profiles_read_once")
@pytest.mark.parametrize("row", RUN, ids=lambda row: row.asked)
def test_the_answer_of_a_case_is_what_the_command_says(row: CaseRow, folder: Path) -> None:
    if any(PUBLIC in command for command in row.commands) and not (folder / PUBLIC).exists():
        (folder / PUBLIC).symlink_to(corpus_file(PUBLIC))
    said, codes = zip(*(said_of(command, folder) for command in row.commands), strict=True)
    assert [code != 0 for code in codes] == ["refused" in row.answer] * len(codes), said
    text = re.sub(r" \\\n\s+", " ", "\n".join(said))
    printed = re.compile(
        "|".join(rf"(?<![\d.]){re.escape(name)}(?!\d|[.,]\d)" for name in row.named) or "$", re.IGNORECASE
    )
    assert {name.lower() for name in row.named} <= {name.lower() for name in printed.findall(text)}


def test_what_is_no_finding_is_not_said(folder: Path) -> None:
    said, _ = said_of("report run.sqlite", folder)
    assert "HOST-LOAD" in said
    assert "HOST-SYNC" not in said
    assert "HOST-ALLOC" not in said


def test_every_other_row_says_what_it_needs() -> None:
    rest = [row for row in rows() if row not in RUN]
    assert [row.asked for row in rest if not NEEDS_MORE.search(row.answer)] == []
    assert [row.asked for row in RUN if "measured" in row.answer and not NEEDS_MORE.search(row.answer)] == []
    assert (len(RUN), len(rest)) >= (55, 5)


BENCHES = re.compile(r"`gpuledger (bench [^`.]+)`")


@pytest.mark.parametrize(
    "command", sorted({c for page in (ROOT / "docs" / "cases").glob("*.md") for c in BENCHES.findall(page.read_text())})
)
def test_the_options_of_a_bench_are_taken(command: str) -> None:
    _, name, *options = shlex.split(command)
    assert PARSERS[name]().parse_args(options)


def test_what_was_worked_out_by_hand_follows_from_the_notes() -> None:
    loop, batched = (tables["cuda_api_sum"] for tables in NOTES[:2])
    assigned, used, iterations = 256, 164, 200
    assert loop["cudaLaunchKernel"][0] == iterations * (3 * assigned + 3 * used + 9) == iterations * 1_269
    assert batched["cudaLaunchKernel"][0] == iterations * (3 * assigned + used + 13) == iterations * 945
    waiting = loop["cudaMemcpyAsync"][1] + loop["cudaStreamSynchronize"][1]
    assert round(100 * waiting / (waiting + loop["cudaLaunchKernel"][1]), 1) == 72.5
