"""Reports, pages and all verbs that read need no extra, and no compiled part."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from support.command import PATIENCE_S, ROOT, clean_environment, gpuledger
from support.profiles.opened import plain

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ONLY = """
import json, sys
allowed = set(json.loads(sys.argv[1])) | sys.stdlib_module_names | {"gpuledger", "__mp_main__"}
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"{name} comes with an extra", name=name)
sys.meta_path.insert(0, Refused())
from gpuledger.cli.main import cli
for arguments in json.loads(sys.argv[2]):
    cli.main(arguments, standalone_mode=False)
"""
"""A process that has the standard library, the packages named first and nothing else."""


def named(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ;(]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def closure(requirements: list[str]) -> set[str]:
    """The distributions that pip would install for these, with all that they need in turn."""
    found = set[str]()
    left = [named(each) for each in requirements]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [named(each) for each in metadata.requires(name) or () if "extra ==" not in each]
    return found


def modules(distributions: set[str]) -> set[str]:
    owners = metadata.packages_distributions()
    return {
        name for name, owned in owners.items() if {each.lower().replace("_", "-") for each in owned} & distributions
    }


def test_the_verbs_that_read_need_no_extra(tmp_path: Path) -> None:
    profile, trace = plain(ROOT / "captures/nsys/attn.sqlite.xz"), ROOT / "captures/torch/attn.json.gz"
    page, other = tmp_path / "page.html", tmp_path / "diff.html"
    verbs = (
        "report",
        "info",
        "stats",
        "gaps",
        "steps",
        "ranges",
        "whatif",
        "memory",
    )
    calls = [[verb, str(profile)] for verb in verbs]
    calls += [["whatif", str(profile), "--speedup=gemm=2"], ["explain", "HOST-SYNC"], ["ops", str(trace)]]
    calls += [["report", str(profile), "--lang=zh", "--output", str(page)]]
    calls += [["diff", str(profile), str(profile), "--output", str(other)]]
    calls += [["export", str(profile), "--output", str(tmp_path / "run.pftrace")]]
    allowed = modules(closure(PROJECT["dependencies"]))
    assert {"numpy", "markdown_it"} <= allowed
    ran = subprocess.run(
        [sys.executable, "-c", ONLY, json.dumps(sorted(allowed)), json.dumps(calls)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert all(path.read_text().rstrip().endswith("</html>") for path in (page, other))


def test_without_compiled_parts_the_report_is_the_same() -> None:
    """What the wheel for all other platforms gives; each part has its own test beside it."""
    profile = plain(ROOT / "captures/nsys/attn.sqlite.xz")
    ran = gpuledger("report", profile, "--no-cache", COLUMNS="80", GPULEDGER_NATIVE="0")
    assert ran.stdout == (ROOT / "tests" / "golden" / "attn.txt").read_text()
