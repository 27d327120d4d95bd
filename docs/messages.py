"""Keep the catalogues of `src/gpuledger/messages` to what the package says. `make messages` runs it.

Templates of `say`, and questions of `gpuledger help`, that a catalogue lacks come in, without a translation; those that
nothing says any more go, and are printed with theirs, which a reworded sentence may still want. `make check-chinese`,
before a release, fails where a catalogue is not what this would write, or lacks a translation.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuledger.cli.help import asked_questions
from gpuledger.messages import parse_catalogue
from gpuledger.read.request import NOTES

PACKAGE = Path(__file__).parent.parent / "src" / "gpuledger"
CATALOGUE = PACKAGE / "messages" / "zh.po"
HEADER = {
    "Project-Id-Version": "gpuledger",
    "Language": "zh_CN",
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=UTF-8",
    "Content-Transfer-Encoding": "8bit",
}


SAYING = {"say": "gpuledger.messages", "counted": "gpuledger.read.request"}
"""The functions that say something, and where they come from: others may have one of that name of their own."""


def calls_of_say() -> list[tuple[str, ast.Call]]:
    """Every call of `say` in the package, and where it is; `counted` of a code as the call of `say` it stands for."""
    calls = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(module in text for module in SAYING.values()):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imported = {alias.name for node in imports for alias in node.names if SAYING.get(alias.name) == node.module}
        calls += [
            (f"{path.relative_to(PACKAGE)}:{node.lineno}", node if node.func.id == "say" else _as_say(node))
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported
            if node.func.id == "say" or isinstance(node.args[0], ast.Constant)
        ]
    return calls


def _as_say(call: ast.Call) -> ast.Call:
    """`counted(NAME, count, ...)` says the template of that name with its parts, the count among them."""
    _, said = NOTES[ast.literal_eval(call.args[0])]
    has_count = "{count}" in said and all(keyword.arg != "count" for keyword in call.keywords)
    count = [ast.keyword(arg="count", value=call.args[1])] if has_count else []
    return ast.Call(func=ast.Name(id="say"), args=[ast.Constant(said)], keywords=[*count, *call.keywords])


def template(call: ast.Call) -> str | None:
    """What a call of `say` says, if it is written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def templates() -> set[str]:
    """Everything that is to be translated."""
    said = {english for _, call in calls_of_say() if (english := template(call)) is not None}
    return said | {question for question, _ in asked_questions()} | {text for _, text in NOTES.values()}


def catalogue_text(templates: Iterable[str], translations: Mapping[str, str]) -> str:
    """The text of a .po file: sorted, a line per string."""
    header = "".join(f"{name}: {value}\n" for name, value in HEADER.items())
    entries = {"": header} | {english: translations.get(english, "") for english in sorted(set(templates))}
    return "\n".join(
        f"msgid {_quoted(english)}\nmsgstr {_quoted(translation)}\n" for english, translation in entries.items()
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # its escapes of quotes, backslashes, lines and tabs are gettext's


if __name__ == "__main__":
    wanted = templates()
    translations = parse_catalogue(CATALOGUE.read_text(encoding="utf-8"))
    CATALOGUE.write_text(catalogue_text(wanted, translations), encoding="utf-8")
    for english in sorted(translations.keys() - wanted):
        sys.stdout.write(f"gone: {english}\n      {translations[english]}\n")
    for english in sorted(wanted - translations.keys()):
        sys.stdout.write(f"to translate: {english}\n")
