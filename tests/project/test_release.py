"""What a release runs on: locked by hash, listed in a bill of materials, looked up among known vulnerabilities."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.command import ROOT

RELEASE = ROOT / "release"
pytestmark = pytest.mark.skipif(not RELEASE.is_dir(), reason="not part of what was unpacked")


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(RELEASE / f"{name}.py"), run_name="release")


def locked(name: str = "requirements.txt") -> dict[str, tuple[str, list[str]]]:
    found: dict[str, tuple[str, list[str]]] = script("sbom")["locked"]((RELEASE / name).read_text())
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[ ;]", each)[0].lower() for each in requirements}


def test_every_dependency_is_locked_by_hash() -> None:
    wanted = names(script("lock")["wanted"]())
    assert {"click", "numpy", "distributed", "markdown-it-py"} <= wanted <= locked().keys()
    tools = names(script("lock")["tools"]())
    assert {"setuptools", "setuptools-scm", "ziglang"} <= tools <= locked("requirements-build.txt").keys()
    assert all(digests for _, digests in (*locked().values(), *locked("requirements-build.txt").values()))


def test_the_bill_of_materials_names_each_with_its_hashes() -> None:
    bill = script("sbom")["bill"]((RELEASE / "requirements.txt").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "gpuledger")
    listed = {
        each["name"]: (each["version"], [digest["content"] for digest in each["externalReferences"][0]["hashes"]])
        for each in bill["components"]
    }
    assert listed == locked()
    assert {each["purl"] for each in bill["components"]} == set(bill["dependencies"][0]["dependsOn"])
    json.dumps(bill)


def test_wheels_hold_the_parts_that_setup_compiles() -> None:
    setup = (ROOT / "setup.py").read_text()
    parts = {
        f"gpuledger/{part}/native/{name}.abi3.so" for part, name in re.findall(r'_part\(\s*"(\w+)",\s*"(\w+)"', setup)
    }
    parts |= {f"gpuledger/capture/native/{name}.abi3.so" for name in re.findall(r'_preloaded\("(\w+)"', setup)}
    assert script("wheels")["PARTS"] == parts


@pytest.mark.parametrize(
    ("files", "zig", "wrong"),
    [
        (["gpuledger/py.typed"], "", None),
        (["gpuledger/trace/native/_btree.abi3.so"], "", "has ['gpuledger/trace/native/_btree.abi3.so'], not []"),
        (["gpuledger/trace/native/btree.c"], "", "btree.c"),
        (["gpuledger/py.typed"], "x86_64-linux-gnu.2.17", "has [], not ['gpuledger/capture/native/_plain_window"),
        (None, "x86_64-linux-gnu.2.17", "was not built; there are other.whl"),
    ],
)
def test_a_wheel_that_is_not_whole_is_refused(
    files: list[str] | None, zig: str, wrong: str | None, tmp_path: Path
) -> None:
    module = script("wheels")
    made = tmp_path / "made.whl"
    with zipfile.ZipFile(tmp_path / "other.whl" if files is None else made, "w") as archive:
        for name in files or ():
            archive.writestr(name, b"")
    if wrong is None:
        module["check"](made, module["Target"]("any", zig))
        return
    with pytest.raises(module["WheelIsWrong"], match=re.escape(wrong)):
        module["check"](made, module["Target"]("manylinux_2_17_x86_64", zig))


NO_FLAW = json.dumps({"dependencies": [{"name": "a", "version": "1", "vulns": []}]})
FLAW = {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}


@pytest.mark.parametrize(
    ("dependencies", "stderr", "code", "said"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], "", 0, "no known vulnerability in 1 packages"),
        ([FLAW], "", 1, "a 1: PYSEC-1, fixed in 2"),
        (
            [{"name": "a", "skip_reason": "not found"}],
            "",
            3,
            "not audited: all of it: advisories cannot be reached (not found)",
        ),
        ([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "x"}], "", 3, "not audited: b"),
        ([{"name": "b", "skip_reason": "x"}, FLAW], "", 1, "a 1: PYSEC-1, fixed in 2"),
        ([], "", 3, "not audited"),
        (None, "requests.exceptions.ConnectionError: Max retries exceeded", 3, "nothing was audited"),
        (None, "error: the file is no list of requirements", 1, "audit failed"),
    ],
)
def test_an_audit_fails_where_something_is_known_or_nothing_can_be_looked_up(
    dependencies: list[dict[str, Any]] | None, stderr: str, code: int, said: str
) -> None:
    stdout = "" if dependencies is None else json.dumps({"dependencies": dependencies})
    found = script("audit")["verdict"](int(bool(stderr) or code), stdout, stderr)
    assert found[0] == code
    assert said in found[1]


@pytest.mark.parametrize(
    ("words", "makes", "code"),
    [([], 3, 3), (["--offline-ok"], 3, 0), (["--offline-ok"], 1, 1), (["--offline-ok"], 0, 0)],
)
def test_only_ci_passes_where_nothing_could_be_looked_up(
    words: list[str], makes: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = script("audit")
    outputs = {3: ("", "ConnectionError"), 1: (json.dumps({"dependencies": [FLAW]}), ""), 0: (NO_FLAW, "")}
    ran = subprocess.CompletedProcess([], int(makes != 0), *outputs[makes])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ran)
    monkeypatch.setattr("sys.argv", ["audit.py", *words])
    assert audit["main"]() == code
    assert ("WARNING: NO ADVISORY WAS LOOKED UP" in capsys.readouterr().out) == (makes == 3 and code == 0)
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    assert "audit AUDIT=\n" in makefile.partition("\nrelease: ")[2].partition("\n\n")[0]
    assert "make audit AUDIT=--offline-ok" in ci


def test_a_figure_that_is_edited_or_stale_fails_the_release() -> None:
    figures = json.loads((RELEASE / "figures.json").read_text())["figures"]
    complaints, today = script("figures")["complaints"], date.fromisoformat(figures[0]["stored"])
    pages = {page: (ROOT / page).read_text() for figure in figures for page in figure["stands"]}
    assert complaints(figures, pages.__getitem__, lambda *_: True, today) == []
    edited = {**pages, "README.md": pages["README.md"].replace("[70 of 73", "[72 of 73")}
    [complaint] = complaints(figures, edited.__getitem__, lambda *_: True, today)
    assert "README.md does not say '[70 of 73 programs]'" in complaint
    later = today + timedelta(days=60)
    stale = complaints(figures, pages.__getitem__, lambda _, paths: "src/gpuledger/replay" in paths, later)
    assert [complaint.partition(":")[0] for complaint in stale] == ["error of replayed savings"]
