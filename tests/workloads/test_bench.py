"""`gpuledger bench`: results in every format, the workloads by name, and what a plain install says."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gpuledger.cli.verbs.bench import BENCHES
from gpuledger.present.views.runs.bench import bench_document, figure, heading
from gpuledger.present.writers import write
from gpuledger_workloads.command_lines import PARSERS
from support.command import ROOT, gpuledger

PUBLISHED = json.loads((ROOT / "docs" / "schemas" / "gpuledger.bench-1.json").read_text())
SCHEMA = Draft202012Validator(PUBLISHED)
HAS_TORCH = importlib.util.find_spec("torch") is not None

RESULT: dict[str, Any] = {
    "workload": "ep",
    "settings": {"mode": "grouped", "world_size": 2, "graph": False, "dtype": None},
    "median_ms": 1.23456,
    "ttft_p99_ms": 0.0004,
    "sent_bytes": 2_123_456,
    "comm_share": 0.4567,
    "tokens_per_s": 123456.7,
    "launches": None,
    "launches_reason": "not measured on a CPU",
    "ranks": [{"rank": 0, "median_ms": 1.0, "is_slowest": False}, {"rank": 1, "median_ms": 1.5, "is_slowest": True}],
    "checked": True,
    "verdict": "FAIL",
}


def test_a_result_reads_well() -> None:
    assert (
        write(bench_document(RESULT), "text", width=80)
        == """\
ep  mode grouped, world-size 2

What                        Value
----------  ---------------------
Median                    1.23 ms
TTFT p99                   400 ns
Sent                      2.12 MB
Comm share                 45.7 %
Throughput       123,457 tokens/s
Launches    not measured on a CPU
Checked                       yes

Ranks
Rank   Median  Is slowest
----  -------  ----------
   0  1.00 ms          no
   1  1.50 ms         yes

Verdict: FAIL
"""
    )


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("median_ms", 1.23456, "1.23 ms"),
        ("barrier_us", 12.5, "12.5 us"),
        ("stall_s", 120, "120 s"),
        ("sent_bytes", 2_123_456, "2.12 MB"),
        ("padding_share", 0.4567, "45.7 %"),
        ("tokens_per_s", 123456.7, "123,457 tokens/s"),
        ("decode_tokens", 40, "40 tokens"),
        ("parameters", 155_536, "155,536 weights"),
        ("kv_pages_needed", 4, "4 pages"),
        ("slowest_rank", 0, "rank 0"),
        ("error_share", 3.1e-7, "3e-05 %"),
        ("bandwidth_bytes_per_s", 319_420_693.5, "319 MB/s"),
        ("launches", 1269, "1,269 launches"),
        ("imbalance", 1.5, "1.50 x the mean"),
        ("expert_imbalance", 1.5, "1.50 x the mean"),
        ("tflop_per_s", 12.3, "12.3 TFLOP/s"),
        ("launches", None, "not measured"),
        ("checked", True, "yes"),
        ("sizes", [1, 2], "1, 2"),
    ],
)
def test_a_figure_has_the_unit_of_its_name(key: str, value: object, shown: str) -> None:
    assert figure(key, value) == shown


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("ttft_cold_ms", "TTFT cold"),
        ("p99_ms", "p99"),
        ("median_ms", "Median"),
        ("tokens_per_s", "Throughput"),
        ("decode_tokens_per_s", "Decode throughput"),
        ("weight_bytes", "Weights used"),
        ("bandwidth_bytes_per_s", "Bandwidth"),
    ],
)
def test_a_heading_leaves_the_unit_to_the_figure(key: str, shown: str) -> None:
    assert heading(key) == shown


def test_the_documents_say_the_same() -> None:
    content = json.loads(write(bench_document(RESULT), "json"))
    SCHEMA.validate(content)
    assert content == {"schema": "gpuledger.bench/1", **RESULT}
    (row,) = csv.DictReader(io.StringIO(write(bench_document(RESULT), "csv")))
    assert (row["workload"], row["mode"], float(row["median_ms"]), row["launches"]) == ("ep", "grouped", 1.23456, "")
    assert "| Comm share | 45.7 % |" in write(bench_document(RESULT), "md")
    assert "**Verdict: FAIL**" in write(bench_document(RESULT), "md")


names = st.text(alphabet="abcdefgh", min_size=1)
values = st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(-1e12, 1e12), st.text())


@given(st.dictionaries(names, values), st.integers(40, 200))
def test_any_result_fits_any_terminal(found: dict[str, Any], width: int) -> None:
    result = {"workload": "moe", "settings": found, **{f"x_{key}": each for key, each in found.items()}}
    text = write(bench_document(result), "text", width=width)
    assert max(len(line) for line in text.splitlines()) <= max(width, 60)
    assert all(each == "\n" or unicodedata.category(each) != "Cc" for each in text)


def test_a_text_that_is_hostile_stays_a_text() -> None:
    text = write(bench_document({**RESULT, "device_name": "\x1b[31mH200\x07"}), "text", width=80)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_help_lists_every_workload() -> None:
    for arguments in ((), ("--help",), ("-h",)):
        ran = gpuledger("bench", *arguments)
        assert ran.exit_code == 0
        assert all(f"\n  {name} " in ran.stdout for name in BENCHES)


def test_another_name_is_a_wrong_command_line() -> None:
    ran = gpuledger("bench", "mooe")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "no workload 'mooe'. There are: moe, ep," in ran.stderr


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_one_sentence_says_what_to_install() -> None:
    ran = gpuledger("bench", "moe", "--mode=loop")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: bench moe: needs the package torch\n\nhint: install it with `pip install 'gpuledger[workloads]'`\n"
    )


class WorkloadsAreMissing:
    """A finder that is asked first, and knows that the package is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "gpuledger_workloads":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_without_the_workloads_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpuledger_workloads"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WorkloadsAreMissing(), *sys.meta_path])
    for arguments in (("--mode=loop",), ("--help",)):
        ran = gpuledger("bench", "moe", *arguments)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr == (
            "error: bench moe: needs the package gpuledger-workloads\n\n"
            "hint: install it with `pip install 'gpuledger[workloads]'`\n"
        )
    assert "\n  moe " in gpuledger("bench", "--help").stdout


@pytest.mark.parametrize("name", BENCHES)
def test_help_and_wrong_options_need_no_torch(name: str) -> None:
    ran = gpuledger("bench", name, "--help")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"usage: gpuledger bench {name} ")
    ran = gpuledger("bench", name, "--colour=red")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "unrecognized arguments: --colour=red" in ran.stderr


@pytest.mark.parametrize("name", BENCHES)
def test_every_workload_teaches_its_options_and_keeps_off_the_verbs_own(name: str) -> None:
    parser = PARSERS[name]()
    taken = {option for action in parser._actions for option in action.option_strings}
    assert not taken & {"--format", "--output", "-o", "--force", "--quiet", "-q"}
    assert {"--device", "--seed", "--cuda-profiler", "--dtype"} <= taken
    assert "gpuledger bench" in parser.format_help()
    assert parser.description


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_a_workload_runs_and_its_document_is_valid(tmp_path: Path) -> None:
    target = tmp_path / "decode.json"
    ran = gpuledger("bench", "decode", "--device=cpu", "--steps=3", "-o", str(target))
    assert ran.exit_code == 0, ran.stderr
    content = json.loads(target.read_text())
    SCHEMA.validate(content)
    assert content["workload"] == "decode"
    assert content["settings"]["steps"] == 3
