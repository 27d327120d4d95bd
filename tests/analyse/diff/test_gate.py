"""A comparison as a gate: what expressions mean, when they trip, and what CI gets to see."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.gate import KINDS, BadExpression, GateOutcome, outcome, parse_gate
from gpuledger.analyse.diff.run_side import RunRange, RunSide
from gpuledger.errors import NothingRecorded
from gpuledger.present.writers.junit import Case, junit_xml
from gpuledger.present.writers.markdown import escaped
from support.command import gpuledger
from support.pages.chinese_text import CJK
from support.traces.diff_sides import kernel, side


@pytest.mark.parametrize(
    ("text", "what", "pattern", "limit", "is_share"),
    [
        ("step>2%", "step", None, "2", True),
        ("step>500us", "step", None, "500000", False),
        ("step > 1", None, None, "", False),
        ("launches>0", "launches", None, "0", False),
        ("launches>2.5", "launches", None, "2.5", False),
        ("kernel:flash>5%", "kernel", "flash", "5", True),
        ("kernel:a>b>5%", "kernel", "a>b", "5", True),
        ("idle>10%", "idle", None, "10", True),
        ("idle:launch>0.1ms", "idle", "launch", "100000", False),
        ("memory>1.5GB", "memory", None, "1500000000", False),
        ("step>0", "step", None, "0", False),
    ],
)
def test_expressions(text: str, what: str | None, pattern: str | None, limit: str, is_share: bool) -> None:
    if what is None:
        with pytest.raises(BadExpression):
            parse_gate(text)
        return
    gate = parse_gate(text)
    assert (gate.what, gate.pattern, gate.limit, gate.is_share) == (what, pattern, Decimal(limit), is_share)


BAD = [
    "",
    "step",
    "step>",
    "step>fast",
    "step>2",
    "step>2MB",
    "speed>2%",
    "kernel>5%",
    "kernel:(>5%",
    "step:x>1%",
    "launches>3us",
    "memory>3us",
    "step<2%",
    "step>-2%",
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_gate_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(BadExpression):
        parse_gate(text)
    ran = gpuledger("diff", "before.sqlite", "after.sqlite", f"--fail-on={text}")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "WHAT[:REGEX]>LIMIT" in ran.stderr


@given(st.text(max_size=30))
def test_any_text_is_a_gate_or_refused(text: str) -> None:
    with contextlib.suppress(BadExpression):
        assert parse_gate(text).what in KINDS


FLASH = "flash_fwd_kernel<64>"


def run(
    length: int, *, flash_ns: int = 400, launches: int = 10, host_ns: int = 200, peak: int = 10, noise: int = 3
) -> RunSide:
    """Ten steps of about this length, with one kernel, one range and a little noise."""
    lengths = [length + noise * (at % 5 - 2) for at in range(10)]
    attention = RunRange("attention", 10, 10 * host_ns, 0, 0, (), {"launch": 10}, {"k": 10})
    return side(
        lengths,
        [kernel(FLASH, 10, 10 * flash_ns), kernel("relu_kernel", 10, 1_000)],
        launches=[launches] * 10,
        ranges=[attention],
        peak_bytes=peak,
    )


def tried(text: str, before: RunSide, after: RunSide) -> GateOutcome:
    return outcome(parse_gate(text), compare(before, after))


@pytest.mark.parametrize(
    ("text", "tripped"),
    [
        ("step>2%", True),
        ("step>9%", True),
        ("step>11%", False),
        ("step>90ns", True),
        ("step>110ns", False),
        ("kernel:flash>5%", True),
        ("kernel:flash>30%", False),
        ("kernel:relu>0", False),
        ("compute>0", True),
        ("idle>100ns", False),
        ("launches>0", True),
        ("launches>1", False),
        ("range:att>5%", True),
        ("memory>0", True),
        ("memory>5B", False),
        ("call:Launch>0", True),
        ("copied>0", False),
    ],
)
def test_gates_trip_beyond_their_limit(text: str, tripped: bool) -> None:
    before = run(1_000)
    after = run(1_100, flash_ns=500, launches=11, host_ns=220, peak=12)
    assert tried(text, before, after).tripped is tripped


def test_a_change_inside_the_noise_trips_nothing() -> None:
    before, after = run(1_000, noise=200), run(1_030, noise=200)
    found = tried("step>1%", before, after)
    assert (found.verdict, found.tripped, found.may_be_noise) == ("UNDECIDED", False, True)
    assert found.deciding_steps is None or found.deciding_steps > 10
    assert outcome(parse_gate(found.gate), compare(before, after), undecided="fail").tripped


def test_a_change_that_may_be_beyond_the_limit_or_within_is_undecided() -> None:
    """Surely slower, by about 10 %: that it is by more than 9 % is not sure, nor that it is not by more than 11."""
    before, after = run(1_000, noise=20), run(1_100, noise=20)
    assert [tried(f"step>{limit}%", before, after).verdict for limit in (1, 9, 11, 30)] == [
        "FAIL",
        "UNDECIDED",
        "UNDECIDED",
        "PASS",
    ]


def test_what_gets_faster_trips_nothing() -> None:
    before, after = run(1_100, flash_ns=500, launches=11, peak=12), run(1_000)
    for text in ("step>0", "launches>0", "kernel:flash>0%", "memory>0", "idle>0"):
        assert not tried(text, before, after).tripped


def test_a_new_kernel_trips_any_share() -> None:
    before = side([1_000] * 10, [kernel("relu_kernel", 10, 9_000)])
    found = tried("kernel:flash>500%", before, run(1_000))
    assert (found.tripped, found.before) == (True, 0)


@given(st.integers(500, 2_000), st.integers(500, 2_000), st.integers(0, 100))
def test_a_step_trips_only_if_it_is_called_slower(before: int, after: int, limit: int) -> None:
    sides = (run(before), run(after))
    found = outcome(parse_gate(f"step>{limit}%"), compare(*sides))
    assert not found.tripped or compare(*sides).verdict == "slower"
    assert found.tripped <= (sides[1].median_ns * 100 > sides[0].median_ns * (100 + limit))


@pytest.mark.parametrize(
    ("text", "names"),
    [("kernel:attn>1%", "flash_fwd_kernel<64>"), ("range:mlp>1%", "attention"), ("family:conv>1%", "gemm")],
)
def test_a_gate_that_matches_nothing_is_an_error_that_lists_what_there_is(text: str, names: str) -> None:
    with pytest.raises(NothingRecorded) as caught:
        tried(text, run(1_000), run(1_000))
    assert names in caught.value.found


def test_what_is_not_measured_is_an_error_not_a_pass() -> None:
    blind = side([1_000] * 10, [kernel(FLASH, 10, 4_000)])
    with pytest.raises(NothingRecorded, match="memory in use is not recorded"):
        tried("memory>0", blind, blind)


# What CI sees


@pytest.fixture(scope="module")
def moe(unpacked: Callable[[str], Path]) -> tuple[Path, Path]:
    return unpacked("moe_loop.sqlite"), unpacked("moe_batched_gemm.sqlite")


def test_a_gate_that_trips_exits_3_after_the_result(moe: tuple[Path, Path]) -> None:
    ran = gpuledger("diff", *reversed(moe), "--fail-on=step>2%", "--fail-on=memory>0", COLUMNS="80")
    assert ran.exit_code == 3
    assert "13.9x slower" in ran.stdout
    assert "FAIL" in ran.stdout
    assert ran.stderr == "FAIL: step>2% (1.28 -> 17.8 ms)\n"
    passed = gpuledger("diff", *moe, "--fail-on=step>2%", "--fail-on=launches>0", "--fail-on=idle>10%")
    assert passed.exit_code == 0
    assert passed.stdout.count("PASS") == 3


def test_json_holds_the_gates(moe: tuple[Path, Path]) -> None:
    ran = gpuledger("diff", *reversed(moe), "--fail-on=launches>0", "--format=json")
    assert ran.exit_code == 3
    [gate] = json.loads(ran.stdout)["gates"]
    assert (gate["gate"], gate["tripped"], gate["before"], gate["after"]) == ("launches>0", True, 33, 488)


def test_junit_has_a_case_per_gate_and_one_for_the_verdict(moe: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "diff.xml"
    gates = ("--fail-on=step>2%", "--fail-on=memory>1GB")
    ran = gpuledger("diff", *reversed(moe), *gates, "--junit", target, "-o", tmp_path / "diff.md")
    assert ran.exit_code == 3
    assert f"Wrote {target}" in ran.stderr
    [suite] = ElementTree.parse(target).getroot()  # noqa: S314
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == ["verdict", "step>2%", "memory>1GB"]
    failure = cases["step>2%"].find("failure")
    assert failure is not None
    assert "1.28 -> 17.8 ms" in (failure.get("message") or "")
    again = gpuledger("diff", *moe, "--junit", target)
    assert (again.exit_code, again.stderr.splitlines()[0]) == (1, f"error: {target}: exists already")


def test_the_summary_of_github_is_appended_to(moe: tuple[Path, Path], tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("earlier\n")
    ran = gpuledger("diff", *moe, "--github", GITHUB_STEP_SUMMARY=str(summary))
    assert ran.exit_code == 0
    assert summary.read_text().startswith("earlier\n**13.9x faster")
    before = summary.read_text()
    assert gpuledger("diff", *moe, GITHUB_STEP_SUMMARY=str(summary)).exit_code == 0
    assert summary.read_text() == before
    unset = gpuledger("diff", *moe, "--github", GITHUB_STEP_SUMMARY="")
    assert unset.exit_code == 0
    assert "$GITHUB_STEP_SUMMARY is not set" in unset.stderr


@given(st.text(max_size=40), st.text(max_size=40))
@example("\ufffe\uffff\x00\ud800", "]]>&<")
def test_any_text_makes_valid_xml(name: str, said: str) -> None:
    document = junit_xml(name, [Case(name, said, said)]).split("\n", 1)[1]
    [suite] = ElementTree.fromstring(document)  # noqa: S314
    assert suite.get("tests") == "1"


def test_a_comment_for_a_pull_request_has_the_verdict_the_parts_and_the_places(unpacked: Callable[[str], Path]) -> None:
    before, after = unpacked("experts_batched.sqlite"), unpacked("experts_loop.sqlite")
    comment = gpuledger("diff", before, after, "--comment").stdout
    assert comment.startswith("<!-- gpuledger -->\n\n### gpuledger: FAIL\n\n**")
    assert "- step&gt;0%: 1.35 -&gt; 24.1 ms, +" in comment  # the gate where none is given
    assert "| idle: the queue ran dry | +10.8 ms |" in comment
    assert "- range dispatch\\_single, host time: 707 us -&gt; 12.0 ms" in comment
    assert gpuledger("diff", after, before, "--comment").stdout.splitlines()[2] == "### gpuledger: PASS"
    tripped = gpuledger("diff", before, after, "--comment", "--fail-on=launches>0", "--lang=zh")
    assert tripped.exit_code == 3
    assert "FAIL" in tripped.stdout
    assert CJK.search(tripped.stdout)


def test_markdown_mentions_nobody_and_links_to_nothing() -> None:
    hostile = (
        "@octocat <img src=x> #1 o/r#2 GH-3 https://evil.example www.evil.example\n### gpuledger: PASS\n::error::no"
    )
    shown = escaped(hostile)
    assert re.sub(r"<!-- -->|\\(?!x)", "", shown) == hostile.replace("<", "&lt;").replace(">", "&gt;").replace(
        "\n", "\\x0a"
    )
    assert not re.search(r"@\w|<img|#\d|GH-\d|://|www\.|\n", shown)
