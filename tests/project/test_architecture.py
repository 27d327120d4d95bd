"""The rules of the house, kept by a test: which way imports point, and what happens in one place only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.trace.tables import Table
from support.command import ROOT

PACKAGE = ROOT / "src" / "gpuledger"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAY_IMPORT = {
    "errors": set(),
    "messages": set(),
    "limits": set(),
    "units": set(),
    "config": {"errors"},
    "model": {"native"},
    "capture": {"errors"},
    "doctor": {"errors", "capture"},
    "native": set(),
    "read": {"errors", "limits", "messages", "units", "model", "capture", "native"},
    "analyse": {"errors", "messages", "units", "model"},
    "findings": {"messages", "units", "model", "analyse"},
    "comparison": {"model", "analyse"},
    "report": {"errors", "messages", "model", "analyse", "findings"},
    "render": {"messages", "units", "model", "analyse", "findings", "report", "runbook", "doctor"},
    "fleet": {"errors", "limits", "units", "model", "read", "analyse"},
    "export": {"errors", "messages", "units", "model", "analyse", "findings", "report"},
    "runbook": {"errors", "units", "capture"},
    "workloads": {"capture"},
    "cli": {
        "config",
        "errors",
        "limits",
        "messages",
        "units",
        "model",
        "capture",
        "read",
        "analyse",
        "findings",
        "report",
        "render",
        "export",
        "fleet",
        "doctor",
        "runbook",
        "workloads",
    },
}
"""What each part may import besides itself. `capture` hands over paths, so only `read` knows it, for .nsys-rep."""


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it, types left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    here = part(path)
    if here in ("__init__", "__main__"):
        return
    used = {name.split(".")[1] for name in imported(path) if name.startswith("gpuledger.")}
    assert used - {here} <= MAY_IMPORT[here]


@pytest.mark.parametrize(
    ("module", "home"),
    [("sqlite3", "read/sqlite.py"), ("subprocess", "capture/run.py"), ("pyarrow", "read/arrow.py")],
)
def test_one_place_each(module: str, home: str) -> None:
    users = {str(path.relative_to(PACKAGE)) for path in MODULES if module in {n.split(".")[0] for n in imported(path)}}
    assert users - {"model/tables.py"} == {home}  # tables.py converts to Arrow on request


def calls(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}


def test_only_the_source_opens_profiles() -> None:
    openers = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if any(name == "open" or name.endswith((".open", ".read_bytes", ".read_text")) for name in calls(path))
    }
    # main opens /dev/null when a pipe closes; pages are part of the package; stream opens members of what source opened
    # diff appends to the summary of a GitHub job
    # replacing puts whole files in their places; serve hands out the files of the Perfetto UI, and a timeline
    # shelf maps the files of the cache, which it wrote itself
    writers = {"cli/main.py", "cli/diff.py", "cli/replacing.py", "export/serve.py", "read/shelf.py"}
    # probe and leftovers read /proc; runbook/files its runbooks and logs; json_file what is handed to a workload
    others = {"doctor/probe.py", "capture/leftovers.py", "runbook/files.py", "workloads/parts/json_file.py"}
    assert openers <= {"read/source.py", "read/stream.py", "findings/pages.py", "config.py"} | writers | others


def test_only_the_command_line_prints() -> None:
    printers = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if calls(path) & {"print", "click.echo", "sys.stdout.write", "sys.stderr.write"}
    }
    # workloads are programs; __main__ says that it was interrupted before the command line was there
    assert all(each.startswith(("cli/", "workloads/")) for each in printers - {"__main__.py"})


def test_only_spans_sweeps_intervals() -> None:
    """`maximum.accumulate` is how one merges intervals with numpy; spans asks sweep, which may be compiled."""
    users = {str(path.relative_to(PACKAGE)) for path in MODULES if "np.maximum.accumulate" in calls(path)}
    assert users == {"model/spans.py", "model/sweep.py"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_small_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    assert ast.get_docstring(ast.parse(text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno <= 75, node.name


def test_no_exception_is_swallowed() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, path
                assert not all(isinstance(each, ast.Pass) for each in node.body), path


@pytest.mark.parametrize("table", Table, ids=lambda table: table.value)
def test_every_column_is_documented(table: Table) -> None:
    assert table.schema.row
    assert all(len(column.meaning) > 8 for column in table.schema.columns)
    assert len({column.name for column in table.schema.columns}) == len(table.schema.columns)


@pytest.mark.parametrize("heavy", ["numpy", "rich", "sqlite3", "platformdirs", "json"])
def test_help_loads_nothing_heavy(heavy: str) -> None:
    code = "import sys; from gpuledger.cli.main import cli; cli.main(['--help'], standalone_mode=False); "
    code += f"sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, gpuledger; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names_are_there() -> None:
    import gpuledger

    for name in gpuledger.__all__:
        assert getattr(gpuledger, name) is not None
    assert sorted(gpuledger._HOMES) == gpuledger.__all__ == dir(gpuledger)
