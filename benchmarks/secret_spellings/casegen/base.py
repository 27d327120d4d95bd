"""What a case is, and the pieces it is put together from."""
from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

Rng = random.Random
CharMap = Callable[[str], str]


@dataclass(frozen=True)
class Case:
    """One recorded command: which texts in it are secret, and which must stay visible."""

    argv: list[str]
    secrets: list[str]
    harmless: list[str]
    kind: str
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Secret:
    """A secret value. `opaque`: it looks random; `speaks`: its own form says that it is one (ghp_…, a PEM block)."""

    text: str
    source: str
    opaque: bool = True
    speaks: bool = False


@dataclass(frozen=True)
class Text:
    """One text (an argument, a file's content, code) with its secrets as they are spelt in it."""

    text: str
    secrets: list[str]
    harmless: list[str]
    kind: str

    def mapped(self, change: CharMap) -> Text:
        """The text under a spelling that changes single characters (quoting), secrets and harmless texts with it."""
        return Text(change(self.text), [change(s) for s in self.secrets], [change(h) for h in self.harmless], self.kind)


@dataclass(frozen=True)
class Part:
    """Some words of a command line."""

    words: list[str]
    secrets: list[str]
    harmless: list[str]
    kind: str

    def __add__(self, other: Part) -> Part:
        kind = f"{self.kind}+{other.kind}" if self.kind and other.kind else self.kind or other.kind
        return Part(self.words + other.words, self.secrets + other.secrets, self.harmless + other.harmless, kind)


def plain(*words: str, harmless: bool = True) -> Part:
    """Words without a secret; they are to stay visible unless `harmless` is false."""
    return Part(list(words), [], list(words) if harmless else [], "")


# --- quoting for a shell: all of these change characters one by one, so secrets can be followed through them


def in_single(s: str) -> str:
    return s.replace("'", "'\"'\"'")


def in_double(s: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", s)


def backslashed(s: str) -> str:
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", s, flags=re.ASCII)


def in_ansi(s: str) -> str:
    return s.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")


SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
OPTION_VALUE = re.compile(r"(-{0,2}[A-Za-z][\w.-]*=)(.+)", re.S)


def quoted_word(word: str, secrets: list[str], harmless: list[str], rng: Rng) -> Text:
    """One word spelt for a shell, in one of the ways people quote."""
    part = Text(word, [s for s in secrets if s in word], [h for h in harmless if h in word], "")
    safe = bool(SAFE.fullmatch(word))
    styles = ["bare"] * 6 + ["single", "double"] if safe else ["single", "double", "ansi" if "'" in word else "single"]
    if not safe and "\n" not in word and len(word) < 60:
        styles.append("backslash")
    value = OPTION_VALUE.fullmatch(word)
    if value and "\n" not in word and all(word.index(s) >= len(value[1]) for s in part.secrets):
        styles += ["value-single", "value-double"] * 2
    match rng.choice(styles):
        case "bare":
            return part
        case "single":
            new = part.mapped(in_single)
            return Text(f"'{new.text}'", new.secrets, new.harmless, "")
        case "double":
            new = part.mapped(in_double)
            return Text(f'"{new.text}"', new.secrets, new.harmless, "")
        case "ansi":
            new = part.mapped(in_ansi)
            return Text(f"$'{new.text}'", new.secrets, new.harmless, "")
        case "backslash":
            return part.mapped(backslashed)
        case style:
            assert value
            quote, change = ("'", in_single) if style == "value-single" else ('"', in_double)
            if not SAFE.fullmatch(value[1]):
                return part.mapped(backslashed)
            new = part.mapped(change)
            head = value[1]  # letters, digits, - . _ and =: no quoting changes them
            kept = [change(h[len(head):]) if h.startswith(head) and len(h) > len(head) else change(h) for h in part.harmless]
            text = f"{head}{quote}{new.text[len(head):]}{quote}"
            return Text(text, new.secrets, [h for h in kept if h in text], "")


def script(part: Part, rng: Rng) -> Text:
    """A part spelt as text for a shell."""
    words: list[str] = []
    secrets: list[str] = []
    harmless: list[str] = []
    for i, word in enumerate(part.words):
        new = Text(word, [], [], "") if i == 0 and SAFE.fullmatch(word) else quoted_word(word, part.secrets, part.harmless, rng)
        words.append(new.text)
        secrets += new.secrets
        harmless += new.harmless
    joiner = " \\\n    " if rng.random() < 0.1 and not any("\n" in w for w in words) else " "
    return Text(joiner.join(words), unique(secrets), unique(harmless), part.kind)


def unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def core(secret: str) -> str:
    """What of a token is secret: not the number of a bot or an account before it, nor the name of its scheme."""
    m = re.fullmatch(r"(?:\d{10}:(?=AA)|1/\d{16}:|FlyV1\\? )(.+)", secret, re.S)
    return m[1] if m else secret
