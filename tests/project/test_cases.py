"""The index of cases: every command that runs on files of the repository is run, and its figures stand in the output.

Figures in brackets are worked out by hand, or of another command. Of the notes' tables, which are published, the totals
are here. "The same" is the command of the row above. Left out are rows that record or measure, and public recordings.
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
NOTES = (
    {
        "cuda_api_sum": {
            "cudaMemcpyAsync": (475600, 2613668540),
            "cudaStreamSynchronize": (442800, 1778504126),
            "cudaLaunchKernel": (253800, 1662288454),
        },
        "nvtx_sum": {
            ":combine_single": (200, 7024131684),
            ":dispatch_single": (200, 6526328065),
            ":compute_loop": (200, 4208569565),
        },
    },
    {
        "cuda_api_sum": {
            "cudaMemcpyAsync": (559800, 2318022480),
            "cudaStreamSynchronize": (494200, 2174905673),
            "cudaLaunchKernel": (189000, 907236987),
        },
        "nvtx_sum": {
            ":combine_single": (200, 5945415861),
            ":dispatch_single": (200, 5521849413),
            ":compute_batched_gemm": (200, 3173195501),
        },
    },
    {
        "nvtx_sum": {
            ":combine_all2all": (50, 778325358),
            ":dispatch_all2all": (50, 622989600),
            "NCCL:ncclCommDestroy": (2, 470919087),
            "NCCL:ncclCommInitRankConfig": (2, 394972986),
            ":compute_loop": (50, 255113716),
            "NCCL:ncclGroupEnd": (300, 109803916),
        }
    },
    {
        "nvtx_sum": {
            ":combine_all2all": (50, 759416437),
            ":dispatch_all2all": (50, 629181232),
            "NCCL:ncclCommDestroy": (2, 413897143),
            "NCCL:ncclCommInitRankConfig": (2, 374980291),
            ":compute_batched_gemm": (50, 321413433),
            "NCCL:ncclGroupEnd": (300, 109350991),
        }
    },
)
"""What the notes on an MoE layer published of each of their runs: calls and ranges, with instances and time."""
RECORDS = {"bench", "capture", "doctor", "export", "run", "time", "view"}


def rows() -> list[tuple[str, tuple[str, ...], str]]:
    """What a document asks, the commands that can be run here, and the answer."""
    found, before = list[tuple[str, tuple[str, ...], str]](), tuple[str, ...]()
    for line in (ROOT / "docs" / "cases" / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        commands = tuple(re.findall(r"`gpuledger ([^`]+)`", cells[1])) if len(cells) == 3 else ()
        if len(cells) == 3 and re.fullmatch(r"the same(, (\*[^*]+\*|under \w+|by \w+|`--[^`]+`))*", cells[1]):
            options = "".join(f" {option}" for option in re.findall(r"`(--[^`]+)`", cells[1]))
            commands = tuple(command + options for command in before)
        else:
            before = commands
        if commands and all(can_run(shlex.split(command)) for command in commands):
            found.append((cells[0], commands, cells[2]))
    return found


def notes() -> str:
    """The notes' tables as `nsys stats` prints them; of what they do not need, the mean."""
    heads = {
        "cuda_api_sum": ("CUDA API Summary", "Num Calls", "Name"),
        "nvtx_sum": ("NVTX Range Summary", "Instances", "Range"),
    }
    lines = list[str]()
    for tables in NOTES:
        for report, entries in tables.items():
            title, count, name = heads[report]
            style = ["Style"] if report == "nvtx_sum" else []
            head = ["Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
            rows = [[*head, *style, name]]
            rows.append(["-" * max(len(cell), 30) for cell in rows[0]])
            whole = sum(total for _, total in entries.values())
            for called, (calls, total) in entries.items():
                mean = f"{total / calls:.1f}"
                figures = [f"{100 * total / whole:.1f}", str(total), str(calls), mean, mean, str(total // calls)]
                rows.append([*figures, str(total // calls), "0.0", *(["PushPop"] if style else []), called])
            lines += ["", f" ** {title} ({report}):", ""]
            lines += [" " + "  ".join(cell.ljust(30) for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def can_run(words: list[str]) -> bool:
    named = [word.rpartition("=")[2] for word in words[1:] if re.search(r"\.(?!\d)\w+(?:::\d)?$", word)]
    return (
        words[0] not in RECORDS and bool(named) and all(name in FILES or name.startswith("notes.txt") for name in named)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "serve").mkdir()
    (folder / "notes.txt").write_text(notes())
    for name, packed in FILES.items():
        (folder / name).write_bytes(lzma.decompress((ROOT / "captures" / packed).read_bytes()))
    return folder


@cache
def said_of(command: str, folder: Path) -> str:
    ran = gpuledger(*shlex.split(command), cwd=folder, COLUMNS="200")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_most_questions_of_the_documents_can_be_asked_here() -> None:
    assert len(rows()) >= 60


@pytest.mark.parametrize(("asked", "commands", "answer"), rows())
def test_the_answer_of_a_case_is_what_the_command_says(
    asked: str, commands: tuple[str, ...], answer: str, folder: Path
) -> None:
    said = "".join(said_of(command, folder) for command in commands)
    told = re.sub(r"`[^`]*`|\([^)]*\)", "", answer)
    figures = [figure.rstrip(",") for figure in re.findall(r"\d[\d,]*(?:\.\d+)?", told)]
    assert [figure for figure in figures if figure not in said] == [], asked
