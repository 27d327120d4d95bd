"""Names are untrusted text: in every format they are shown, and nothing of them is obeyed.

The oracle is the same profile with plain names: a page, a table or a document made from either has the same structure.
"""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpuledger.present.safe_text import visible_lines
from hostile.forked import server
from hostile.texts import TEXTS, harmless, profile

NASTY = list(TEXTS.values())
VERBS = ("report", "info", "stats", "ranges", "gaps", "steps", "memory")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The profile with nasty names, and the one with plain ones."""
    folder = tmp_path_factory.mktemp("texts")
    return profile(folder / "nasty.sqlite", NASTY), profile(folder / "plain.sqlite", harmless(NASTY))


def output(verb: str, form: str, path: Path, folder: Path) -> str:
    more = ("--verbose",) if verb == "info" else ()
    ran = server().run(verb, f"--format={form}", *more, path, folder=folder, environment={"COLUMNS": "80"})
    assert ran.exit_code == 0, ran.said
    assert CONTROL.search(ran.said) is None
    assert not [deed for deed in ran.deeds if "canary" in deed or "/cache" not in deed]
    return ran.stdout.decode()


@pytest.mark.parametrize("verb", VERBS)
def test_text_shows_what_a_terminal_would_obey(verb: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    shown = output(verb, "text", pair[0], tmp_path)
    assert CONTROL.search(shown) is None
    assert shown.count("\n") < 40 * (len(NASTY) + 10)


class _Tags(HTMLParser):
    """The tags of a page with the names of their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        led_to = [value or "" for name, value in attrs if name in ("href", "src", "action", "style")]
        assert not any("javascript:" in value or "x.example" in value for value in led_to)
        self.tags.append((tag, tuple(sorted(name for name, _ in attrs))))

    def handle_data(self, data: str) -> None:
        self.text += data


def tags(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_markdown_has_no_markup_but_ours(verb: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    render = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").render
    nasty, plain = (output(verb, "md", path, tmp_path / path.stem) for path in pair)
    assert CONTROL.search(nasty) is None
    made = tags(render(nasty))
    assert made.tags == tags(render(plain)).tags
    if verb in ("report", "stats", "ranges"):
        assert "</SCRIPT" in made.text


@pytest.mark.parametrize("verb", VERBS)
def test_csv_keeps_its_shape_and_its_names(verb: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    more = {path: output(verb, "csv", path, tmp_path / path.stem) for path in pair}
    nasty, plain = ([len(row) for row in csv.reader(io.StringIO(more[path], newline=""))] for path in pair)
    assert nasty == plain
    assert CONTROL.search(more[pair[0]].replace("\t", "")) is None
    for row in csv.reader(io.StringIO(more[pair[0]], newline="")):
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            assert not cell.startswith("-") or re.fullmatch(r"-[\d.]*", cell)


def test_csv_gives_names_back_with_what_a_terminal_obeys_spelled_out(pair: tuple[Path, Path], tmp_path: Path) -> None:
    text = server().run("stats", "--report=cuda_gpu_kern_sum", "--format=csv", pair[0], folder=tmp_path).stdout.decode()
    names = {row[-1] for row in csv.reader(io.StringIO(text, newline="")) if row}
    for name in map(visible_lines, NASTY):
        assert name in names or f"'{name}" in names


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_json_and_a_terminal_obeys_none_of_it(verb: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    text = output(verb, "json", pair[0], tmp_path)
    assert json.loads(text)
    assert CONTROL.search(text) is None


def test_json_gives_names_back_to_the_letter(pair: tuple[Path, Path], tmp_path: Path) -> None:
    text = server().run("stats", "--report=cuda_gpu_kern_sum", "--format=json", pair[0], folder=tmp_path).stdout
    [report] = json.loads(text)["reports"]
    assert {row["name"] for row in report["rows"]} == set(NASTY)


def test_a_page_has_no_markup_but_ours(pair: tuple[Path, Path], tmp_path: Path) -> None:
    pages = []
    for path in pair:
        target = tmp_path / f"{path.stem}.html"
        ran = server().run("report", path, "-o", target, folder=tmp_path / path.stem)
        assert ran.exit_code == 0, ran.said
        pages.append(tags(target.read_text()))
    nasty, plain = pages
    assert {*nasty.tags} <= {*plain.tags}  # how many rows a table shows also depends on what is alike in it
    for tag in ("script", "style", "img", "svg", "iframe", "object", "link", "base", "meta", "form"):
        assert [each for each in nasty.tags if each[0] == tag] == [each for each in plain.tags if each[0] == tag]
    assert "<script>alert(1)</script>" in nasty.text
