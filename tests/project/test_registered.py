"""What is registered is whole: a rule has its page and its test, a verb its module, page and test, and so on.

Each test names what is lacking, and where it belongs; CONTRIBUTING.md says how to add each kind of thing. Beside these,
tests/project/test_docs.py wants fresh pages of verbs; Chinese is asked for by `make check-chinese`, before a release.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import gpuledger as gpuledger_package
from gpuledger.cli.main import verb_named
from gpuledger.findings.memory import snapshot_findings
from gpuledger.findings.pages import codes, page
from gpuledger.findings.ranks import job_findings
from gpuledger.findings.rule import Rule
from gpuledger.findings.rules import REFUSALS, RULES
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.messages import translated
from gpuledger.present.views.schema import answer_types
from gpuledger.verbs import VERBS
from support.command import ROOT, gpuledger
from support.package_source import MODULES, PACKAGE, nodes

ALL_RULES = (*RULES, *snapshot_findings.RULES, *job_findings.RULES)
TESTS, DOCS = ROOT / "tests", ROOT / "docs"
TRANSLATED = sorted((PACKAGE / "findings" / "explain" / "zh").glob("*.md"))
"""A page that has no Chinese yet is shown in English."""


def _strings(folder: Path) -> set[str]:
    """Every string that is written out in the tests of a folder."""
    return {
        node.value
        for path in folder.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_rule_in_a_file_is_registered() -> None:
    """In `about_gaps.py`, `rules.py`, `memory/snapshot_findings.py` or `ranks/job_findings.py`."""
    files = {path.relative_to(PACKAGE.parent).with_suffix("") for path in (PACKAGE / "findings").glob("*/*.py")}
    modules = [import_module(".".join(path.parts)) for path in sorted(files)]
    defined = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    assert [rule.code for rule in defined if rule not in ALL_RULES] == ["KERNEL-HEADROOM"]


def test_every_code_has_its_page_and_every_page_its_code() -> None:
    assert set(codes()) == {rule.code for rule in ALL_RULES} | set(REFUSALS)
    assert [path for path in TRANSLATED if path.stem not in codes()] == []


@pytest.mark.parametrize("code", codes())
def test_a_page_has_all_its_sections(code: str) -> None:
    ran = gpuledger("explain", code.lower())
    assert ran.exit_code == 0
    assert ran.stdout.startswith(f"# {code}: ")
    sections = [line for line in ran.stdout.splitlines() if line.startswith("## ")]
    assert sections == ["## Symptom", "## How it was detected", "## Usual causes", "## Fix", "## How to verify"]


@pytest.mark.parametrize("code", [path.stem for path in TRANSLATED])
def test_a_page_in_chinese_has_the_sections_of_the_english_one(code: str) -> None:
    shown = gpuledger("explain", code, "--lang=zh").stdout
    assert shown.startswith(f"# {code}：")
    sections = [line for line in shown.splitlines() if line.startswith("## ")]
    assert sections == ["## 症状", "## 判断依据", "## 常见原因", "## 修复方法", "## 验证方法"]


_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", codes())
def test_a_page_shows_the_pattern_and_the_fix_before_and_after(code: str) -> None:
    """The picture closes the symptom."""
    symptom, fix = (re.split(r"^## .*$", page(code), flags=re.MULTILINE)[place] for place in (1, 4))
    (picture,) = re.findall(r"^```text\n(.*?)^```\s*\Z", symptom, re.MULTILINE | re.DOTALL)
    assert len(picture.splitlines()) <= 10
    changes = [block for _, block in _FENCED.findall(fix) if re.search(r"^(?:#|//) after", block, re.MULTILINE)]
    assert [re.match(r"(?:#|//) before", block) is not None for block in changes] == [True]
    assert len(changes[0].splitlines()) <= 14
    for language, block in _FENCED.findall(page(code)):
        if language == "python":
            ast.parse(block)


@pytest.mark.parametrize(("language", "quoted"), [("en", r"`idle: ([^`]+)`"), ("zh", "“空闲：([^”]+)”")])
def test_pages_call_causes_what_the_report_calls_them(language: str, quoted: str) -> None:
    labels = {translated(trigger.label, language) for trigger in TRIGGERS}
    named = [(code, name) for code in codes() for name in re.findall(quoted, page(code, language).replace("\n", " "))]
    assert [(code, name) for code, name in named if name not in labels] == []


def test_every_code_that_is_told_is_registered() -> None:
    """A code is written twice, in its rule and in what that finds."""
    told = {
        node.value
        for path in (PACKAGE / "findings").rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z]+(-[A-Z]+)+", str(node.value))
    }
    assert told - set(codes()) == set()


def test_every_rule_has_its_test() -> None:
    """A test of findings, or of the analysis they come from, that names the code, or a case in which it is told."""
    cases = "".join(path.read_text() for path in (*TESTS.glob("cases/*.md"), *TESTS.glob("findings/cases/*.md")))
    told = set(re.findall(r"[A-Z]+(?:-[A-Z]+)*", re.sub(r"absent [A-Z -]+|not \w+ [A-Z-]+", "", cases)))
    tested = told | _strings(TESTS / "findings") | _strings(TESTS / "analyse")
    planted = {
        node.value
        for node in nodes(TESTS / "support" / "traces" / "planted_findings.py")
        if isinstance(node, ast.Constant)
    }
    assert {rule.code for rule in ALL_RULES} - tested - planted == set()


def test_every_verb_has_its_module_and_every_module_its_verb() -> None:
    modules = {path.stem for path in (PACKAGE / "cli" / "verbs").glob("[a-z]*.py")}
    assert {name for name, verb in VERBS.items() if not verb.answers} <= modules <= set(VERBS)


NO_VERBS = {
    *("aligned_sides", "compared_sides", "definition", "history", "profiled_report", "profiles", "run_store"),
}


def test_a_verb_that_answers_is_a_function_in_python() -> None:
    """`gpuledger.NAME`: no module of ours may stand in its place."""
    answering = {name for name, verb in VERBS.items() if verb.answers}
    assert set(answering) <= set(dir(gpuledger_package))
    assert [name for name in answering if not isinstance(getattr(gpuledger_package, name), FunctionType)] == []
    modules = {path.stem for path in (PACKAGE / "verbs").glob("[a-z]*.py")}
    assert answering == modules - NO_VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_what_the_list_of_verbs_says(verb: str) -> None:
    assert (verb_named(verb).help or "").splitlines()[0] == VERBS[verb].help


def _called_verbs() -> Iterator[str]:
    """The first argument of every call of the command, and the verbs that a test is repeated for."""
    for path in TESTS.rglob("*.py"):
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name, first = ast.unparse(node.func).rpartition(".")[2], node.args[0].value
            if name in ("gpuledger", "gpuledger_process"):
                yield str(first)
            elif name == "parametrize" and first == "verb" and isinstance(node.args[1], ast.List):
                yield from (str(value.value) for value in node.args[1].elts if isinstance(value, ast.Constant))


def test_every_verb_has_a_test_that_calls_it() -> None:
    assert set(VERBS) - set(_called_verbs()) == set()


def test_every_cause_has_its_rule() -> None:
    """How it is recognised."""
    page = (DOCS / "concepts" / "ledger.md").read_text()
    assert [cause for cause in TRIGGERS if f"`{cause}`" not in page] == []


def _documents() -> set[str]:
    """The names of the JSON documents that the package writes or reads."""
    return {
        match[1]
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in [re.fullmatch(r"(gpuledger\.[\w-]+)/1", node.value)]
        if match
    }


WITHOUT_SCHEMA = {
    "gpuledger.runbook-state": "what `gpuledger run` keeps for itself, to go on later",
    "gpuledger.samples": "lines of text, not a document: docs/reference/samples.md",
}


def test_every_document_has_its_schema_and_every_schema_its_document() -> None:
    schemas = {path.stem.removesuffix("-1") for path in (DOCS / "schemas").glob("*.json")}
    typed = {f"gpuledger.{name}" for name in answer_types()}
    assert schemas == _documents() - WITHOUT_SCHEMA.keys() - typed
