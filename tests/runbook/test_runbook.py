"""Runbooks as text: what is refused and where, what a matrix holds, what is run, what a saving is worth."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.errors import GpuledgerError
from gpuledger.present.views.runs.runbook import _savings, _without_empty_columns
from gpuledger.runbook.definition import (
    Axis,
    BadPlaceholder,
    MatrixCell,
    Runbook,
    SavingCheck,
    cells_of,
    fill,
    fill_all,
    names_in,
    pairs,
)
from gpuledger.runbook.figures import (
    OPEN,
    Documents,
    SavingRow,
    documents_of,
    judge,
    judge_by_the_middle,
    nanoseconds,
    saving_of,
    slowed_cells,
)
from gpuledger.runbook.forms import MOST_BYTES, Fields, Listed, Word, WordList, parse_tree, read_as
from gpuledger.runbook.plan import Choices, comparisons_of, environment_of, fingerprint, jobs_of
from gpuledger.runbook.read import runbook_of
from gpuledger.verdicts import FAIL, PASS, UNDECIDED, DoubtfulFigure
from support.command import ROOT

GOOD = """\
runbook: 1
name: toy
question: Does it work?
variables: {iters: 3}
sizes: {small: {iters: 1}, real: {}}
environment: {TOY: "x-${mode}"}
matrix:
  mode: [loop, grouped]
  fast: {values: ["0", "1"], environment: FAST, flags: {"0": [], "1": [-f, now]}}
steps:
  - bench: [moe, "--mode=${mode}", "--iters=${iters}", "${fast.flags}"]
  - capture: nsys
    preset: steady
    bench: [moe, "--mode=${mode}", --cuda-profiler]
  - report: profile
compare:
  - {diff: profile, before: {mode: loop}, after: {mode: grouped}}
  - {saving: top, from: {mode: loop}, to: {mode: grouped}, key: median_ms, within: 20 %}
targets:
  - {key: median_ms, at_most: 2.5, where: {mode: grouped, size: real}}
show: [median_ms]
"""


def book(text: str = GOOD) -> Runbook:
    return runbook_of(text.encode(), "toy.yaml")


def changed(line: int, text: str) -> str:
    """The good runbook with another line at this place."""
    lines = GOOD.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


CHOICES = Choices("small", {"iters": "1"}, Path("/runs/toy"), Path("/books"), "/usr/bin/python")


def test_a_good_one_is_read() -> None:
    made = book()
    assert (made.name, made.question) == ("toy", "Does it work?")
    assert [axis.values for axis in made.axes.values()] == [("loop", "grouped"), ("0", "1")]
    assert [cell.title for cell in cells_of(made)][:2] == ["mode=loop, fast=0", "mode=loop, fast=1"]


def test_words_stay_as_they_were_written() -> None:
    text = GOOD.replace("[loop, grouped]", "[no, 0x10, 1e3, 010]").replace("{mode: loop}", "{mode: no}")
    text = text.replace("{mode: grouped", "{mode: 0x10")
    assert book(text).axes["mode"].values == ("no", "0x10", "1e3", "010")


def test_the_guides_example_is_one() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "guides" / "runbooks.md").read_text(), re.DOTALL)
    assert len(cells_of(book(text))) == 4


REFUSED = re.findall(
    r"^\| (\d+) \| `(.*?)` \| (.*) \|$", Path(__file__).with_name("refused.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("line", "instead", "said"), REFUSED)
def test_a_bad_one_is_refused_with_its_line(line: str, instead: str, said: str) -> None:
    with pytest.raises(GpuledgerError) as raised:
        book(changed(int(line), instead))
    assert raised.value.claim.startswith(f"toy.yaml{said}")


HOSTILE = [
    (b"", "toy.yaml:1: empty"),
    (b"- a\n- b\n", "toy.yaml:1: expected keys with values, found a list"),
    (b"a: [1,\n", "toy.yaml:2: not YAML"),
    (b"a: b\n\tc: d\n", "toy.yaml:2: not YAML"),
    (b"a: 1\n--- \nb: 2\n", "toy.yaml:2: a second document"),
    (b"a: 1\nb: \x07\n", "toy.yaml:2: the character"),
    (b"a: 1\nb: \xff\n", "toy.yaml:2: not UTF-8"),
    (b'a: 1\nb: "\\ud800"\n', "toy.yaml:2: half of a character"),
    (b"runbook: !!python/object/apply:os.system [id]\n", "toy.yaml:1: the tag"),
    (b"runbook: !mine 1\n", "toy.yaml:1: the tag !mine"),
    (b"a: &a {b: 1}\nc:\n  <<: *a\n", "toy.yaml:3: merge keys"),
    (b"a: *nowhere\n", "toy.yaml:1: not YAML"),
    (b"a: &a [*a]\n", "nested more than"),
    (b"? [a, b]\n: c\n", "toy.yaml:1: a key must be a word"),
    (b"a: " + b"[" * 5000, "nested more than"),
    (b"a: " + b"{a: " * 200, "nested more than"),
    (b"#" * (MOST_BYTES + 1), "toy.yaml: 200,001 bytes"),
]


@pytest.mark.parametrize(("text", "said"), HOSTILE, ids=[said for _, said in HOSTILE])
def test_what_is_no_runbook_is_refused_in_one_sentence(text: bytes, said: str) -> None:
    with pytest.raises(GpuledgerError) as raised:
        runbook_of(text, "toy.yaml")
    assert said in raised.value.claim
    assert "\n" not in raised.value.claim


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 10)]
    with pytest.raises(GpuledgerError, match="more than 10,000 values"):
        runbook_of("\n".join(lines).encode(), "toy.yaml")


@given(st.binary(max_size=200))
def test_whatever_the_bytes_nothing_but_one_sentence_comes(text: bytes) -> None:
    with pytest.raises(GpuledgerError):
        runbook_of(text, "toy.yaml")


@given(st.integers(0, len(GOOD) - 1), st.text(max_size=3))
def test_a_typing_error_is_refused_or_harmless(at: int, text: str) -> None:
    said = ""
    try:
        runbook_of((GOOD[:at] + text + GOOD[at + 1 :]).encode(errors="replace"), "toy.yaml")
    except GpuledgerError as error:
        said = error.claim
    assert not said or said.startswith("toy.yaml:")


# ${name}


def test_words_are_filled() -> None:
    assert fill("--mode=${mode}$$x", {"mode": "${x}"}) == "--mode=${x}$x"
    assert names_in("a$${b}${c}") == ("c",)
    assert fill_all(("a", "${x.flags}", "${y}"), {"y": "1 2"}, {"x.flags": ("-f", "v")}) == ["a", "-f", "v", "1 2"]
    with pytest.raises(BadPlaceholder):
        names_in("${a b}")


@given(st.text(alphabet="ab$ {}", max_size=30))
def test_a_word_with_its_dollars_doubled_is_itself(word: str) -> None:
    assert fill(word.replace("$", "$$"), {}) == word
    assert names_in(word.replace("$", "$$")) == ()


# the matrix

VALUES = st.lists(st.text(alphabet="abAB/. ", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)


@st.composite
def matrices(draw: st.DrawFn) -> Runbook:
    names = [f"axis{number}" for number in range(draw(st.integers(0, 3)))]
    axes = {name: Axis(values=WordList(Word(value, 1) for value in draw(VALUES))) for name in names}
    exclude = []
    if draw(st.booleans()) and axes:
        name = draw(st.sampled_from(names))
        exclude.append(Fields({name: WordList([draw(st.sampled_from(axes[name].values))])}, 1, {name: 1}))
    return msgspec.structs.replace(book(), axes=Fields(axes, 1, {}), exclude=Listed(exclude))


@given(matrices())
def test_a_matrix_has_every_combination_once_but_for_the_excluded(made: Runbook) -> None:
    cells = cells_of(made)
    count = 1
    for axis in made.axes.values():
        count *= len(axis.values)
    left_out = sum(count // len(made.axes[name].values) for excluded in made.exclude for name in excluded)
    assert len(cells) == len({cell.values for cell in cells}) == count - left_out


@given(matrices())
def test_no_two_cells_share_a_folder_and_none_leaves_the_run(made: Runbook) -> None:
    folders = [cell.folder for cell in cells_of(made)]
    assert len({folder.casefold() for folder in folders}) == len(folders)
    assert all("/" not in folder and folder not in (".", "..") and " " not in folder for folder in folders)


@given(matrices(), st.data())
def test_a_pair_differs_in_what_is_named_only(made: Runbook, drawn: st.DataObject) -> None:
    cells = cells_of(made)
    if not made.axes:
        assert pairs(cells, {}, {}) == []
        return
    name = drawn.draw(st.sampled_from(list(made.axes)))
    before, after = (drawn.draw(st.sampled_from(made.axes[name].values)) for _ in range(2))
    found = pairs(cells, {name: (before,)}, {name: (after,)})
    for one, other in found:
        differing = [a[0] for a, b in zip(one.values, other.values, strict=True) if a != b]
        assert differing == [name]
        assert (dict(one.values)[name], dict(other.values)[name]) == (before, after)
    excluded = {value for pick in made.exclude for values in pick.values() for value in values}
    if before != after and not excluded:
        assert len(found) == len(cells) // len(made.axes[name].values)


# what is run


def test_the_commands_of_a_cell() -> None:
    made = book()
    cell = cells_of(made)[1]
    bench, capture, report = jobs_of(made, cell, CHOICES)
    folder = "/runs/toy/cells/mode=loop__fast=1"
    ours = ("gpuledger", "bench", "moe", "--mode=loop", "--iters=1", "-f", "now")
    assert bench.commands == ((*ours, f"--output={folder}/bench.json", "--force"),)
    assert capture.commands[0][:6] == ("gpuledger", "capture", "nsys", "--preset=steady", "--env=TOY", "--env=FAST")
    after = capture.commands[0][capture.commands[0].index("--") + 1 :]
    assert after == ("/usr/bin/python", "-m", "gpuledger", "bench", "moe", "--mode=loop", "--cuda-profiler")
    assert [command[-2] for command in report.commands] == [
        f"--output={folder}/report.{each}" for each in ("txt", "json")
    ]
    assert [str(path) for path in report.inputs] == [f"{folder}/profile.sqlite"]
    assert environment_of(made, cell, CHOICES) == {"TOY": "x-loop", "FAST": "1"}
    assert [job.needs for job in (bench, capture, report)] == [("torch",), ("gpu", "nsys"), ()]


def test_a_capture_elsewhere_needs_nothing_here_and_starts_what_is_there() -> None:
    text = GOOD.replace("preset: steady", "preset: steady\n    flags: ['--via=ssh host']")
    made = book(text)
    _, capture, _ = jobs_of(made, cells_of(made)[1], CHOICES)
    assert capture.needs == ()
    assert capture.commands[0][capture.commands[0].index("--") + 1 :][:3] == ("gpuledger", "bench", "moe")
    assert {"--via=ssh host", "--env=FAST"} <= set(capture.commands[0])


def test_each_pair_is_compared() -> None:
    made = book()
    found = comparisons_of(made, cells_of(made), CHOICES)
    assert [each.job.title for each in found] == [
        "diff mode=loop, fast=0 -> mode=grouped, fast=0",
        "diff mode=loop, fast=1 -> mode=grouped, fast=1",
    ]


def test_an_alias_puts_one_command_into_another() -> None:
    text = changed(11, '  - bench: &same [moe, "--mode=${mode}"]')
    text = text.replace('bench: [moe, "--mode=${mode}", --cuda-profiler]', "bench: [*same, --cuda-profiler]")
    [_, capture, _] = jobs_of(book(text), cells_of(book(text))[0], CHOICES)
    assert capture.commands[0][-3:] == ("moe", "--mode=loop", "--cuda-profiler")


def test_a_fingerprint_follows_what_is_run_and_nothing_else() -> None:
    def of(text: str = GOOD, choices: Choices = CHOICES, missing: tuple[str, ...] = (), version: str = "1") -> str:
        made = book(text)
        return fingerprint(made, cells_of(made)[0], choices, missing, version)

    same = of()
    assert of(GOOD.replace("Does it work?", "Does it?")) == same
    assert of(choices=replace(CHOICES, folder=Path("/elsewhere"), python="/other")) == same
    assert of(missing=("ncu",)) == same  # no step needs it
    others = {
        of(GOOD.replace("preset: steady", "preset: launch")),
        of(choices=replace(CHOICES, variables={"iters": "2"})),
        of(GOOD.replace('"x-${mode}"', '"y-${mode}"')),
        of(missing=("gpu",)),
        of(version="2"),
    }
    assert same not in others
    assert len(others) == 5


# figures, savings, targets


def test_figures_are_found_by_key() -> None:
    documents = Documents(
        {
            "bench": {"median_ms": 2.5, "launches": None, "launches_reason": "no GPU", "ranks": [{}]},
            "serve": {"median_ms": 9},
        },
        {"report": {"steps": {"median_ns": 7}}},
    )
    assert documents.figure("median_ms").value == 2.5
    assert documents.figure("serve.median_ms").value == 9
    assert documents.figure("report.steps.median_ns").value == 7
    assert documents.figure("launches").reason == "no GPU"
    assert documents.figure("ranks").wrong
    wrong = documents.figure("median_m")
    assert wrong.wrong
    assert "did you mean 'median_ms'?" in wrong.reason
    assert Documents().figure("x").reason == "the cell left no result"


TABLES = {
    "schema": "gpuledger.ranges/1",
    "sentences": ["said"],
    "empty": [],
    "phases": [
        {"gpu": 0, "phase": "dispatch", "per_step_ns": 5.0, "visits": None},
        {"gpu": 0, "phase": "other work", "per_step_ns": 7.0, "visits": 2},
    ],
    "phase_gaps": [{"gpu": 0, "before": "dispatch", "idle_ns": 3, "cause": "idle.sync"}],
}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ranges.dispatch.per_step_ns", 5.0, ""),
        ("ranges.other_work.per_step_ns", 7.0, ""),
        ("ranges.dispatch.idle_ns", 3, ""),
        ("ranges.per_step_ns", 7.0, ""),
        ("ranges.cause", "idle.sync", ""),
        ("ranges.dispatch.visits", None, "not measured"),
        ("ranges.dispach.per_step_ns", None, "did you mean 'dispatch.per_step_ns'?"),
        ("ranges.idle", None, "did you mean 'idle_ns'?"),
        ("fleet.wait_ns", None, "no step of this cell makes fleet"),
    ],
)
def test_figures_of_tables_are_found_by_row_and_column(key: str, value: object, said: str) -> None:
    figure = Documents(tables={"ranges": TABLES}, undone=frozenset({"fleet"})).figure(key)
    assert figure.value == value
    assert said in figure.reason
    assert figure.wrong == ("did you mean" in said)


def test_times_by_their_ending() -> None:
    assert [nanoseconds(key, 1.5) for key in ("a_ms", "a_us", "a_s", "a_ns", "a")] == [
        1_500_000,
        1_500,
        1_500_000_000,
        2,
        None,
    ]
    assert nanoseconds("a_ms", "x") is nanoseconds("a_ms", True) is None  # noqa: FBT003


ONE, OTHER = MatrixCell((("mode", "loop"),), "a"), MatrixCell((("mode", "grouped"),), "b")


def saving(says: str = "top", **others: str) -> SavingCheck:
    """A check of a saving between all cells, as a runbook says it."""
    fields = {"saving": says, "from": "{}", "to": "{}", **others}
    return read_as(SavingCheck, parse_tree("\n".join(f"{key}: {value}" for key, value in fields.items()).encode()))


def report(step: int, *findings: tuple[str, int]) -> dict[str, object]:
    listed = [{"code": code, "saving_ns_per_step": ns, "saving_low_ns_per_step": ns // 2} for code, ns in findings]
    return {"steps": {"median_ns": step}, "findings": listed}


def test_a_saving_is_held_against_the_profiled_one() -> None:
    documents = {
        ONE: Documents(
            {"bench": {"median_ms": 4.0}}, {"report": report(5_000_000, ("HOST-SYNC", 1), ("LAUNCH-BOUND", 2_000_000))}
        ),
        OTHER: Documents({"bench": {"median_ms": 3.0}}, {"report": report(3_200_000)}),
    }
    compare = saving(key="median_ms", within="20 %")
    row = saving_of(compare, (ONE, OTHER), documents)
    assert (row.finding, row.predicted_ns, row.low_ns) == ("LAUNCH-BOUND", 2_000_000, 1_000_000)
    assert (row.profiled_ns, row.plain_ns, row.verdict) == (1_800_000, 1_000_000, PASS)
    assert row.ratio == pytest.approx(2.0 / 1.8)
    assert saving_of(saving(key="median_ms", within="0.1"), (ONE, OTHER), documents).verdict == FAIL
    assert saving_of(saving("HOST-SYNC", within="20%"), (ONE, OTHER), documents).verdict == FAIL
    assert saving_of(saving("CAST"), (ONE, OTHER), documents).reason == "the report of mode=loop has no CAST"
    assert saving_of(compare, (ONE, OTHER), {ONE: documents[ONE]}).verdict == OPEN
    bare = {**documents, OTHER: Documents({"bench": {"median_ms": 2.0}})}
    assert saving_of(compare, (ONE, OTHER), bare).verdict == PASS  # by the bench, where there is no other profile


def test_a_saving_may_be_of_several_findings_each_by_the_count_that_falls() -> None:
    def left(launches: int, syncs: int, step: int) -> Documents:
        findings = report(step, ("HOST-SYNC", 250_000), ("LAUNCH-BOUND", 880_000), ("TINY-KERNELS", 700_000))
        return Documents({"bench": {"launches": launches, "syncs": syncs, "how": "x"}}, {"report": findings})

    documents = {ONE: left(44, 2, 1_220_000), OTHER: left(33, 1, 800_000)}
    compare = saving("{HOST-SYNC: syncs, LAUNCH-BOUND: launches}", within="0.2")
    row = saving_of(compare, (ONE, OTHER), documents)
    assert (row.finding, row.predicted_ns, row.low_ns) == ("HOST-SYNC + LAUNCH-BOUND", 125_000 + 220_000, 172_500)
    assert (row.profiled_ns, row.verdict) == (420_000, PASS)
    whole = saving_of(saving("{HOST-SYNC: [], CAST: syncs}"), (ONE, OTHER), documents)
    assert (whole.finding, whole.predicted_ns) == ("HOST-SYNC", 250_000)  # what was not found saves nothing
    # a host that was faster after makes a saving look larger than it is
    alike = saving_of(compare, (ONE, OTHER), documents, corrected_ns=350_000)
    assert (alike.profiled_ns, alike.corrected_ns, alike.measured_ns) == (420_000, 350_000, 350_000)
    assert alike.ratio == pytest.approx(345 / 350)
    more = saving_of(compare, (OTHER, ONE), documents)
    assert more.predicted_ns == -250_000 - round(880_000 / 3)  # counts that rise cost
    both = saving("{LAUNCH-BOUND: [launches, syncs]}")
    assert saving_of(both, (ONE, OTHER), documents).predicted_ns == round(880_000 * (1 - 34 / 46))
    none = {**documents, ONE: left(44, 0, 1_220_000)}
    assert "'syncs' is 0 before the change" in saving_of(compare, (ONE, OTHER), none).reason
    unknown = saving("{HOST-SYNC: synks}")
    assert "no figure is called 'synks'" in saving_of(unknown, (ONE, OTHER), documents).reason
    worded = saving("{HOST-SYNC: how}")
    assert saving_of(worded, (ONE, OTHER), documents).reason == "'how' is no number"


@pytest.mark.parametrize(
    ("ratios", "middle", "verdict"),
    [((1.5, 0.9, 1.1), 2, PASS), ((0.1, 1.5, 1.6), 1, FAIL), ((None, 1.1, 3.0), 1, PASS), ((1.3,), 0, FAIL)],
)
def test_of_repeated_savings_the_middle_one_is_judged(
    ratios: tuple[float | None, ...], middle: int, verdict: str
) -> None:
    def cell(mode: str, turn: int) -> dict[str, str]:
        return {"turn": str(turn), "mode": mode}

    rows = [
        judge(SavingRow(cell("a", at), cell("b", at), OPEN, "", "X", round(1000 * ratio), None, 1000, None, 0.2))
        if ratio is not None
        else SavingRow(cell("a", at), cell("b", at), OPEN, "a is not finished")
        for at, ratio in enumerate(ratios)
    ]
    found = judge_by_the_middle(rows, "turn")
    assert [row.verdict for row in found] == [verdict if at == middle else OPEN for at in range(len(rows))]
    assert all(f"turn={middle} is the middle one" in row.reason for at, row in enumerate(found) if at != middle)
    other = replace(rows[0], from_=cell("c", 0), to=cell("d", 0))  # another pair is another measurement
    assert judge_by_the_middle([*rows, other], "turn")[: len(rows)] == found


def test_a_column_of_savings_is_there_if_any_row_has_it() -> None:
    bare = SavingRow(dict(ONE.values), dict(OTHER.values), PASS, "", "CAST", 5_000, None, 4_000)
    corrected = replace(bare, corrected_ns=4_500)
    named = [
        [column.key for column in _without_empty_columns(_savings(rows)).columns]
        for rows in ([bare], [bare, corrected])
    ]
    assert named[0] == ["from", "to", "finding", "predicted_ns", "profiled_ns", "ratio", "verdict"]
    assert named[1] == [*named[0][:5], "corrected_ns", *named[0][5:]]


def test_a_cell_that_the_profiler_slows_is_told() -> None:
    compare = saving(key="median_ms")
    cells = {
        ONE: Documents({"bench": {"median_ms": 1.6}}, {"report": report(4_000_000)}),
        OTHER: Documents({"bench": {"median_ms": 3.0}}, {"report": report(4_000_000)}),
    }
    assert slowed_cells(compare, cells) == [
        "mode=loop: a step takes 1.60 ms unprofiled and 4.00 ms profiled, 2.50 x: "
        "what its report would save is in part the profiler's own"
    ]
    assert slowed_cells(saving(), cells) == []


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.floats(0, 2))
def test_prediction_and_saving_may_lie_so_far_apart(predicted: int, measured: int, within: float) -> None:
    row = judge(SavingRow(dict(ONE.values), dict(OTHER.values), OPEN, "", "X", predicted, None, measured, None, within))
    assert (row.verdict == PASS) == (abs(predicted - measured) <= within * measured)
    assert judge(replace(row, profiled_ns=-measured)).verdict == FAIL


def test_documents_of_a_cell_are_read(tmp_path: Path) -> None:
    made, choices = book(), replace(CHOICES, folder=tmp_path)
    cell = cells_of(made)[0]
    folder = choices.cell_folder(cell)
    folder.mkdir(parents=True)
    (folder / "bench.json").write_text(json.dumps({"median_ms": 1}))
    (folder / "report.json").write_text("[1]")  # no document
    found = documents_of(made, cell, choices)
    assert (dict(found.results), dict(found.reports)) == ({"bench": {"median_ms": 1}}, {})


@pytest.mark.parametrize(
    ("ends", "said"), [([1.0, 2.0], PASS), ([2.0, 3.0], UNDECIDED), ([2.6, 3.0], FAIL), (None, PASS), ("wide", PASS)]
)
def test_a_target_is_undecided_where_the_interval_beside_its_figure_holds_the_limit(ends: object, said: str) -> None:
    figure = Documents(results={"bench": {"tpot_ms": 2.4, "tpot_ms_interval": ends}}).figure("tpot_ms")
    assert DoubtfulFigure(2.4, *(figure.ends or (2.4, 2.4))).at_most(2.5) == said
    timed = Documents(results={"time": {"median_ns": 10.0, "interval_ns": [9.0, 11.0], "samples": 40}})
    assert (timed.figure("median_ns").ends, timed.figure("median_ns").samples) == ((9.0, 11.0), 40)
