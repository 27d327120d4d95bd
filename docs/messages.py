"""Keep the catalogues of `src/gpuledger/messages` to what the package says. `make messages` runs it.

Templates of `say` that a catalogue lacks come in, without a translation; those that nothing says any more go, and are
printed with theirs, which a reworded sentence may still want. A test fails when a catalogue is not what this would
write.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuledger.messages import parse_catalogue

PACKAGE = Path(__file__).parent.parent / "src" / "gpuledger"
CATALOGUE = PACKAGE / "messages" / "zh.po"
HEADER = {
    "Project-Id-Version": "gpuledger",
    "Language": "zh_CN",
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=UTF-8",
    "Content-Transfer-Encoding": "8bit",
}


def calls_of_say() -> list[tuple[str, ast.Call]]:
    """Every call of `say` in the package, and where it is."""
    calls = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "gpuledger.messages" not in text:
            continue
        nodes = list(ast.walk(ast.parse(text)))
        # `say` of this package; others may have one of their own
        if not any(isinstance(node, ast.ImportFrom) and _is_of_say(node) for node in nodes):
            continue
        calls += [
            (f"{path.relative_to(PACKAGE)}:{node.lineno}", node)
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
        ]
    return calls


def _is_of_say(node: ast.ImportFrom) -> bool:
    return node.module == "gpuledger.messages" and any(alias.name == "say" for alias in node.names)


def template(call: ast.Call) -> str | None:
    """What a call of `say` says, if it is written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


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
    templates = {english for _, call in calls_of_say() if (english := template(call)) is not None}
    translations = parse_catalogue(CATALOGUE.read_text(encoding="utf-8"))
    CATALOGUE.write_text(catalogue_text(templates, translations), encoding="utf-8")
    for english in sorted(translations.keys() - templates):
        sys.stdout.write(f"gone: {english}\n      {translations[english]}\n")
    for english in sorted(templates - translations.keys()):
        sys.stdout.write(f"to translate: {english}\n")
