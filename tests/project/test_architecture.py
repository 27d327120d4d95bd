"""The rules of the house, kept by a test: which way imports point, and what happens in one place only.

A rule that holds for every file is one test that goes through all of them: its failure names each offender.
"""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from gpuledger.trace.tables import Table
from support.command import ROOT
from support.package_source import (
    MODULES,
    PROGRAMS,
    WORKLOADS,
    called,
    imported,
    nodes,
    part,
    relative,
    tree,
    used_of,
    used_parts,
)

TESTS = ROOT / "tests"
TEST_MODULES = sorted(TESTS.rglob("*.py"))

PARTS = (
    *(
        "regex",
        "errors",
        "limits",
        "stages",
        "units",
        "version",
        "messages",
        "rows",
        "visible_text",
        "json_types",
        "selection",
    ),
    *("verdicts", "system", "config", "trace", "catalog", "capture", "doctor", "timing", "runbook", "read", "ledger"),
    *(
        "replay",
        "attribution",
        *("analyse.timeline", "analyse.idle", "analyse.roofline", "analyse.utilization", "analyse.operators"),
        *("analyse.light", "analyse.kernels", "analyse.memory", "analyse.recorded", "analyse.phases"),
        *("analyse.diff", "analyse.ranges", "analyse.align", "analyse.ranks"),
        "findings",
        "changes",
        "answers",
        "sql",
        "jobs",
        "diagnosis",
        "present",
        "export",
        "verbs",
        "agents",
    ),
)
"""From the bottom up: a part imports only what stands before it. The command line and the face may know all."""

FACES = ("__init__", "__main__", "cli")


def test_every_part_has_its_place() -> None:
    known = {part(path) for path in MODULES} - {"analyse"}
    assert known - set(PARTS) == set(FACES) & known


def test_imports_point_one_way() -> None:
    wrong = [
        (relative(path), used)
        for path in MODULES
        if part(path) not in (*FACES, "analyse")
        for used in used_parts(path) - set(PARTS[: PARTS.index(part(path)) + 1])
    ]
    assert wrong == []


def test_nobody_imports_the_faces() -> None:
    assert {relative(path): used for path in MODULES if (used := used_parts(path) & {"cli"})} == {
        "__main__.py": {"cli"}
    }


def test_programs_to_profile_know_nothing_of_us_but_windows() -> None:
    """And we know nothing of them: `bench` imports them by name, and `lab`, which is in no wheel, is for captures."""
    core = {str(path.relative_to(ROOT)): names for path in PROGRAMS if (names := used_of(path, "gpuledger"))}
    assert {name for names in core.values() for name in names} == {"gpuledger.capture.window"}
    borrowers = [path for path in (*MODULES, *WORKLOADS) if used_of(path, "lab")]
    assert borrowers + [path for path in MODULES if used_of(path, "gpuledger_workloads")] == []


@pytest.mark.parametrize(
    ("module", "homes"),
    [
        ("sqlite3", {"read/sqlite.py"}),
        ("subprocess", {"system/processes.py"}),
        ("mcp", {"agents/server.py"}),
        ("duckdb", {"sql/statement.py"}),
        (
            "pyarrow",
            {"read/nsys/other_exports.py", "trace/tables.py", "system/parquet_rows.py"},
        ),  # the latter converts to Arrow on request
    ],
)
def test_one_place_each(module: str, homes: set[str]) -> None:
    users = {relative(path) for path in MODULES if module in {name.split(".")[0] for name in imported(path)}}
    assert users == homes
    assert [path for path in PROGRAMS if module in {name.split(".")[0] for name in imported(path)}] == []


OPENERS = {
    "system/kept_files.py": "a sample of a file's bytes, to tell whether it changed",
    "read/source.py": "profiles",
    "read/stream.py": "members of what source opened",
    "read/cache/store.py": "the cache, which it wrote itself",
    "config.py": "the user's settings",
    "messages/__init__.py": "translations, which are part of the package",
    "findings/rules.py": "pages, which are part of the package",
    "present/writers/html/page.py": "the style sheet and the scripts, which are part of the package",
    "diagnosis/cases.py": "the cases, which are part of the package, and a tool's answers",
    "diagnosis/score.py": "archives of our own captures",
    "capture/python_samples.py": "what the sampler wrote, to put it together",
    "capture/python_stacks.py": "/proc, and the symbols of a program that runs Python",
    "read/python_samples.py": "samples beside a profile",
    "capture/record.py": "what a program's environment was seen to be, and its windows without a profiler",
    "capture/launchers.py": "a script of ours that goes to another machine",
    "capture/torch_runner.py": "where it notes windows when nothing is recorded",
    "read/plain_window.py": "the manifest beside a profile",
    "system/opening.py": "what belongs to profiles, below the folders that may be read",
    "system/files.py": "whole files, put in their places, and one for what arrives on standard input",
    "system/resources.py": "/proc and /sys",
    "system/processes.py": "/proc",
    "doctor/check.py": "/proc and /sys",
    "export/perfetto_server.py": "the files of the Perfetto UI, and a timeline",
    "runbook/engine.py": "runbooks and their logs",
    "cli/main.py": "/dev/null, when a pipe closes",
    "findings/pages.py": "the pages about findings, which are part of the package",
    "cli/help.py": "the questions that commands answer, a file of the package",
    "cli/verbs/view.py": "a timeline that is written already",
    "cli/verbs/diff.py": "the summary of a GitHub job, to which it appends",
}
"""Who opens files, and which."""


def test_only_the_source_opens_profiles() -> None:
    endings = (".open", ".read_bytes", ".read_text")
    openers = {
        relative(path) for path in MODULES if any(name == "open" or name.endswith(endings) for name in called(path))
    }
    assert openers - OPENERS.keys() == set()


MEMBERS = {"archive.open", "tarfile.open", "info.is_dir"}
"""Calls of archives' members, which lie in a file that is open."""

GLOBS = {"jobs/run.py": {"glob.glob", "match.is_dir"}}
"""What follows links, and is left out where only some folders may be read."""


def test_what_an_agent_reaches_asks_the_file_system_by_one_module() -> None:
    """By any other, a link could lead out of the folders that the agent may read."""
    asking = (".exists", ".is_file", ".is_dir", ".stat", ".iterdir", ".glob", ".rglob", ".open", "read_bytes")
    others = {"open", "os.walk", "os.listdir", "os.scandir", "os.stat", "shutil.copyfile", "pa.OSFile", "pa.memory_map"}
    found = {
        relative(path): {name for name in called(path) if name.endswith(asking) or name in others} - MEMBERS
        for path in MODULES
        if part(path) in ("read", "jobs", "agents")
    }
    assert {path: names for path, names in found.items() if names} == GLOBS


def test_only_the_command_line_prints() -> None:
    printing = {"print", "click.echo", "sys.stdout.write", "sys.stderr.write"}
    printers = {relative(path) for path in MODULES if part(path) != "cli" and called(path) & printing}
    # __main__ says that it was interrupted before the command line was there; doctor starts the other two as programs
    assert printers == {"__main__.py", "doctor/trial_launches.py", "doctor/trial_torch.py"}


def test_only_spans_sweeps_intervals() -> None:
    """`maximum.accumulate` is how one merges intervals with numpy; spans asks sweep, which may be compiled."""
    users = {relative(path) for path in MODULES if "np.maximum.accumulate" in called(path)}
    assert users == {"trace/spans.py", "trace/sweep.py"}


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in (*MODULES, *PROGRAMS) if not ast.get_docstring(tree(path))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


SHARED_CLASS_NAMES = 1
"""How many names of classes stand in more than one file. It only falls."""


def test_a_class_name_stands_once() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in (*MODULES, *PROGRAMS):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert len(shared) <= SHARED_CLASS_NAMES, shared


def test_no_exception_is_swallowed() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (*MODULES, *PROGRAMS)
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or all(isinstance(statement, ast.Pass) for statement in node.body))
    ]
    assert silent == []


def test_every_column_is_documented() -> None:
    for table in Table:
        columns = table.schema.columns
        assert table.schema.row, table
        assert [column.name for column in columns if len(column.meaning) <= 8] == [], table
        assert len({column.name for column in columns}) == len(columns), table


def test_no_test_imports_from_another() -> None:
    """What tests share is in `support`, or in the folder of files that try to break us."""
    borrowed = {
        str(path.relative_to(TESTS)): names
        for path in TEST_MODULES
        if (names := {name for name in imported(path) if any(word.startswith("test_") for word in name.split("."))})
    }
    assert borrowed == {}


NO_PART = {"project", "chinese", "hostile", "torture", "support", "workloads"}
"""Folders of tests that belong to no one part: of the repository, of Chinese, of files that try to break us, of what
they cost, of the programs to profile, which are a distribution of their own."""


def test_tests_lie_beside_their_parts() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TEST_MODULES if path.parent != TESTS}
    assert folders - NO_PART <= {part(path) for path in MODULES}
    assert [path.name for path in TESTS.glob("*.py")] == ["conftest.py"]
    names = [path.name for path in TEST_MODULES if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))  # pytest's report is read by the name of the file
