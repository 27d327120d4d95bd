"""JSON documents (docs/reference/json.md): what a version wrote, later ones can read and write.

`tests/documents/VERSION.json.xz` holds the documents of a version, made of captures in this repository; they are never
changed. `STORE_DOCUMENTS=1 pytest tests/present/test_json_promise.py` stores those of the present one, for a release.
"""

from __future__ import annotations

import copy
import json
import lzma
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.verbs.questions import QUESTIONS
from gpuledger.version import own_version
from support.command import CAPTURES, ROOT, gpuledger
from support.document_keys import lost
from support.opened import plain
from support.schemas import schema_of

DOCUMENTS = ROOT / "tests" / "documents"
SCHEMAS = ROOT / "docs" / "schemas"
VERSIONS = [path.name.removesuffix(".json.xz") for path in sorted(DOCUMENTS.glob("*.json.xz"))]
TORCH = ROOT / "captures" / "torch" / "attn.json.gz"
NCU = ROOT / "captures" / "ncu"

COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "report": ("report", "attn"),
    "report-sampled": ("report", "metrics_llama", "--ncu", NCU / "metrics_llama.csv.xz"),
    "info": ("info", "attn"),
    "stats": ("stats", "attn"),
    **{name: (name, "attn") for name in QUESTIONS},
    "ops": ("ops", TORCH),
    "critical": ("critical", "attn"),
    "phases": ("phases", "attn"),
    "whatif": ("whatif", "attn", "--speedup=compute=2", "--fix=LAUNCH-BOUND"),
    "kernels": ("kernels", NCU / "layer_raw.csv.xz"),
    "stepkernels": ("kernels", "metrics_llama"),
    "ncu-plan": ("ncu-plan", "decode", "--", "python", "serve.py"),
    "diff": ("diff", "experts_batched", "experts_grouped", "--fail-on=step>2%"),
    "align": ("align", "attn", "decode", "--range=attention"),
    "fleet": ("fleet", "two_gloo"),
    "query": ("query", "attn", "SELECT step, duration_ns, note FROM steps ORDER BY step LIMIT 3"),
    "queryschema": ("query", "--schema"),
    "runbooks": ("run", "--list"),
}
"""Each document by name, and what writes it: words without a dash or an ending are captures."""

ELSEWHERE = {
    "bench": "needs torch; tests/workloads",
    "capture": "needs a profiler; tests/capture",
    "diagnosis": "scores a whole benchmark; tests/diagnosis",
    "diagnosis-answers": "what other tools write for that; tests/diagnosis",
    "doctor": "says what this machine is; tests/doctor",
    "runbook": "runs programs; tests/runbook",
    "time": "needs torch; tests/timing",
    "timepair": "needs torch; tests/timing",
}
"""Documents that cannot be written from a capture, and where they are held against their schemas."""


@cache
def written(name: str) -> dict[str, Any]:
    """The document as we write it today."""
    verb, *words = COMMANDS[name]
    arguments = [_file(word) for word in words]
    ran = gpuledger(str(verb), *arguments[:1], "--format=json", *arguments[1:])
    assert ran.exit_code in (0, 3), ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def _file(word: str | Path) -> str | Path:
    if isinstance(word, Path):
        return plain(word)
    packed = CAPTURES / f"{word}.sqlite.xz"
    return plain(packed) if packed.exists() else word


@cache
def baseline() -> dict[str, Any]:
    """What `diff --save-baseline` writes, which a later version is to read."""
    saved = plain(CAPTURES / "attn.sqlite.xz").with_name("baseline.json")
    gpuledger("diff", plain(CAPTURES / "attn.sqlite.xz"), f"--save-baseline={saved}", "--force")
    document: dict[str, Any] = json.loads(saved.read_text())
    return document


@cache
def stored(version: str) -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = json.loads(lzma.decompress((DOCUMENTS / f"{version}.json.xz").read_bytes()))
    return documents


def today(name: str) -> dict[str, Any]:
    return baseline() if name == "baseline" else written(name)


def hold_against_its_schema(name: str, document: dict[str, Any]) -> None:
    """The documents of questions are all described by gpuledger.tables-1.json."""
    schema_of("tables" if name in QUESTIONS else name.removesuffix("-sampled")).validate(document)


EVERY = [*COMMANDS, "baseline"]


def test_every_document_is_looked_at() -> None:
    schemas = {path.stem.removeprefix("gpuledger.").removesuffix("-1") for path in SCHEMAS.glob("*-1.json")}
    assert schemas - {"tables"} == {name.removesuffix("-sampled") for name in EVERY if name not in QUESTIONS} | (
        ELSEWHERE.keys()
    )


@pytest.mark.skipif("STORE_DOCUMENTS" not in os.environ, reason="only for a release")
def test_the_documents_of_this_version_are_stored() -> None:
    target = DOCUMENTS / f"{own_version()}.json.xz"
    assert not target.exists(), "what a version wrote is never changed"
    documents = {name: today(name) for name in EVERY}
    target.write_bytes(lzma.compress(json.dumps(documents, ensure_ascii=False).encode(), preset=9))


@pytest.mark.usefixtures("profiles_read_once", "ncu_asked_once")
@pytest.mark.parametrize("name", EVERY)
def test_documents_of_today_hold_against_their_schemas(name: str) -> None:
    hold_against_its_schema(name, today(name))


@pytest.mark.parametrize("version", VERSIONS)
def test_old_documents_hold_against_the_schemas_of_today(version: str) -> None:
    assert stored(version).keys() <= set(EVERY)
    for name, document in stored(version).items():
        hold_against_its_schema(name, document)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_key_of_an_old_document_is_in_that_of_today(version: str) -> None:
    """With the same number behind its name: a document that loses a key is gpuledger.NAME/2."""
    for name, document in stored(version).items():
        if document["schema"] == today(name)["schema"]:
            assert lost(document, today(name)) == [], name


def test_a_baseline_of_an_old_version_is_still_read(tmp_path: Path) -> None:
    for version in VERSIONS:
        kept = tmp_path / f"{version}.json"
        kept.write_text(json.dumps(stored(version)["baseline"]))
        ran = gpuledger("diff", kept, plain(CAPTURES / "attn.sqlite.xz"))
        assert (ran.exit_code, ran.stdout.startswith("# No change") or "No change" in ran.stdout) == (0, True)


def test_what_is_stored_names_no_machine_and_no_place() -> None:
    for version in VERSIONS:
        said = json.dumps(stored(version))
        assert re.findall(r'"/(?:home|tmp|root|work)/[^"]*|[\w.]+\.local\b', said) == []


# The check itself


def _removals(content: Any) -> Iterator[Any]:
    """The document without one of its keys, for each of them; of a list, without it in all items."""
    if isinstance(content, dict):
        for key in content:
            yield {other: value for other, value in content.items() if other != key}
        for key, value in content.items():
            for less in _removals(value):
                yield content | {key: less}
    elif isinstance(content, list) and content and all(isinstance(item, dict) for item in content):
        for key in dict.fromkeys(key for item in content for key in item):
            yield [{other: value for other, value in item.items() if other != key} for item in content]


def test_no_key_can_go_unnoticed() -> None:
    document = {"a": 1, "b": [{"c": 1}, {"c": 2, "d": None}, {"d": [{"e": 1}]}], "f": {"g": {"h": "x"}}, "i": []}
    assert lost(document, copy.deepcopy(document)) == []
    changed = list(_removals(document))
    assert len(changed) == 8
    assert [less for less in changed if not lost(document, less)] == []


@pytest.mark.parametrize(
    ("old", "new", "noticed"),
    [
        ({"ns": 1}, {"ns": 1.5}, ["$.ns: was integer, is number"]),
        ({"share": 0.5}, {"share": 1}, []),
        ({"ns": 1}, {"ns": None}, []),
        ({"ns": None}, {"ns": 1}, []),
        ({"is": True}, {"is": 1}, ["$.is: was boolean, is integer"]),
        ({"a": [{"b": 1}]}, {"a": [{"b": "1"}]}, ["$.a[].b: was integer, is string"]),
        ({"a": [{"b": 1}]}, {"a": []}, []),
        ({"a": [1, 2]}, {"a": {"b": 1}}, ["$.a: was list, is object"]),
        ({"a": 1}, {"a": 1, "b": 2}, []),
    ],
)
def test_a_type_that_changes_is_noticed(old: Any, new: Any, noticed: list[str]) -> None:
    assert lost(old, new) == noticed


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )
)
def test_a_document_lacks_nothing_of_itself(document: Any) -> None:
    assert lost(document, document) == []
