"""How large the repository is, in numbers that may only fall; `budget.json` at the root holds them.

python release/budget.py            fails where a number is higher than the stored one; `make budget`
python release/budget.py --lower    stores the numbers that fell; `make budget LOWER=1`
python release/budget.py --raise    stores all numbers; `make budget RAISE=1`
"""

from __future__ import annotations

import ast
import gc
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).resolve().parent.parent
STORED: Final = ROOT / "budget.json"
AREAS: Final = {"src": "src/gpuledger", "packages": "packages", "lab": "lab", "tests": "tests"}
LARGEST_FOLDER: Final = "Python files in the largest folder"
FOLDER_FILES: Final = 24
"""A folder may grow up to this many Python files."""
SHORT_LINES: Final = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef


def measured(root: Path) -> dict[str, int]:
    """Every number but those of the command line."""
    numbers, modules = Counter[str](), dict[str, list[ast.AST]]()
    for area, place in AREAS.items():
        folders = Counter[Path]()
        for path in sorted((root / place).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines, tree = text.count("\n"), ast.parse(text)
            numbers.update({f"files: {area}": 1, f"lines: {area}": lines})
            folders[path.parent] += 1
            if area == "src":
                name = ".".join(path.relative_to(root / "src").with_suffix("").parts).removesuffix(".__init__")
                modules[name] = list(ast.walk(tree))
                numbers["numeric constants"] += sum(map(is_numeric_constant, tree.body))
            elif area == "tests":
                tests = [each for each in tree.body if isinstance(each, Function) and each.name.startswith("test_")]
                numbers["lines of tests outside test functions"] += lines - sum(map(line_count, tests))
        if area in ("src", "tests"):
            numbers[f"{LARGEST_FOLDER}: {area}"] = max(folders.values(), default=0)
    for nodes in modules.values():
        functions = [node for node in nodes if isinstance(node, Function)]
        short = [each for each in functions if line_count(each, with_docstring=False) <= SHORT_LINES]
        numbers[f"functions of {SHORT_LINES} lines or fewer"] += len(short)
        numbers["private functions with one caller"] += len(called_once(nodes, functions))
        numbers["imports"] += sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    classes = [node for nodes in modules.values() for node in nodes if isinstance(node, ast.ClassDef)]
    numbers["Json classes"] = len(subclasses("Json", classes))
    circles = modules_in_circles(modules)
    numbers["modules in import circles"] = len(circles)
    if circles:
        sys.stdout.write(f"These modules import themselves by way of others: {', '.join(circles)}.\n")
    pages = [*(root / "docs").rglob("*.md"), *root.glob("README*.md"), *root.glob("CONTRIBUTING.md")]
    numbers["words of docs"] = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    return dict(numbers)


def line_count(function: Function, *, with_docstring: bool = True) -> int:
    """From its first decorator to its end; without the docstring from `def` on."""
    last = function.end_lineno or function.lineno
    if with_docstring:
        return last - min(node.lineno for node in (function, *function.decorator_list)) + 1
    first = function.body[0]
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if ast.get_docstring(function, clean=False) else 0
    return last - function.lineno + 1 - docstring


def called_once(nodes: Iterable[ast.AST], functions: Sequence[Function]) -> list[str]:
    """Private functions and methods that their module names once; what calls itself is not counted for that."""
    named = _names(nodes)
    private = [each for each in functions if each.name.startswith("_") and not each.name.endswith("__")]
    return [
        each.name
        for each in private
        if named[each.name] and (named[each.name] == 1 or named[each.name] - _names(ast.walk(each))[each.name] == 1)
    ]


def _names(nodes: Iterable[ast.AST]) -> Counter[str]:
    named = (getattr(node, "id", None) or getattr(node, "attr", None) for node in nodes)
    return Counter(name for name in named if name)


def is_numeric_constant(statement: ast.stmt) -> bool:
    """Whether it is `NAME: Final = number` or `NAME = number`; a number may be worked out of others."""
    if isinstance(statement, ast.AnnAssign) and "Final" in ast.unparse(statement.annotation):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    else:
        return False
    if not isinstance(target, ast.Name) or not target.id.isupper() or value is None:
        return False
    arithmetic = ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
    leaves = [node for node in ast.walk(value) if not isinstance(node, arithmetic)]
    return all(isinstance(leaf, ast.Constant) and type(leaf.value) in (int, float) for leaf in leaves)


def subclasses(name: str, classes: Sequence[ast.ClassDef]) -> set[str]:
    """The classes that inherit from the one of this name, by way of others too."""
    found, before = {name}, set[str]()
    while found != before:
        before = set(found)
        found |= {
            each.name for each in classes for base in each.bases if isinstance(base, ast.Name) and base.id in found
        }
    return found - {name}


def modules_in_circles(modules: Mapping[str, list[ast.AST]]) -> list[str]:
    """Modules that import themselves by way of others, within functions too; imports for types do not count."""
    uses = dict[str, set[str]]()
    for name, nodes in modules.items():
        used = _imported(nodes) & (modules.keys() - {name})
        # `from gpuledger.trace import spans` is of the module, not of its package
        uses[name] = {each for each in used if not any(other.startswith(f"{each}.") for other in used)}

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            left += (new := uses[left.pop()] - found)
            found |= new
        return found

    return [name for name in uses if name in reached(name)]


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    found, for_types = set[str](), set[ast.AST]()
    for node in nodes:  # from the outside in
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types |= {inner for statement in node.body for inner in ast.walk(statement)}
        elif isinstance(node, ast.Import) and node not in for_types:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def command_line() -> dict[str, int]:
    """How many verbs there are, those under another among them, and how many options all of them have."""
    sys.path.insert(0, str(ROOT / "src"))
    from gpuledger.cli.main import verb_named
    from gpuledger.verbs import VERBS

    commands = [verb_named(name) for name in VERBS]
    for command in commands:  # which grows meanwhile
        if isinstance(command, click.Group):
            commands += command.commands.values()
    options = sum(isinstance(parameter, click.Option) for command in commands for parameter in command.params)
    return {"verbs": len(commands), "options": options}


def risen(stored: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """The names of numbers that are higher than they may be."""
    may_be = {name: max(stored.get(name, 0), FOLDER_FILES if name.startswith(LARGEST_FOLDER) else 0) for name in now}
    return [name for name in now if now[name] > may_be[name]]


def main(arguments: Sequence[str]) -> int:
    """Print the numbers, store those that are to be stored; 1 where one rose."""
    stored: dict[str, int] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    now = dict(sorted({**measured(ROOT), **command_line()}.items()))
    rose, fell = risen(stored, now), [name for name in now if now[name] < stored.get(name, 0)]
    for name, number in now.items():
        sys.stdout.write(f"{name:44} {number:>9,}" + (f", fell from {stored[name]:,}\n" if name in fell else "\n"))
    if "--raise" in arguments:
        stored, rose = now, []
    elif "--lower" in arguments:
        stored |= {name: now[name] for name in fell}
    elif fell:
        sys.stdout.write("\n`make budget LOWER=1` stores what fell; commit budget.json.\n")
    if arguments:
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    for name in rose:
        sys.stdout.write(f"\n{name}: rose from {stored.get(name, 0):,} to {now[name]:,}")
    if rose:
        sys.stdout.write(
            "\n\nLower it again, or run `make budget RAISE=1` in a commit of its own that names what asks for it and"
            " what was taken away.\n"
        )
    return int(bool(rose))


if __name__ == "__main__":
    gc.disable()  # millions of nodes, no garbage: looking through them again and again takes half the time
    sys.exit(main(sys.argv[1:]))
