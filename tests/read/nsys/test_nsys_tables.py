"""What `nsys stats` printed is read back: CSV and text give the rows that the profile gives, and damage is told."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import NotMeasured, open_trace
from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.present.digits import cell_text
from gpuledger.present.sheet import Digits, Sheet
from gpuledger.present.views.nvidia import nvidia_rows, nvidia_sheet
from gpuledger.present.writers.markdown import table_markdown
from gpuledger.read.stats_text.headings import KNOWN
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries, runs_in
from gpuledger.trace.measured import PrintedTable, PrintedTables
from gpuledger.trace.model import Severity
from support.command import CAPTURES, NAMES, gpuledger
from support.thorough import some

API = """\
Processing [{profile}] with [/opt/nvidia/nsight-systems/2026.1.1/host-linux-x64/reports/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)          Name         \n\
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ---------------------
{rows}
"""
LOOP = """\
     43.2       2613668540     475600    5495.5    4817.0      2862   4363365      12894.5  cudaMemcpyAsync      \n\
     29.4       1778504126     442800    4016.5    3776.0      1101   4036071       6272.8  cudaStreamSynchronize
     27.5       1662288454     253800    6549.6    5948.0      3283   4718368      11992.5  cudaLaunchKernel     \n\
      0.0            27992          1   27992.0   27992.0     27992     27992          0.0  cudaDeviceSynchronize
"""
BATCHED = """\
     42.9       2318022480     559800    4140.8    3551.0      3083   2792277       5982.7  cudaMemcpyAsync      \n\
     40.3       2174905673     494200    4400.9    4357.0      1197    803828       2181.5  cudaStreamSynchronize
     16.8        907236987     189000    4800.2    4299.0      3449   2051672       7058.5  cudaLaunchKernel     \n\
"""
RANGES = """\
 ** NVTX Range Summary (nvtx_sum):

 Time (%)  Total Time (ns)  Instances   Avg (ns)    Med (ns)   Min (ns)  Max (ns)   Style        Range      \n\
 --------  ---------------  ---------  ----------  ----------  --------  --------  -------  ----------------
     39.6       7024131684        200  35120658.4  34964530.5  27930154  53978489  PushPop  :combine_single \n\
     23.7       4208569565        200  21042847.8  20968027.0  16611426  31314093  PushPop  NCCL:ncclSend
"""
DOCUMENT = f"""\
# What the loop costs

Look at `cuda_api_sum` (**Time / Calls**):

```
$ nsys stats report.nsys-rep
{API.format(profile="report.sqlite", rows=LOOP)}
{RANGES}```

再跑一下bmm:

```
{API.format(profile="report_bmm.sqlite", rows=BATCHED)}```

Twice as fast. 100 runs each.

{RANGES}
{RANGES}"""
CSV = """\
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,600,3,200.0,200.0,100,300,100.0,cudaMalloc
40.0,400,1,400.0,400.0,400,400,0.0,cudaFree
"""


def written(folder: Path, text: str | bytes, name: str = "kept.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def api(run: PrintedTables) -> dict[str, tuple[int, int | None]]:
    return {row.name: (row.count, row.total_ns) for row in run.tables["cuda_api_sum"].rows}


def codes(run: PrintedTables) -> dict[str, int]:
    return {note.code: note.count for note in run.health}


def test_a_document_of_two_runs_answers_what_fell(tmp_path: Path) -> None:
    before, after = (open_summaries(f"{written(tmp_path, DOCUMENT)}::{run}") for run in (1, 2))
    assert (before.profile, after.profile) == ("report.sqlite", "report_bmm.sqlite")
    (calls, total), (fewer, less) = (api(run)["cudaLaunchKernel"] for run in (before, after))
    assert (calls, fewer) == (253_800, 189_000)
    assert total is not None
    assert less is not None
    assert f"{100 * (fewer / calls - 1):.1f} {100 * (less / total - 1):.1f}" == "-25.5 -45.4"


def test_a_document_is_split_where_a_report_comes_again(tmp_path: Path) -> None:
    path = written(tmp_path, DOCUMENT, "notes.md")
    runs = runs_in(path)
    assert [(run.name, list(run.tables)) for run in runs] == [
        ("notes.md::1", ["cuda_api_sum", "nvtx_sum"]),
        ("notes.md::2", ["cuda_api_sum", "nvtx_sum"]),
        ("notes.md::3", ["nvtx_sum"]),
    ]
    assert [run.health for run in runs] == [(), (), ()]
    with pytest.raises(UnreadableProfile) as caught:
        open_summaries(path)
    assert caught.value.claim == "notes.md: holds the tables of 3 runs"
    assert f"{path}::1" in caught.value.hint
    assert "2: cuda_api_sum, nvtx_sum of report_bmm.sqlite" in caught.value.found
    for wrong in (0, 4):
        with pytest.raises(UnreadableProfile, match=f"holds 3 runs, so there is no {wrong}"):
            open_summaries(f"{path}::{wrong}")


def test_ranges_know_their_style_and_domain(tmp_path: Path) -> None:
    first, second = open_summaries(written(tmp_path, RANGES)).tables["nvtx_sum"].rows
    assert (first.name, first.style, first.domain) == (":combine_single", "PushPop", "")
    assert (second.name, second.style, second.domain) == ("NCCL:ncclSend", "PushPop", "NCCL")
    older = RANGES.replace(":combine_single ", "bench:combine  ").replace("NCCL:ncclSend", "plain")
    assert [row.domain for row in open_summaries(written(tmp_path, older)).tables["nvtx_sum"].rows] == [None, None]


def as_stats_has_it(sheet: Sheet) -> list[dict[str, Any]]:
    """The rows of `gpuledger stats --format=json`, sizes as exact as NVIDIA prints them."""
    rows = list(nvidia_rows(sheet))
    exact = {column.key for column in sheet.columns if column.digits is Digits.MEGABYTES}
    return [{key: round(value / 1e6, 3) if key in exact else value for key, value in row.items()} for row in rows]


SIZES = ("total", "average", "median", "least", "most", "deviation")


def as_kept(table: PrintedTable) -> list[dict[str, Any]]:
    """The same rows from what was read."""
    spread = ("avg", "med", "min", "max", "stddev")
    if table.report == "cuda_gpu_mem_size_sum":
        keys = ("total_bytes", *(f"{word}_bytes" for word in spread))
        return [
            {"name": row.name, "count": row.count}
            | {key: round(getattr(row, f"{own}_bytes") / 1e6, 3) for key, own in zip(keys, SIZES, strict=True)}
            for row in table.sizes
        ]
    prefix = {"nvtx_gpu_proj_sum": "proj_", "cuda_kern_exec_sum": "t_"}.get(table.report, "")
    total = {"nvtx_gpu_proj_sum": "total_proj_ns", "cuda_kern_exec_sum": ""}.get(table.report, "total_ns")
    keys = (total, *(f"{prefix}{word}_ns" for word in spread))
    return [
        {"name": row.name, "count": row.count, **row.beside}
        | ({"style": row.style} if row.style else {})
        | {key: getattr(row, f"{own}_ns") for key, own in zip(keys, SIZES, strict=True) if key}
        for row in table.rows
    ]


COMMON = {"calls": "count", "instances": "count", "operation": "name", "range": "name", "kernel_name": "name"}


def under_common_keys(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is counted and what it is called have different keys in different reports."""
    return [{COMMON.get(key, key): value for key, value in row.items()} for row in rows]


def as_nsys_prints(sheet: Sheet, cut: int = 100, grouped: bool = False) -> str:
    """A table as `nsys stats` shows it: numbers to the right, text to the left, headings in the middle, names cut."""

    def shown(value: Any, digits: Digits) -> str:
        text = cell_text(value, digits)
        if digits is Digits.TEXT:
            return text if len(text) <= cut else text[: cut - 1] + "…"
        if grouped and text:
            whole, point, rest = text.partition(".")
            return f"{int(whole):,}{point}{rest}"
        return text

    columns = sheet.columns
    cells = [[shown(cell, column.digits) for cell, column in zip(row, columns, strict=True)] for row in sheet.rows]
    widths = [max(len(column.heading), *(len(row[at]) for row in cells)) for at, column in enumerate(columns)]
    lines = ["  ".join(column.heading.center(width) for column, width in zip(columns, widths, strict=True))]
    lines.append("  ".join("-" * width for width in widths))
    lines += [
        "  ".join(
            text.ljust(width) if column.digits is Digits.TEXT else text.rjust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        )
        for row in cells
    ]
    return f" ** {sheet.title} ({sheet.name}):\n\n" + "".join(f" {line}\n" for line in lines) + "\n"


@pytest.mark.parametrize("capture", some(NAMES, 3, first=1))
def test_nvidias_csv_and_text_give_what_the_profile_gives(
    capture: str, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    trace = open_trace(unpacked(f"{capture}.sqlite"))
    made = {name: nvidia_sheet(report, trace) for name, report in NVIDIA_REPORTS.items() if name in KNOWN}
    sheets = {name: sheet for name, sheet in made.items() if not isinstance(sheet, NotMeasured) and sheet.rows}
    folder = open_summaries(CAPTURES / f"{capture}.nsys-stats")
    assert set(folder.tables) == set(sheets)
    assert {note.severity for note in folder.health} <= {Severity.INFO}
    texts = [as_nsys_prints(sheet, 10**6) for sheet in sheets.values()]
    shouting = [as_nsys_prints(sheet, 10**6, grouped=True) for sheet in sheets.values()]
    indented = "".join(f"    # {line}\n" for text in texts for line in text.splitlines())
    drawn = "\n\n".join(f"## {sheet.title}\n\n`{sheet.name}`\n\n{table_markdown(sheet)}" for sheet in sheets.values())
    for text in ("\n".join(texts), "\n".join(shouting), indented, drawn):
        kept = open_summaries(written(tmp_path, text))
        for name, sheet in sheets.items():
            expected = under_common_keys(as_stats_has_it(sheet))
            assert as_kept(folder.tables[name]) == expected, name
            assert as_kept(kept.tables[name]) == expected, name


def test_a_cut_name_is_known_to_be_cut(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    trace = open_trace(unpacked("decode.sqlite"))
    sheet = nvidia_sheet(NVIDIA_REPORTS["cuda_gpu_kern_sum"], trace)
    assert not isinstance(sheet, NotMeasured)
    run = open_summaries(written(tmp_path, as_nsys_prints(sheet, 60)))
    whole = [str(row[-1]) for row in sheet.rows]
    kept = run.tables["cuda_gpu_kern_sum"].rows
    assert [row.is_cut for row in kept] == [len(name) > 60 for name in whole]
    assert all(name.startswith(row.name.rstrip("…")) for name, row in zip(whole, kept, strict=True))
    assert codes(run) == {"cut-names": sum(len(name) > 60 for name in whole)}


def test_a_folder_of_two_prefixes_holds_two_runs(tmp_path: Path) -> None:
    for prefix in ("after", "before"):
        written(tmp_path, CSV, f"{prefix}_cuda_api_sum.csv")
    written(tmp_path, b"", "after_osrt_sum.csv")
    written(tmp_path, "x", "README")
    with pytest.raises(UnreadableProfile, match="2 runs"):
        open_summaries(tmp_path)
    run = open_summaries(f"{tmp_path}::2")
    assert (run.profile, api(run)) == ("before", {"cudaMalloc": (3, 600), "cudaFree": (1, 400)})
    assert codes(open_summaries(f"{tmp_path}::1")) == {"empty-tables": 1}


def test_several_files_make_one_run_unless_they_repeat_a_report(tmp_path: Path) -> None:
    first, second = written(tmp_path, CSV, "a.csv"), written(tmp_path, RANGES)
    assert list(open_summaries([first, second]).tables) == ["cuda_api_sum", "nvtx_sum"]
    with pytest.raises(UnreadableProfile, match=r"a.csv and b.csv both hold cuda_api_sum"):
        open_summaries([first, written(tmp_path, CSV, "b.csv")])


def test_reports_one_after_another_are_told_by_their_columns(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    folder = CAPTURES / "one_nccl.nsys-stats"
    for between in ("", "\n"):
        text = between.join((folder / f"{name}.csv").read_text() for name in KNOWN)
        run = open_summaries(written(tmp_path, text, "all.csv"))
        assert run == PrintedTables("all.csv", open_summaries(folder).tables)


def test_old_titles_names_and_headings_are_understood(tmp_path: Path) -> None:
    text = """
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls     Average      Minimum      Maximum            Name
 -------  ---------------  ---------  -------------  ----------  -----------  ---------------------
    87.2      415,182,743          3  138,394,247.7     519,539  414,129,668  cudaMalloc
     0.0           41,222          1       41,222.0      41,222       41,222  cudaLaunchKernel

[6/8] Executing 'gpukernsum' stats report

 ** GPU Kernel Summary (gpukernsum):

 Time (%)  Total Time (ms)  Instances  Avg (ms)  Name
 --------  ---------------  ---------  --------  ----
    100.0           3.8261          2    1.9131  add(float *, int)
    ......
"""
    run = open_summaries(written(tmp_path, text))
    assert api(run) == {"cudaMalloc": (3, 415_182_743), "cudaLaunchKernel": (1, 41_222)}
    malloc, [kernel] = run.tables["cuda_api_sum"].rows[0], run.tables["cuda_gpu_kern_sum"].rows
    assert (malloc.average_ns, malloc.median_ns, malloc.least_ns) == (138_394_247.7, None, 519_539)
    assert (kernel.name, kernel.total_ns, kernel.average_ns) == ("add(float *, int)", 3_826_100, 1_913_100.0)
    assert codes(run) == {"abridged": 1}


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9), ("usec", 10**3)])
def test_times_come_out_in_nanoseconds(unit: str, factor: int, tmp_path: Path) -> None:
    run = open_summaries(written(tmp_path, CSV.replace("(ns)", f"({unit})")))
    assert api(run) == {"cudaMalloc": (3, 600 * factor), "cudaFree": (1, 400 * factor)}


def test_a_table_without_a_rule_or_blanks_to_spare_is_read(tmp_path: Path) -> None:
    text = API.format(profile="x", rows=LOOP).replace(" --------  -", "\n---\n\n-")
    lines = [" ".join(line.split()) for line in text.splitlines() if not line.startswith("-----")]
    assert api(open_summaries(written(tmp_path, "\n".join(lines)))) == {
        "cudaMemcpyAsync": (475_600, 2_613_668_540),
        "cudaStreamSynchronize": (442_800, 1_778_504_126),
        "cudaLaunchKernel": (253_800, 1_662_288_454),
        "cudaDeviceSynchronize": (1, 27_992),
    }


names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")) | st.sampled_from(" ,.|"), min_size=1)
names = names.map(str.strip).filter(bool)


@given(st.lists(st.tuples(names, st.integers(0, 10**6), st.integers(0, 2**52)), min_size=1, max_size=6))
def test_any_name_and_number_survives_nvidias_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int]]
) -> None:
    """A field is quoted where it holds a comma, and nothing in it is escaped; quotes in names are tried below."""
    rows = [(text.replace('"', "'"), count, total) for text, count, total in rows]
    lines = ["Time (%),Total Time (ns),Instances,Avg (ns),Name"]
    lines += [f"1.0,{total},{count},1.0," + (f'"{text}"' if "," in text else text) for text, count, total in rows]
    path = written(tmp_path_factory.mktemp("csv"), "\n".join(lines) + "\n")
    kept = open_summaries(path).tables["cuda_gpu_kern_sum"].rows
    assert [(row.name, row.count, row.total_ns) for row in kept] == rows


@given(st.binary(max_size=300), st.integers(0, len(DOCUMENT.encode())), st.integers(0, 40))
def test_no_damage_does_more_than_lose_rows(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, gone: int
) -> None:
    """Whatever stands in the text, no more tables come out than went in, and nothing but our errors is raised."""
    whole = DOCUMENT.encode()
    path = written(tmp_path_factory.mktemp("damaged"), whole[:at] + noise + whole[at + gone :])
    with contextlib.suppress(GpuledgerError):
        assert sum(len(run.tables) for run in runs_in(path)) <= 5


HOSTILE = {
    "a row cut off in its numbers": CSV + "9.0,17,3",
    "a row cut off before its name": CSV + "9.0,17,3,4.0,4.0,4,4,0.0,",
    "a number of 5,000 digits": CSV + f"9.0,{'9' * 5000},3,4.0,4.0,4,4,0.0,cudaFree\n",
    "a number beyond 64 bits": CSV + "9.0,1e40,3,4.0,4.0,4,4,0.0,cudaFree\n",
    "a number that is none": CSV + "9.0,12,nan,4.0,4.0,4,4,0.0,cudaFree\n",
    "a quote that never closes": CSV + '9.0,12,3,4.0,4.0,4,4,0.0,"void f<a, b\n',
    "a quote that another row interrupts": CSV.replace("cudaFree", '"void f<a, b') + CSV.splitlines()[1] + "\n",
    "a name of 2 MB": CSV + f"9.0,12,3,4.0,4.0,4,4,0.0,{'x' * (2 << 20)}\n",
    "too many cells": CSV + "1,9.0,12,3,4.0,4.0,4,4,0.0,17.5,cudaFree\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_bad_row_is_counted_and_the_others_kept(what: str, tmp_path: Path) -> None:
    run = open_summaries(written(tmp_path, HOSTILE[what]))
    assert api(run)["cudaMalloc"] == (3, 600)
    if what != "too many cells":  # there the surplus becomes part of the name, as a comma in it may
        [note] = run.health
        assert (note.severity, note.code, note.count) == (Severity.LOSS, "damaged-rows", 1)


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.replace("\n", "\r\n").encode(),
        CSV.encode("utf-16"),
        CSV.replace("600", '"600"').replace("cudaFree", '"cudaFree"').encode(),
        CSV.replace(",", "\t").encode(),
        CSV.replace("Time (%)", '"Time (%)"').encode(),
        b"SKIPPED: x.sqlite does not contain OS Runtime trace data.\n\n" + CSV.encode() + b"\nGenerated:\n",
        CSV.rstrip("\n").encode(),
    ],
    ids=["BOM", "CRLF", "UTF-16", "quoted", "tabs", "quoted heading", "among other lines", "no last newline"],
)
def test_how_a_file_is_written_does_not_matter(text: bytes, tmp_path: Path) -> None:
    run = open_summaries(written(tmp_path, text))
    assert (api(run), run.health) == ({"cudaMalloc": (3, 600), "cudaFree": (1, 400)}, ())


def test_a_name_with_commas_quotes_or_a_line_break_is_whole(tmp_path: Path) -> None:
    head = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n"
    rows = (
        '1,2,3,4,"void f<a, b>(int, int)"\n1,2,3,4,"a,"b"\n1,2,3,4,say "hi"\n1,2,3,4,"two\nlines, here"\n1,2,3,4,end\n'
    )
    run = open_summaries(written(tmp_path, head + rows))
    assert [row.name for row in run.tables["cuda_gpu_kern_sum"].rows] == [
        "void f<a, b>(int, int)",
        'a,"b',
        'say "hi"',
        "two\nlines, here",
        "end",
    ]
    assert run.health == ()


def test_a_title_that_does_not_fit_its_table_is_not_believed(tmp_path: Path) -> None:
    """In a document somebody drew a table by hand under a title, and the next one has none."""
    sizes = "Total (MB)  Count  Operation\n----------  -----  -------------\n   612.337  8,210  [CUDA memset]\n"
    text = f"** GPU Kernel Summary (gpukernsum):\nlots of  gemm\n\n{sizes}"
    run = open_summaries(written(tmp_path, text))
    assert [(row.name, row.count, row.total_bytes) for row in run.tables["cuda_gpu_mem_size_sum"].sizes] == [
        ("[CUDA memset]", 8210, 612_337_000)
    ]
    drawn = (
        "** CUDA API Summary (cuda_api_sum):\n\nTime (%)  Total Time (ns)  Calls  Name\n~95%  a lot  many  cudaFree\n"
    )
    assert list(open_summaries(written(tmp_path, drawn + text)).tables) == ["cuda_gpu_mem_size_sum"]


def test_a_report_that_is_not_read_is_named(tmp_path: Path) -> None:
    other = API.format(profile="x", rows=LOOP).replace("cuda_api_sum", "vulkan_api_sum")
    run = open_summaries(written(tmp_path, other + RANGES))
    assert list(run.tables) == ["nvtx_sum"]
    [note] = run.health
    assert (note.severity, note.code, note.sentence) == (Severity.INFO, "unknown-reports", "not read: vulkan_api_sum")
    with pytest.raises(GpuledgerError, match="no report of `nsys stats` that gpuledger reads"):
        open_summaries(written(tmp_path, other))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("just prose, 42 times\n", "kept.txt: no table of `nsys stats` in it"),
        (b"\x00\x01\x02" * 50, "kept.txt: no table of `nsys stats` in it"),
        (b"\xfd7zXZ\0" + bytes(50), "kept.txt: is compressed with xz"),
        ("", "kept.txt: the file is empty"),
        (CSV.replace("Total Time (ns)", "Whatever").replace("Name", "Name"), "cuda_api_sum lacks the total"),
        (
            API.format(profile="x", rows=LOOP).replace("Num Calls", "         "),
            "cuda_api_sum lacks its names or counts",
        ),
        (CSV.splitlines()[0] + "\n9.0,17,3\n", "not one row of its tables can be read"),
    ],
)
def test_what_holds_no_table_is_refused_in_one_sentence(text: str | bytes, sentence: str, tmp_path: Path) -> None:
    name = "cuda_api_sum.csv" if "lacks the total" in sentence else "kept.txt"
    with pytest.raises(GpuledgerError) as caught:
        open_summaries(written(tmp_path, text, name))
    assert sentence in caught.value.claim
    assert "\n" not in caught.value.claim


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableProfile, match="a folder without CSV files"):
        open_summaries(tmp_path)


def test_output_of_nsys_is_told_from_other_files(tmp_path: Path, decode: Path) -> None:
    texts = (DOCUMENT, CSV, "Processing [a.sqlite] with [/x/reports/osrt_sum.py]... \n")
    assert all(is_printed_tables(written(tmp_path, text, "kept")) for text in texts)
    others = (json.dumps({"traceEvents": [{"name": "Total Time (ns)"}]}), "any text", bytes(200))
    assert not any(is_printed_tables(written(tmp_path, other, "other")) for other in others)
    assert is_printed_tables(f"{written(tmp_path, DOCUMENT, 'kept.md')}::2")
    assert not is_printed_tables(decode)
    assert not is_printed_tables(tmp_path / "nowhere.csv")


def test_a_folder_holds_tables_or_profiles(tmp_path: Path) -> None:
    assert not is_printed_tables(tmp_path)
    written(tmp_path, CSV, "run_cuda_gpu_kern_sum.csv")
    assert is_printed_tables(tmp_path)
    written(tmp_path, "", "run.sqlite")
    assert not is_printed_tables(tmp_path)


@pytest.mark.parametrize("name", ["kept.csv", "kept.txt", "kept", "empty.csv"])
def test_one_file_gets_one_refusal_from_every_verb(name: str, tmp_path: Path, decode: Path) -> None:
    path = written(tmp_path, "" if name == "empty.csv" else "any text\n", name)
    sentences = {gpuledger(verb, path, decode).stderr.splitlines()[0] for verb in ("diff", "align")}
    assert len(sentences) == 1


def test_totals_beyond_64_bits_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """Each fits, but not their sum: that was an internal error."""
    for name in ("cuda_gpu_kern_sum", "cuda_api_sum"):
        text = (CAPTURES / "decode.nsys-stats" / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").write_text(re.sub(r"(?<=,)\d{5,}(?=,)", str(2**63 - 1), text))
    ran = gpuledger("diff", tmp_path, CAPTURES / "decode.nsys-stats")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "Total Time of cuda_" in ran.stderr
    assert "which cannot be" in ran.stderr
