"""The page of a report: its numbers are the JSON's, anybody can read it, and no name in a profile can do anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.recorded.nvidia_tables import cuda_gpu_kern_sum
from gpuledger.attribution.flame_trees import MOST_NODES, flame_trees
from gpuledger.cli.main import verb_named
from gpuledger.errors import MissingPackage
from gpuledger.ledger.step_variation import variation
from gpuledger.present.document import Document, Page, Paragraph, Section, SheetBlock
from gpuledger.present.palette import TONES
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import made_at
from gpuledger.present.writers import write
from gpuledger.present.writers.html.markup import MarkupWriter
from gpuledger.present.writers.html.page import LARGEST, LARGEST_JSON, document_html, embedded_json, html
from gpuledger.selection import Selection
from gpuledger.trace.measured import KernelReport
from gpuledger.units import share_text
from gpuledger.verbs.profiled_report import Report
from gpuledger.verbs.report import build_report
from gpuledger.visible_text import visible
from support.command import NAMES, ROOT, Ran, gpuledger, gpuledger_process
from support.pages.chinese_text import CJK
from support.pages.html_pages import HOSTILE, Element, held, named_export, page_of, parsed, reported, values
from support.profiles.nsys_exports import call, insert, kernel, minimal, push
from support.thorough import some

Unpacked = Callable[[str], Path]
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
SHOWN = some([*(f"{name}.sqlite" for name in NAMES), "decode.json.gz", "work.json.gz"], 3, first=1)


@pytest.fixture(scope="session")
def drawn(unpacked: Unpacked) -> Callable[[str], tuple[Report, str]]:
    """A capture's report and its page, made once."""
    made: dict[str, tuple[Report, str]] = {}

    def draw(name: str) -> tuple[Report, str]:
        if name not in made:
            report = reported(unpacked(name) if name.endswith(".sqlite") else ROOT / "captures" / "torch" / name)
            made[name] = (report, page_of(report))
        return made[name]

    return draw


Drawn = Callable[[str], tuple[Report, str]]


# Examples


@pytest.mark.parametrize("name", SHOWN)
def test_the_numbers_of_the_page_are_those_of_the_json(name: str, drawn: Drawn) -> None:
    report, text = drawn(name)
    page = parsed(text)
    document = json.loads(json.dumps(report.to_dict()))
    assert held(page) == document
    main = next(each for each in document["devices"] if each["device"] == report.main_device.gpu)
    ledger, has_steps = page.one("ledger"), document["steps"] is not None
    window = values(ledger, 3 if has_steps else 2)
    work_ns = [line["ns"] for line in main["ledger"] if not line["line"].startswith("idle.")]
    assert not Counter(work_ns) - Counter(window)  # idle time is here by what set it off, there by where the host was
    assert sorted(filter(None, window)) == sorted(report.main_device.ledger.shown_total().values())
    assert values(ledger, 3 if has_steps else 2, foot=True) == [main["window_ns"]] == [sum(window)]
    cards = [each for each in page.all("li") if "data-code" in each.attrs]
    assert [(card.attrs["data-code"], int(card.attrs["data-saving-ns"])) for card in cards] == [
        (found["code"], found["saving_ns"]) for found in document["findings"]
    ]
    if has_steps:
        assert values(page.one("median-step"), 1, foot=True) == [document["steps"]["median_ns"]]
        steps = json.loads(page.one("steps-json").text)
        assert steps["median_ns"] == document["steps"]["median_ns"]
        device = report.main_device
        assert device.steps is not None
        lengths = device.steps.length_ns.tolist()
        assert all(sum(each["ns"]) == lengths[each["step"]] for each in steps["steps"])
    kernels = cuda_gpu_kern_sum(report.trace)
    if kernels:
        assert values(page.one("kernel-table"), 3) == [kernel.times.total for kernel in kernels]


def test_every_step_is_in_the_strip_or_the_longest_of_its_neighbours(tmp_path: Path) -> None:
    report = reported(named_export(tmp_path / "many.sqlite", ["k"], steps=1000))
    page = parsed(page_of(report))
    steps = json.loads(page.one("steps-json").text)["steps"]
    device = report.main_device
    assert device.steps is not None
    lengths = device.steps.length_ns.tolist()
    assert len(lengths) == 1000
    assert [each["step"] // 3 for each in steps] == list(range(334))
    assert all(sum(each["ns"]) == max(lengths[3 * at : 3 * at + 3]) for at, each in enumerate(steps))
    assert "each column is the longest of 3 neighbors" in page.one("steps").text


def test_sections_come_in_order_and_have_their_say(drawn: Drawn) -> None:
    page = parsed(drawn("decode.sqlite")[1])
    names = [section.attrs["id"] for section in page.all("section")]
    order = "timeline findings books layers ranges kernels gaps steps critical streams launches memory health"
    assert names == order.split(), "nothing was communicated, and Nsight Compute not asked"
    results = [fold.all("summary")[0].text for fold in page.all("details") if fold.attrs.get("class") == "fold"]
    assert len(results) == len(names) - 3, "all but the timeline, findings and the breakdown are folded"
    assert all(result.strip() for result in results)
    assert [link.attrs["href"] for link in page.all("nav")[0].all("a")] == [f"#{name}" for name in names]
    assert "gpuledger report run.sqlite" in page.one("health").text


def test_the_critical_path_is_that_of_the_verb(drawn: Drawn, decode: Path) -> None:
    section = parsed(drawn("decode.sqlite")[1]).one("critical")
    verb = json.loads(gpuledger("whatif", decode, "--format=json").stdout)
    sentence = verb["sentences"][0]
    assert sentence in section.text
    assert "making these kernels faster saves nothing: nvjet_" in section.text
    rows = section.one("critical-beside").all("tr")
    shown = [float(cell.attrs["data-value"]) for row in rows for cell in row.all("td")[:1]]
    assert shown == pytest.approx([row["time_ns"] for row in verb["off_path"]], abs=0.1)
    parts = [part for row in verb["path"] if (part := share_text(row["share"]))]
    described = section.all("svg")[0].attrs["aria-label"]
    assert all(part in described for part in parts)


def test_a_long_run_without_steps_is_left_to_the_verb(decode: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuledger.answers.report.MOST_OPERATIONS", 100)
    section = parsed(page_of(reported(decode))).one("critical")
    assert "gpuledger whatif PROFILE" in section.text
    assert not section.all("svg")


def test_what_was_not_recorded_is_said_not_shown_as_zero(tmp_path: Path) -> None:
    path = minimal(tmp_path / "bare.sqlite", KERNEL=[kernel(0, 1000)])
    page = parsed(page_of(reported(path)))
    names = {section.attrs["id"] for section in page.all("section")}
    assert not names & {"launches", "memory", "roofline", "communication"}, "empty sections are not there"
    for section in ("steps", "ranges"):
        said = [each for each in page.one(section).all("p") if each.attrs.get("class") == "unknown"]
        assert said
        assert all(each.text.startswith("Not measured: ") for each in said)
    assert not page.one("steps").all("svg")
    assert "launch overhead, syncs and the cause" in page.one("missing").text


def test_without_steps_nothing_is_told_by_step_and_a_fix_is_no_evidence(tmp_path: Path) -> None:
    """It was: '20 pieces of work per step' of no step, '1 gaps', and a fix that stood there twice."""
    rows = [kernel(30_000 + 6_000 * at, 32_000 + 6_000 * at, correlationId=at) for at in range(20)]
    calls = [call(1_000 * at, 1_000 * (at + 1), correlationId=at) for at in range(20)]
    report = reported(minimal(tmp_path / "a.sqlite", KERNEL=rows, RUNTIME=calls))
    shown = page_of(report)
    fix = next(finding.fix for finding in report.findings if finding.code == "TINY-KERNELS")
    assert fix not in [item.text for item in parsed(shown).all("li")]
    assert "work starts 76.5 us after its launch returned (median)" in parsed(shown).one("launches").text
    assert "pieces of work per step" not in shown


def test_a_chinese_page_holds_the_numbers_of_the_english_one(drawn: Drawn) -> None:
    report, english = drawn("moe_loop.sqlite")
    page = parsed(page_of(report, "zh"))
    (root,) = page.all("html")
    assert root.attrs["lang"] == "zh-Hans"
    assert CJK.search(page.one("books").text)
    assert held(page) == held(parsed(english))


def test_the_kernels_of_nsight_compute_lie_under_their_roofs(unpacked: Unpacked, layer: KernelReport) -> None:
    path = unpacked("decode.sqlite")
    report = reported(path)
    joined = build_report(report.trace, path.name, Selection(), layer)
    text = page_of(joined)
    page = parsed(text)
    (chart,) = page.one("roofline-chart").all("svg")[:1]
    assert len(chart.all("circle")) == 13
    assert "tensor fp16" in chart.text
    assert "DRAM 4.81 TB/s" in chart.text
    both = held(page), json.loads(json.dumps(joined.to_dict()))
    assert all(document.pop("made_at") for document in both)  # each when it was written
    assert both[0] == both[1]


# The command


def test_the_command_writes_a_page_that_says_how_to_make_it_again(decode: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    first = gpuledger_process("report", decode, "--device=0", "--time=0:1s", "-o", target, PYTHONHASHSEED="1")
    assert first == Ran(0, "", f"Wrote {target}\n")
    text = target.read_text()
    command = "gpuledger report decode.sqlite --time=0:1s --device=0 --output=report.html"
    assert command in parsed(text).one("health").text
    assert str(tmp_path) not in text
    again = gpuledger_process(
        "report", decode, "--device=0", "--time=0:1s", "-o", target, "--force", PYTHONHASHSEED="2"
    )
    assert again.exit_code == 0
    assert target.read_text().replace(" --force", "") == text


def test_a_verb_without_a_page_says_what_it_writes(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("stats", decode, "-o", tmp_path / "stats.html")
    assert (ran.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "this verb writes no page; it writes text, md, csv, json" in " ".join(ran.stderr.split())
    ran = gpuledger("report", decode, "-o", tmp_path / "x.pdf")
    assert (ran.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "no pdf is written; write a page (-o x.html) and print it" in " ".join(ran.stderr.split())


def test_a_missing_package_is_named_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuledger.cli.verbs.report.find_spec", lambda _: None)
    ran = CliRunner().invoke(verb_named("report"), ["x.sqlite", "-o", "x.md", "--charts"])
    assert isinstance(ran.exception, MissingPackage)
    assert ran.exception.hint.startswith("`pip install 'gpuledger[charts]'`; a page (-o report.html) has the same")


def test_markdown_with_pictures(decode: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    target = tmp_path / "a b.md"
    assert gpuledger("report", decode, "-o", target, "--charts", "-q") == Ran(0, "", "")
    text = target.read_text()
    files = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert files == [f"a%20b-{name}.png" for name in ("ledger", "steps", "streams", "gaps")]
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) == 4
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    target.unlink()
    pictures[0].unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused = gpuledger("report", decode, "-o", target, "--charts")
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    ran = CliRunner().invoke(verb_named("report"), [str(decode), "--charts"])
    assert (ran.exit_code, "--charts goes with a Markdown file" in ran.stderr) == (2, True)


def test_code_in_a_fix_is_marked_as_code(drawn: Callable[[str], tuple[Report, str]]) -> None:
    section = parsed(drawn("decode.sqlite")[1]).one("findings")
    assert "torch.compile(mode='reduce-overhead')" in section.text
    assert "`torch" not in section.text


def test_a_notebook_shows_the_verdict_the_bar_and_the_findings(decode: Path, tmp_path: Path) -> None:
    import gpuledger as package

    report = package.build_report(package.open_trace(decode), "run.sqlite", Selection())
    shown = report._repr_html_()
    assert shown is not None
    assert "GPU busy 1.1 %" in shown
    assert "<svg" in shown
    assert "<b>HOST-LOAD</b>, saves 41.7 ms per step (88.4 %)" in shown
    assert not re.search(r"<script|class=\"narrow\"", shown)
    parsed(shown)
    report = reported(named_export(tmp_path / "x.sqlite", HOSTILE))
    shown = Report(
        HOSTILE[0], *(getattr(report, name) for name in ("trace", "window", "devices", "findings"))
    )._repr_html_()
    assert shown is not None
    assert not {"img", "script"} & {each.tag for each in parsed(shown).walk()}


# Laws


@pytest.mark.parametrize("name", SHOWN)
def test_anybody_can_read_it(name: str, drawn: Drawn) -> None:
    is_accessible(parsed(drawn(name)[1]))


def is_accessible(page: Element) -> None:
    """What a parser can tell of a page's accessibility."""
    (root,) = page.all("html")
    assert root.attrs["lang"]
    assert all(len(page.all(tag)) == 1 for tag in ("h1", "main", "nav", "header", "footer"))
    assert page.all("head")[0].all("title")[0].text
    ids = [each.attrs["id"] for each in page.walk() if "id" in each.attrs]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link.attrs["href"].removeprefix("#") in ids
    levels = [int(each.tag[1]) for each in page.walk() if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for table in page.all("table"):
        assert table.all("caption") or table.attrs.get("aria-label")
        assert all(head.attrs.get("scope") in ("col", "row") for head in table.all("th"))
        assert all(head.text.strip() for head in table.all("thead")[0].all("th"))
        widths = {len(row.all("td", "th")) for row in table.all("tr")}
        assert len(widths) == 1
    inner = {id(below) for each in page.all("svg") for below in each.all("svg")}
    for picture in page.all("svg"):
        named = picture.attrs.get("role") == "img" and len(picture.attrs.get("aria-label", "")) > 3
        assert named or picture.attrs.get("aria-hidden") == "true" or id(picture) in inner
    for each in page.walk():
        label = each.attrs.get("aria-labelledby")
        assert label is None or label in ids


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_loaded_and_only_our_own_script_runs(name: str, drawn: Drawn) -> None:
    is_self_contained(parsed(drawn(name)[1]))


def is_self_contained(page: Element) -> None:
    """No address, no handler, no style attribute; the policy has the hashes of what is there."""
    for each in page.walk():
        assert not any(name.startswith("on") or name in ("style", "src") for name in each.attrs)
        assert each.attrs.get("href", "#").startswith(("#", "data:,"))
        assert each.tag not in ("img", "iframe", "object", "form", "base")
    (policy,) = [each for each in page.all("meta") if each.attrs.get("http-equiv") == "Content-Security-Policy"]
    (style,) = page.all("style")
    (script,) = [each for each in page.all("script") if "type" not in each.attrs]
    assert "http" not in script.text.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in style.text.replace("url(#hatch)", "")
    said = dict(rule.strip().split(" ", 1) for rule in policy.attrs["content"].split(";"))
    assert said["default-src"] == "'none'"
    for rule, content in (("style-src", style.text), ("script-src", script.text)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert said[rule] == f"'sha256-{digest}'"
    others = [each for each in page.all("script") if "type" in each.attrs]
    assert all(each.attrs["type"] == "application/json" and json.loads(each.text) for each in others)


@given(st.text(), st.text())
def test_whatever_a_page_is_given_is_text(name: str, sentence: str) -> None:
    made = Page(name, sentence, (Section("a", name, (Paragraph(sentence),)),), headline=sentence)
    text = html(made, "en", '{"a": "b"}', "0")
    assert not HIDDEN.search(text)
    page = parsed(text)
    is_self_contained(page)
    empty = html(Page("", "", (Section("a", "", (Paragraph(""),)),)), "en", '{"a": "b"}', "0")
    assert [each.tag for each in page.walk() if each.tag != "code"] == [each.tag for each in parsed(empty).walk()]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda deeper: st.lists(deeper) | st.dictionaries(st.text(), deeper)
    )
)
def test_a_document_goes_into_a_page_and_comes_out_the_same(content: Any) -> None:
    text = html(Page("", "", ()), "en", embedded_json({"content": content}), "0")
    assert held(parsed(text)) == {"content": content}
    assert text.count("</script>") == 2


def test_a_document_that_is_too_large_says_what_it_leaves_out() -> None:
    small = {"schema": "x/1", "health": []}
    assert json.loads(embedded_json(small)) == small
    large = {**small, "kernels": [{"name": "k" * 1000}] * 1000}
    assert json.loads(embedded_json(large)) == {**small, "left_out": ["kernels"]}
    assert json.loads(embedded_json({"health": ["x" * LARGEST_JSON]})) == {"left_out": ["all"]}


def test_a_page_that_is_too_large_is_made_again_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuledger.present.writers.html.page.LARGEST", LARGEST * 3 // 8)
    rows = tuple((f"{row}{'x' * 500}",) * 20 for row in range(1_000))
    columns = tuple(Column(f"name{at}", "Name", Unit.TEXT) for at in range(20))
    section = Section("a", "", (SheetBlock(Sheet("a", "A", columns, rows)),))
    document = Document(blocks=tuple, data=dict, sheets=tuple, page=lambda: Page("", "", (section,)))
    text = document_html(document, "en", "")
    assert len(text) < LARGEST * 3 // 8
    assert "(first 80 of 1000 rows)" in text  # 500 and 200 were too many


# Hostile input


@given(st.text())
def test_what_is_put_into_markup_is_text_and_ends_nothing(said: str) -> None:
    [paragraph] = parsed(MarkupWriter("en").put('<p title="{}">{}</p>', said, said)).walk()
    assert paragraph.attrs == {"title": visible(said)}
    assert "".join(map(str, paragraph.children)) == visible(said)


def hostile_page(folder: Path) -> str:
    """Kernels, ranges and the file are all called something bad, and one name is 64 kB long."""
    long = "".join(f"<b>{at}</b>" for at in range(8_000))[: 64 << 10]
    names = (*HOSTILE, long, "x" * (64 << 10))
    path = named_export(folder / "x.sqlite", names, ranges=(*HOSTILE, long))
    report = reported(path, Selection(range_pattern="step"))
    renamed = Report(HOSTILE[0], report.trace, report.window, report.devices, report.findings)
    return write(renamed.document(), "html", command=f"gpuledger report {HOSTILE[5]}")


def test_names_are_text_whatever_they_hold(tmp_path: Path) -> None:
    text = hostile_page(tmp_path)
    page = parsed(text)
    is_self_contained(page)
    is_accessible(page)
    assert len(text.encode()) < 600_000
    shown = page.one("kernel-table").text + page.one("ranges").text
    for name in HOSTILE[:2]:
        assert shown.count(name) >= 2
    assert "49" not in {cell.text for cell in page.all("td", "th")}
    assert "\\u202egnp.exe\\u200f" in shown
    assert "\\x1b[31mred\\x07" in shown
    assert not HIDDEN.search(text)
    assert "… (truncated: 65,536 characters in total)" in shown
    assert page.all("h1")[0].text == HOSTILE[0]


def test_any_number_of_long_names_fits(tmp_path: Path) -> None:
    names = [f"kernel_{at}_{'tile' * 60}<" + "&\u4e2d\x1b<\"'" * 150 for at in range(700)]
    report = reported(named_export(tmp_path / "many.sqlite", names, steps=2, ranges=names[:100]))
    text = page_of(report)
    assert len(text.encode()) < LARGEST
    page = parsed(text)
    assert max(len(fold.all("summary")[0].text) for fold in page.all("details")) < 200, "a fold's result is a sentence"
    table = page.one("kernel-table")
    rows, rest = values(table, 3), values(table, 3, foot=True)
    assert sum(rows) + sum(rest) == sum(kernel.times.total for kernel in cuda_gpu_kern_sum(report.trace))
    assert f"{700 - len(rows)} other kernels" in table.text


def test_a_program_that_names_every_item_anew_fits(tmp_path: Path) -> None:
    """Such a page had 30 MB: every range was in one description, and ties kept every frame of the flame graph."""
    count, words = 4_000, [f"{chr(0x4E00 + at)}{'分发合并专家' * 40}" for at in range(4_000)]
    with sqlite3.connect(minimal(tmp_path / "anew.sqlite")) as database:
        insert(database, "StringIds", [{"id": 10 + at, "value": word[::-1]} for at, word in enumerate(words)])
        rows = [kernel(2_000 * at + 700, 2_000 * at + 1_700, correlationId=at + 1) for at in range(count)]
        rows = [row | {"demangledName": 10 + at, "shortName": 10 + at} for at, row in enumerate(rows)]
        insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", rows)
        calls = [call(2_000 * at, 2_000 * at + 500, correlationId=at + 1) for at in range(count)]
        insert(database, "CUPTI_ACTIVITY_KIND_RUNTIME", calls)
        insert(
            database, "NVTX_EVENTS", [push(2_000 * at - 10, 2_000 * at + 900, word) for at, word in enumerate(words)]
        )
    database.close()
    report = reported(tmp_path / "anew.sqlite")
    text = page_of(report)
    assert len(text.encode()) < LARGEST
    assert all(len(tree) <= MOST_NODES + 1 for tree in flame_trees(report.trace, report.main_device))
    names = [shown for shown, *_ in json.loads(parsed(text).one("timeline-json").text)["names"]]
    assert 100 < len(names) < count
    assert "…" in names


def test_ten_thousand_kernels(tmp_path: Path) -> None:
    program = ROOT / "benchmarks" / "gen_nsys.py"
    subprocess.run([sys.executable, program, tmp_path / "big.sqlite", "10000"], check=True, capture_output=True)
    report = reported(tmp_path / "big.sqlite")
    text = page_of(report)
    page = parsed(text)
    is_accessible(page)
    assert len(text.encode()) < LARGEST * 0.6
    assert variation(report.main_device) is not None
    assert sum(values(page.one("kernel-table"), 4)) == 10_000


def test_an_empty_database_is_refused_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    sqlite3.connect(path).close()
    ran = gpuledger("report", path, "-o", tmp_path / "x.html")
    assert (ran.exit_code, ran.stderr[:7]) == (1, "error: ")
    assert not (tmp_path / "x.html").exists()


def test_every_tone_can_be_an_area_and_a_line(drawn: Drawn) -> None:
    """A line in a tone that the style sheet had no stroke for came out as a black area."""
    page = drawn("decode.sqlite")[1]
    assert [tone for tone in TONES if f".s-{tone} {{" not in page or f".f-{tone} {{" not in page] == []


@pytest.mark.parametrize("fixed", ["253402300800", "9" * 5000, "-1", "²", ""])
def test_a_fixed_time_that_is_no_date_is_not_taken(fixed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two were an internal error of every page."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "99999999999")
    assert made_at() == "5138-11-16T09:46:39Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", fixed)
    assert made_at()[:3] == "202"
