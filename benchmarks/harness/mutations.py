"""Places in the source that can be changed by one small mutation, and changes drawn from them at random.

A place is a number, a comparison, `and` or `or`, `not`, + or -, `min` or `max`, or what an early `return` or `continue`
depends on. Messages, type annotations, decorators and f-strings are no places.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MESSAGES: Final = ("say", "counted")
_COMPARED: Final = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATOR: Final = re.compile(r"<=|>=|==|!=|<|>|\bis\s+not\b|\bis\b|\bnot\s+in\b|\bin\b|\band\b|\bor\b|[+-]")
_EXTREMES: Final = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
_BOUNDARIES: Final = ({"<", "<="}, {">", ">="})


@dataclass(frozen=True, slots=True)
class Change:
    """One mutation of one file, drawn."""

    path: Path
    line: int
    kind: str
    text: str
    """The file with the change."""
    before: str
    after: str
    """The lines that differ."""
    is_boundary: bool
    """`<` for `<=` or the like, which is the same where the two sides are never equal."""


@dataclass(frozen=True, slots=True)
class _Place:
    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    """Line and column, in UTF-8."""
    choices: tuple[str, ...]


def drawn(files: Sequence[Path], count: int, seed: int) -> list[Change]:
    """So many changes, each at another place; fewer where there are not so many places."""
    draw = random.Random(seed)  # noqa: S311
    places = [(path, place) for path in sorted(files) for place in _places(ast.parse(path.read_bytes()))]
    draw.shuffle(places)
    changes = (_changed(path, place, draw) for path, place in places)
    found = [
        change for change, _ in zip((change for change in changes if change is not None), range(count), strict=False)
    ]
    return sorted(found, key=lambda change: (change.path, change.line))


def _changed(path: Path, place: _Place, draw: random.Random) -> Change | None:
    """The file with the place changed; None where its text is not what the syntax tree lets expect."""
    lines = path.read_bytes().splitlines(keepends=True)
    starts = [sum(map(len, lines[: line - 1])) + column for line, column in (place.start, place.end)]
    source = b"".join(lines)
    old = source[starts[0] : starts[1]].decode()
    if place.kind in ("comparison", "boolean", "sign"):  # the operator, among brackets and white space
        operator = _OPERATOR.search(old)
        if operator is None or "#" in old:
            return None
        new = draw.choice(place.choices)
        is_boundary = {operator[0], new} in _BOUNDARIES
        new = old[: operator.start()] + new + old[operator.end() :]
    else:
        new, is_boundary = draw.choice(place.choices).replace("{}", old), False
    if place.kind == "not":
        new = re.sub(r"^not\b\s*", "", old)
    text = (source[: starts[0]] + new.encode() + source[starts[1] :]).decode()
    try:
        compile(text, path, "exec")  # what is no Python would be caught by any test
    except SyntaxError:
        return None
    span = slice(place.start[0] - 1, place.end[0])
    before = b"".join(lines[span]).decode()
    after = "".join(text.splitlines(keepends=True)[span.start : span.stop + text.count("\n") - len(lines)])
    return Change(path, place.start[0], place.kind, text, before, after, is_boundary)


def _places(tree: ast.Module) -> Iterator[_Place]:
    """All places of a module, from the top."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.JoinedStr) or _is_message(node):
            continue
        yield from _places_of(node)
        no_places = _annotations(node)
        left += [child for child in ast.iter_child_nodes(node) if child not in no_places]


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MESSAGES


def _annotations(node: ast.AST) -> list[ast.AST]:
    """What of a node is a type, or a decorator."""
    if isinstance(node, ast.AnnAssign | ast.arg):
        return [node.annotation] if node.annotation else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*node.decorator_list, *([node.returns] if node.returns else [])]
    return list(node.decorator_list) if isinstance(node, ast.ClassDef) else []


def _places_of(node: ast.AST) -> Iterator[_Place]:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield _place("number", node, node, _numbers(node.value))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield _between("comparison", node.left, node.comparators[0], _COMPARED[type(node.ops[0])])
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield _between("boolean", left, right, ("or" if isinstance(node.op, ast.And) else "and",))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.Constant)
        texts = [each for each in (node.left, node.right) if isinstance(each, joined)]
        if all(isinstance(each, ast.Constant) and not isinstance(each.value, str | bytes) for each in texts):
            yield _between("sign", node.left, node.right, ("-" if isinstance(node.op, ast.Add) else "+",))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _place("not", node, node, ("",))
    elif isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Return | ast.Continue):
        yield _place("guard", node.test, node.test, ("not ({})",))
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _EXTREMES and node.func.end_lineno is not None and node.func.end_col_offset is not None:
            end = (node.func.end_lineno, node.func.end_col_offset)
            yield _Place("extreme", (end[0], end[1] - len(name)), end, (_EXTREMES[name],))


def _numbers(value: float) -> tuple[str, ...]:
    """Double, and 30 % more and less; the next where that is the same."""
    changed = [2 * value, 1.3 * value, 0.7 * value]
    if isinstance(value, int):
        changed = [2 * value, max(round(1.3 * value), value + 1), min(round(0.7 * value), value - 1)]
    return tuple(repr(each) for each in changed if each != value and each >= 0) or ("1",)


def _place(kind: str, first: ast.expr, last: ast.expr, choices: tuple[str, ...]) -> _Place:
    end = (last.end_lineno or last.lineno, last.end_col_offset or last.col_offset)
    return _Place(kind, (first.lineno, first.col_offset), end, choices)


def _between(kind: str, left: ast.expr, right: ast.expr, choices: tuple[str, ...]) -> _Place:
    start = (left.end_lineno or left.lineno, left.end_col_offset or left.col_offset)
    return _Place(kind, start, (right.lineno, right.col_offset), choices)
