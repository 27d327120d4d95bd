"""Sentences that can be said in several languages.

`say` takes an English template and what goes into it, and gives back text: English, as any `str`. It also remembers
its template, so that `translated` can say the same in another language. The catalogue of a language, a file of gettext
(`zh.po`), maps English templates to its own, and what it lacks is said in English. `make messages` puts new templates
in; whether all are translated is asked before a release (`make check-chinese`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

LANGUAGES: Final = ("en", "zh")


class Message(str):
    """An English sentence that knows how it was made."""

    __slots__ = ("parts", "template")

    template: str
    parts: Mapping[str, object]

    def __new__(cls, text: str, template: str, parts: Mapping[str, object]) -> Message:
        message = super().__new__(cls, text)
        message.template, message.parts = template, parts
        return message

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (str(self), self.template, dict(self.parts))


def say(template: str, /, **parts: object) -> Message:
    """The template with its parts filled in. Parts that are messages are translated with it."""
    return Message(_filled(template, parts), template, parts)


def joined(separator: str, texts: Iterable[str]) -> Message:
    """`separator.join(texts)` as a message: each of the texts, and the separator, is translated."""
    parts: dict[str, object] = {f"text{at}": text for at, text in enumerate(texts)}
    template, parts = "{separator}".join(f"{{{name}}}" for name in parts), {"separator": separator, **parts}
    return Message(_filled(template, parts), template, parts)


def capitalised(text: str) -> str:
    """With a capital first, as English begins a sentence; a translation begins as it does, and a name as it is."""
    first = text.partition(" ")[0].rstrip(",:;.")
    return _begun(text, text[:1].upper()) if first.replace("-", "").replace("'", "").isalpha() else text


def uncapitalised(text: str) -> str:
    """The reverse, for a heading inside a sentence."""
    return _begun(text, text[:1].lower())


def _begun(text: str, first: str) -> str:
    begun = first + text[1:]
    return Message(begun, text.template, text.parts) if isinstance(text, Message) else begun


def translated(text: str, language: str) -> str:
    """The same sentence in another language; text that no `say` made (a name, a number) stays as it is."""
    if language == "en" or not isinstance(text, Message):
        return text
    parts = {name: translated(part, language) if isinstance(part, str) else part for name, part in text.parts.items()}
    return _filled(catalogue(language).get(text.template, text.template), parts)


def _filled(template: str, parts: Mapping[str, object]) -> str:
    return template.format(**parts) if parts else template


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """English templates to those of a language."""
    # importing importlib.resources would take longer than all that is read here
    return parse_catalogue(Path(__file__).with_name(f"{language}.po").read_text(encoding="utf-8"))


_QUOTED: Final = r'"(?:[^"\\\n]++|\\[\\"nt])*+"'
_ENTRY: Final = rf"((?:#.*(?:\n|$))*)(?:msgid ({_QUOTED}(?:\n{_QUOTED})*)\nmsgstr ({_QUOTED}(?:\n{_QUOTED})*))?"
_ESCAPES: Final = {"\\": "\\", '"': '"', "n": "\n", "t": "\t"}


def parse_catalogue(text: str) -> dict[str, str]:
    """What is translated in the text of a .po file: entries with a blank line between them, no contexts, no plurals."""
    templates: dict[str, str] = {}
    entry = re.compile(_ENTRY)  # here: English does without it
    for block in re.split(r"\n{2,}", text.strip("\n")):
        match = entry.fullmatch(block)
        if match is None:
            raise ValueError(f"not an entry of a catalogue: {block}")
        comments, english, translation = match.groups()
        if english is None or (comments and re.search(r"^#,.*\bfuzzy\b", comments, re.MULTILINE)):
            continue
        template = _unquoted(english)
        if template in templates:
            raise ValueError(f"twice in the catalogue: {template}")
        templates[template] = _unquoted(translation)
    return {template: translation for template, translation in templates.items() if template and translation}


def _unquoted(lines: str) -> str:
    text = lines[1:-1].replace('"\n"', "")
    return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], text) if "\\" in text else text
