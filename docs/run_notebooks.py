"""Run the notebooks in docs/notebooks and keep what they show. `python docs/run_notebooks.py` writes it into them.

A cell is run as Jupyter runs it, for what our notebooks need: all statements, then the value of a last expression is
shown by its `repr` and, where it has one, its `_repr_html_`. So no kernel has to be installed to test a notebook.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"


def outputs_of(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each cell with code shows, run in order in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run("".join(cell["source"]), names, number) for number, cell in enumerate(cells, 1)]


def _run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - our own notebooks
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names) if last else None  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells show."""
    shown = iter(outputs_of(notebook))
    cells = [
        {**cell, "outputs": next(shown), "execution_count": None} if cell["cell_type"] == "code" else cell
        for cell in notebook["cells"]
    ]
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        cell["execution_count"] = number
    return {**notebook, "cells": cells}


def main() -> None:
    """Run every notebook in its folder, and write what it shows."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        os.chdir(path.parent)
        path.write_text(json.dumps(executed(notebook), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
