"""The packages as text: their modules, parsed once, and what each of them imports and calls."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from support.command import ROOT

PACKAGE = ROOT / "src" / "gpuledger"
MODULES = tuple(sorted(PACKAGE.rglob("*.py")))
WORKLOADS = tuple(sorted((ROOT / "packages" / "workloads" / "src").rglob("*.py")))
PROGRAMS = (*WORKLOADS, *sorted((ROOT / "lab").rglob("*.py")))
"""What is profiled: a distribution of its own, and what is in the repository only."""


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def part(path: Path) -> str:
    """The package or module directly under `gpuledger` that a file belongs to; of `analyse` its room."""
    names = path.relative_to(PACKAGE).with_suffix("").parts
    return _part(names[:-1] if len(names) > 1 else names)


def _part(names: tuple[str, ...]) -> str:
    return ".".join(names[: 2 if names[0] == "analyse" and len(names) > 1 else 1])


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, wherever in it, types left out."""
    for_types = {
        statement
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    }
    names: set[str] = set()
    for node in nodes(path):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def used_parts(path: Path) -> set[str]:
    """The other parts of the package that a file imports from."""
    used = {_part(tuple(name.split(".")[1:])) for name in imported(path) if name.startswith("gpuledger.")}
    return used - {part(path), "analyse"}


def used_of(path: Path, package: str) -> set[str]:
    """The modules of a package that a file imports; what it imports from them is left out."""
    return {
        node.module
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package
    } | {
        alias.name
        for node in nodes(path)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == package
    }


@functools.cache
def called(path: Path) -> frozenset[str]:
    """The functions that a file calls, as it writes them."""
    return frozenset(ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call))
