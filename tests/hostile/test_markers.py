"""Markers in every text of every kind of file: what a terminal would obey comes out of no verb, in no format.

Each verb runs once, and its document is written in every format: text, Markdown, CSV, JSON and, where it has one, a
page. What it says beside that, on stderr or as an error, is held to the same.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
import shutil
import sqlite3
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuledger.cli.output import Output
from gpuledger.present import FORMATS, PAGE
from gpuledger.present.document import Document
from gpuledger.present.safe_text import visible, visible_json, visible_lines
from gpuledger.present.writers import write
from support.command import ROOT, gpuledger
from support.profiles.torch_traces import OURS

pytestmark = pytest.mark.usefixtures("profiles_read_once")

MARK = "\x1b]0;own\x07\x9b31m\u061c\u202e\u200b\U000e0041</script>"
"""A title for the window, a colour, text turned around, text that nobody sees, and the end of a script."""
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0041]")

Shown = dict[str, str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What documents are in every format, by format; filled while a verb runs."""
    texts: Shown = {}
    own = Output.show

    def show(self: Output, document: Document, *, remarks: object = ()) -> None:
        for form in (*FORMATS, *((PAGE,) if document.page is not None else ())):
            texts[form] = write(document, form, width=80 if form == "text" else None)
        texts["text, no width"] = write(document, "text")
        own(replace(self, format="csv"), document)  # with what is said beside it, on stderr

    monkeypatch.setattr(Output, "show", show)
    return texts


def held(shown: Shown, *arguments: str | Path, code: int = 0) -> None:
    """Run a verb: nothing in its output is obeyed, nothing ends a script, and there is output."""
    ran = gpuledger(*arguments)
    assert ran.exit_code == code, ran.stderr
    for form, text in {**shown, "stdout": ran.stdout, "stderr": ran.stderr}.items():
        raw = [text[max(found.start() - 40, 0) : found.end() + 10] for found in OBEYED.finditer(text)]
        assert not raw, (form, len(raw), raw[:3])
    if PAGE in shown:
        assert shown[PAGE].count("</script>") == shown[PAGE].count("<script")


# Nsight Systems


def planted(source: Path, target: Path) -> Path:
    """An export with the marker behind every text, but for names by which a value is looked up."""
    shutil.copy(source, target)
    with sqlite3.connect(target) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            for column in columns:
                if column != "name" or "value" not in columns:
                    database.execute(
                        f'UPDATE "{table}" SET "{column}" = "{column}" || ? WHERE typeof("{column}") = \'text\'',
                        (MARK,),
                    )
    database.close()
    return target


@pytest.fixture(scope="module")
def export(unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(unpacked("decode.sqlite"), tmp_path_factory.mktemp("marked") / f"run{MARK[:4]}.sqlite")


VERBS = (
    ("report",),
    ("info", "--verbose"),
    *((verb,) for verb in ("stats", "gaps", "steps", "memory", "ranges")),
    ("ops",),
    ("whatif", "--speedup=gemm=2"),
    ("kernels", "--set=verdict"),
    ("fleet", "--workers=0"),
)


@pytest.mark.parametrize("verb", VERBS, ids=lambda words: words[0])
def test_no_marker_of_an_export_comes_out_raw(verb: tuple[str, ...], export: Path, shown: Shown) -> None:
    held(shown, *verb, export)
    assert re.search(r"\\(x|u00)1b\]0;own", "".join(shown.values()))


def test_no_marker_in_an_answer_to_sql_comes_out_raw(export: Path, shown: Shown) -> None:
    held(shown, "query", export, "SELECT k.name, r.name FROM kernels k, ranges r LIMIT 40")
    assert re.search(r"\\(x|u00)1b\]0;own", "".join(shown.values()))


def test_no_marker_of_two_exports_comes_out_raw(export: Path, tmp_path: Path, shown: Shown) -> None:
    held(shown, "diff", export, export)
    held(shown, "align", export, export)
    base = tmp_path / "base.json"
    held(shown, "diff", export, f"--save-baseline={base}")
    assert OBEYED.search(base.read_text()) is None
    marked = tmp_path / "marked.json"
    marked.write_text(json.dumps(everywhere(json.loads(base.read_text()))))
    held(shown, "diff", "--anyway", marked, export)


def test_no_marker_is_raw_in_a_timeline_that_is_text(export: Path, tmp_path: Path, shown: Shown) -> None:
    held(shown, "export", export, "-o", tmp_path / "run.json")
    assert OBEYED.search((tmp_path / "run.json").read_text()) is None


_LOOKED_UP = ("schema", "lines", "kind", "cause", "trigger", "whole", "ph", "cat")
"""Keys of values that are no text, but one of a few words."""


def everywhere(value: Any) -> Any:
    """The same with the marker behind every text but keys."""
    match value:
        case str():
            return value + MARK
        case list():
            return [everywhere(item) for item in value]
        case dict():
            return {key: item if key in _LOOKED_UP else everywhere(item) for key, item in value.items()}
    return value


# Others


def test_no_marker_of_a_trace_of_torch_comes_out_raw(tmp_path: Path, shown: Shown) -> None:
    [attn] = [path for path in OURS if path.name == "moe_batched_gemm.json.gz"]
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(everywhere(json.loads(gzip.decompress(attn.read_bytes())))))
    for verb in (("report",), ("info", "--verbose"), ("ops",), ("stats",), ("fleet", "--workers=0")):
        held(shown, *verb, trace)


@pytest.mark.parametrize("name", ["layer_raw.csv", "layer_details.csv"])
def test_no_marker_of_a_report_of_nsight_compute_comes_out_raw(name: str, tmp_path: Path, shown: Shown) -> None:
    packed = lzma.decompress((ROOT / "captures" / "ncu" / f"{name}.xz").read_bytes())
    heading, *rows = csv.reader(io.StringIO(packed.decode(), newline=""))
    texts = {
        at for at, column in enumerate(heading) if column in ("Process Name", "Host Name", "Kernel Name", "Device")
    }
    texts |= {at for at, column in enumerate(heading) if column.startswith("Rule ")}
    report = tmp_path / "report.csv"
    with report.open("w", newline="") as file:
        marked = [[cell + MARK * (at in texts and cell != "") for at, cell in enumerate(row)] for row in rows]
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([heading, *marked])
    held(shown, "kernels", report)
    assert re.search(r"\\(x|u00)1b\]0;own", "".join(shown.values()))


PLAIN = MARK.replace("\U000e0041", "")  # YAML knows no pairs of surrogates
RUNBOOK = {
    "runbook": 1,
    "name": "marked",
    "question": f"Is it safe?{PLAIN}",
    "variables": {"note": f"a{PLAIN}"},
    "matrix": {"mode": [f"one{PLAIN}"]},
    "environment": {"TOY": f"b{PLAIN}"},
    "steps": [{"command": ["${python}", "-c", f"print('{PLAIN}')", "${note}", "${mode}"]}],
}


def test_no_marker_of_a_runbook_comes_out_raw(tmp_path: Path, shown: Shown) -> None:
    book = tmp_path / "marked.yaml"
    book.write_text(json.dumps(RUNBOOK))
    held(shown, "run", book, "--dry-run", "-o", tmp_path / "out")
    held(shown, "run", book, "-o", tmp_path / "out")
    for summary in ("summary.md", "summary.json", "state.json"):
        assert OBEYED.search((tmp_path / "out" / summary).read_text()) is None


# The boundary itself


def test_every_character_that_formats_controls_or_hides_is_spelled_out() -> None:
    letters = [chr(code) for code in range(sys.maxunicode + 1)]
    obeyed = [letter for letter in letters if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert [letter for letter in obeyed if visible(letter) == letter] == []
    assert visible_lines("a\n\tb\r") == "a\n\tb\\x0d"
    for letter in obeyed:
        text = visible_json(json.dumps(letter, ensure_ascii=False))
        assert json.loads(text) == letter
