"""Whether a name is one of a secret: of an option, a variable, a key or a header; yes or no out.

Names are taken apart into words, in any case and with any separator: `--HuggingFace-token`, `HF_TOKEN`, `hfToken` and
`hf.token` are the same. `password` says it wherever it stands; `key`, `token`, `pass` and `auth` are also words of
those who sort, count tokens or run passes, so they must come last, and not behind a word that says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STRONG: Final = re.compile(
    r"\w*(?:secret|password|passwd|passphrase|credential)s?|\w*pwd|apikeys?|authtoken|authorization|bearer|(set)?cookie"
)
"""What is hardly ever called so unless it is a secret."""
_WEAK: Final = re.compile(r"\w*(?:key|token|pass|auth)")
_PLURAL: Final = ("keys", "tokens", "auths")
_ADDED: Final = re.compile(r"\d+|value|val|string|str|text|hex|b64|base64|prod|dev|staging|ci|read|write|ro|rw")
"""What may follow: OPENAI_API_KEY_2, HF_TOKEN_READ."""

_ABOUT: Final = (
    *("file", "path", "dir", "folder", "name", "names", "env", "var", "variable", "id", "ids", "type", "mode"),
    *("method", "length", "len", "size", "policy", "format", "url", "uri", "endpoint", "provider", "manager", "store"),
    *("backend", "prompt", "required", "enabled", "chars", "rotation", "ttl", "expiry", "timeout"),
)
"""The last word of what is about a secret, and none itself."""

_SWITCHES: Final = ("no", "disable", "skip", "without", "enable", "require", "ask")
_ENGLISH: Final = (
    *("monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "hotkey"),
    *("bypass", "compass", "encompass", "surpass"),
)
_SECRET_BEFORE: Final = ("api", "access", "secret", "private", "auth", "refresh", "ssh", "deploy", "signing")
_OTHERWISE: Final = {
    "key": (
        *("sort", "primary", "foreign", "group", "partition", "public", "cache", "index", "dict", "routing", "row"),
        *("column", "col", "query", "q", "lookup", "map", "json", "field", "state", "metric", "order", "by", "per"),
        *("shard", "prng", "rng", "random", "dataset", "data", "label", "feature", "image", "batch", "num", "head"),
    ),
    "token": (
        *("pad", "padding", "eos", "bos", "unk", "sep", "cls", "mask", "special", "stop", "start", "begin", "end"),
        *("eot", "eom", "sos", "first", "last", "next", "per", "image", "audio", "video", "think", "thinking"),
        *("prefix", "suffix", "fim", "tool", "separator", "sentinel", "num", "max", "min", "new", "extra", "prompt"),
        *("output", "input", "decode", "prefill", "draft", "each"),
    ),
    "pass": (
        *("single", "first", "second", "third", "one", "two", "three", "multi", "forward", "backward", "fwd", "bwd"),
        *("num", "per", "last", "next", "high", "low", "band", "by", "render", "opt", "compiler", "each", "final"),
    ),
}
"""Words before `key`, `token` and `pass` that say that it is no secret: a sort key, a padding token, a forward pass."""


def looks_secret(name: str) -> bool:
    """Whether a variable, an option or a key of this name may hold something that nobody else should read."""
    return is_strong(name) or _is_weak(_words(name))


def is_strong(name: str) -> bool:
    """Whether it is a secret whatever its value looks like: a password may be a number."""
    words = _words(name)
    return bool(words) and not _is_about(words) and any(map(_STRONG.fullmatch, words))


def _is_weak(words: Sequence[str]) -> bool:
    if not words or _is_about(words):
        return False
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if last in _PLURAL:
        return before in _SECRET_BEFORE
    return _WEAK.fullmatch(last) is not None and last not in _ENGLISH and before not in _OTHERWISE.get(last, ())


def _is_about(words: Sequence[str]) -> bool:
    return words[-1] in _ABOUT or words[0] in _SWITCHES


def _words(name: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name)]
    while words and _ADDED.fullmatch(words[-1]):
        words.pop()
    return words
