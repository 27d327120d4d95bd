"""What of a command or a setting may be written down: words in, the same words without secrets out.

A secret is known by its name (`looks_secret`: of an option, a variable, a key or a header), by the form of its value
(`hf_...`, `Bearer ...`, `user:pass@`), or because it looks drawn at random. Where a command is a text for a shell or
JSON, only the value in it is withheld. A file, a number of tokens, or `$NAME` is none, whatever it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
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
    words = _words(name)
    if not words or _is_about(words):
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if any(map(_STRONG.fullmatch, words)):
        return True
    if last in _PLURAL:
        return before in _SECRET_BEFORE
    return _WEAK.fullmatch(last) is not None and last not in _ENGLISH and before not in _OTHERWISE.get(last, ())


def is_strong(name: str) -> bool:
    """Whether it is a secret whatever its value looks like: a password may be a number."""
    words = _words(name)
    return bool(words) and not _is_about(words) and any(map(_STRONG.fullmatch, words))


def _is_about(words: Sequence[str]) -> bool:
    return words[-1] in _ABOUT or words[0] in _SWITCHES


def _words(name: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name)]
    while words and _ADDED.fullmatch(words[-1]):
        words.pop()
    return words


WITHHELD: Final = "(withheld)"

_WHOLE: Final = re.compile(r"(?:--?env=|-D|-e|\+{1,2}|-{1,2})?(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
"""A word that is nothing but a setting with its value, blanks and all."""
_FLAG: Final = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
_SHELL_TEXT: Final = re.compile(r"-[a-z]*c")  # what a shell has before a text of commands

_QUOTED: Final = r"""[bru]{0,2}(?P<quote>\\*["'])(?P<quoted>.*?)(?P=quote)"""
_NAMED: Final = re.compile(
    r"""(?<![\w.-])-{0,2}(?P<name>[A-Za-z_][\w.-]*)\\*["']?(?P<sign>\s*(?:\]\s*=(?!=)|=>|:=|=|:)\s*)"""
)
_SET_BY_CALL: Final = re.compile(r"""\(\s*\\*["'](?P<name>[A-Za-z_][\w.-]*)\\*["'](?P<sign>\s*,\s*)(?=\\*["'])""")
_SET_BY_WORDS: Final = re.compile(
    r"(?<![\w-])(?:set|setenv|config)(?:[ \t]+-[\w-]+)*[ \t]+(?P<name>[\w./:-]*[A-Za-z])(?P<sign>[ \t]+)(?=[^\s=])"
)
_LOGIN_IN_TEXT: Final = re.compile(r"(?<![\w-])(?P<name>login)[^;&|\n]*?[ \t]-p(?P<sign>[ \t]+)")
_FLAG_IN_TEXT: Final = re.compile(r"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]*)(?P<sign>[ \t]+)(?!-)")
_VALUE: Final = re.compile(rf"""{_QUOTED}|(?P<bare>[^\s,;&|"'`\]}}]+)""", re.DOTALL)
_HEADER: Final = re.compile(r"(?:proxy-)?authorization|(?:set-)?cookie", re.IGNORECASE)
_HEADER_VALUE: Final = re.compile(rf"""{_QUOTED}|(?P<bare>[^"'\n\\]+)""", re.DOTALL)
_SIGNED_ADDRESS: Final = re.compile(r"(?:x-[a-z]+-)?sig(?:nature)?", re.IGNORECASE)

_FORMS: Final = (
    # what services begin their keys with
    r"(?<![A-Za-z0-9])(?P<a>hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|"
    r"[sr]k_(?:live|test)_\w{10,}|xox[abeprs]-[\w-]{10,}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|gsk_\w{16,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}|npm_\w{20,}|pypi-[\w-]{20,}|dop_v1_\w{20,}|SG\.[\w-]{10,}\.[\w-]+|r8_\w{20,}|"
    r"xai-\w{20,}|hvs\.[\w-]{16,})",
    # a token that carries its own claims
    r"(?<![\w.-])(?P<b>eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]+)",
    r"(?P<c>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
    r"(?i:\bbearer)\s+(?P<d>(?=[\w.~+/=-]*\d|[\w.~+/=-]{16})[\w.~+/=-]{6,})",
    # who asks, in an address
    r"(?<![\w+.-])(?i:[a-z][a-z0-9+.-]*://)[^\s/:@\"']*:(?P<e>(?!\$)[^\s/@\"']+)@",
    r"https?://(?P<f>(?=[^\s/:@\"']*\d|[^\s/:@\"']{20})[^\s/:@\"'$]{8,})@",
    r"(?<![\w/@:.-])(?!mailto:)[\w.-]+:(?P<g>(?!\$)[^\s/:@\"']{4,})@(?!sha\d+:)[\w.-]+",
    r"hooks\.slack\.com/services/(?P<h>[\w/]+)",
)
_FORM: Final = re.compile("|".join(_FORMS), re.DOTALL)
_RUN: Final = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,256}={0,2}(?![\w+/=-])")
_RUN_OF_ONE_CASE: Final = re.compile(r"(?:(?<=//)|(?<![\w+/@:.-]))(?:[a-z0-9]{24,256}|[A-Z0-9]{24,256})(?![\w+/.-])")
_DIGEST: Final = re.compile(
    r"(?:^|[^a-z])(?:commit|rev|revision|sha\d*|md5|digest|hash|checksum|sum|ref|refs|tree|tag|id|ids|uuid|guid|version|build"
    r"|checkout|switch|detach|hard|soft|reset|revert|show|merge|rebase|pick|fsck|log|bisect|good|bad)\W{1,4}$",
    re.IGNORECASE,
)
"""What stands before a text that is drawn at random, or looks so, and is no secret."""

_LETTERS: Final = re.compile("[a-z]{3,}")
_CHANGES_SHARE: Final = 0.4
"""Of neighbours in a random text, six in ten are of different kinds: capitals, small letters, digits."""
_CHANGES_SHARE_OF_ONE_CASE: Final = 0.28
"""Four or five in ten where letters are of one case: a key in hexadecimal, or in base 32 or 36."""
_WORDS_SHARE: Final = 0.65
"""Of small letters in a random text, four in ten stand three or more in a row; in one made of words nearly all."""
_SEPARATORS_SHARE: Final = 0.12
_LETTERS_EACH: Final = 3

_PLAIN: Final = re.compile(
    r"|true|false|none|null|yes|no|auto|on|off|default|optional|required|enabled|disabled|\(withheld\)", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"basic|digest|ntlm|bearer|oauth2?|kerberos|token", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\$\w+|\$\{.*\}|\$\(.*\)?|\{\{.*\}\}|\{\w+\}|%\w+%|<[^>]*>|\[\w+\]", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d{1,5}(?:\.\d*)?")
_FILE: Final = re.compile(
    r"@?(?:~|\.{1,2})?/[\w./~-]*|[\w./~-]+\.(?:py|sh|json|ya?ml|toml|txt|pem|crt|key|cfg|ini|env)"
)
_CODE: Final = re.compile(r"lambda\b.*|[A-Za-z_][\w.]*[()].*", re.DOTALL)

_CALLERS: Final = ("curl", "wget", "http", "https")
_WHO: Final = ("-u", "--user", "--proxy-user")
_ASKED_WITH_P: Final = ("sshpass", "mysql", "mysqldump", "mysqladmin", "mariadb", "7z", "7za", "7zz")
"""Programs whose password follows `-p`, without a space."""
_PASSWORD_AFTER: Final = {
    "-p": ("sshpass", "login", "twine"),
    "-a": ("redis-cli",),
    "-P": ("zip", "unzip", "ssh-keygen"),
    "-N": ("ssh-keygen",),
    "-k": ("openssl",),
    "-K": ("openssl",),
    "-w": ("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"),
    "-U": ("smbclient", "rpcclient"),
}
"""Options without a name, and the programs, or what they are to do, that take a password there."""
_SETTING: Final = ("set", "config", "setenv")
"""What programs are to do with a name and a value that follow."""


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    shown: list[str] = []
    programs: set[str] = set()
    for before, word in zip(("", *argv), argv, strict=False):
        programs.add(PurePath(before).name)
        flag = _FLAG.fullmatch(before)
        if flag and not word.startswith("-") and may_not_be_shown(flag["name"], word):
            shown.append(WITHHELD)
        elif before in _WHO and ":" in word and not programs.isdisjoint(_CALLERS):
            shown.append(f"{word.partition(':')[0]}:{WITHHELD}")
        elif word.startswith("-p") and len(word) > 2 and not programs.isdisjoint(_ASKED_WITH_P):
            shown.append(f"-p{WITHHELD}")
        elif not programs.isdisjoint(_PASSWORD_AFTER.get(before, ())) or (
            not flag and not programs.isdisjoint(_SETTING) and may_not_be_shown(before, word)
        ):
            shown.append(WITHHELD)
        else:
            shown.append(_without(word, is_text=_SHELL_TEXT.fullmatch(before) is not None, before=before))
    for secret in sorted((text for text in known if len(text) > 3), key=len, reverse=True):
        shown = [word.replace(secret, WITHHELD) for word in shown]
    return shown


def may_not_be_shown(name: str, value: str) -> bool:
    """Whether a value that is called so is a secret, as far as one can tell from both."""
    if not looks_secret(name) or _PLAIN.fullmatch(value) or _REFERENCE.fullmatch(value):
        return False
    if _FILE.fullmatch(value) and not _looks_random(value):
        return False
    is_other = _NUMBER.fullmatch(value) or _SCHEME.fullmatch(value) or _CODE.fullmatch(value)
    return is_strong(name) or not is_other


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    return WITHHELD if may_not_be_shown(name, value) else _without(value, is_text=False, before=name)


def _without(word: str, *, is_text: bool, before: str = "") -> str:
    """One word of a command: an argument, or a text for a shell, which goes on after a value."""
    whole = None if is_text else _WHOLE.fullmatch(word)
    if whole is not None and may_not_be_shown(whole["name"], whole["value"]):
        return word[: whole.start("value")] + WITHHELD
    word = _cut(word, _after_names(word))
    word = _cut(word, (match.span(match.lastgroup or 0) for match in _FORM.finditer(word)))
    word = _cut(word, (run.span() for run in _RUN.finditer(word) if _looks_random(run[0])))
    drawn = (run for run in _RUN_OF_ONE_CASE.finditer(word) if _looks_drawn(run[0]))
    return _cut(word, (run.span() for run in drawn if not _is_digest(word, run.start(), before)))


def _is_digest(word: str, start: int, before: str) -> bool:
    """Whether it is named for a commit, a digest or a number, in this word or by the one before it."""
    text = f"{before} {word[max(start - 40, 0) : start]}"
    return _DIGEST.search(text) is not None


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, done = list[str](), 0
    for begin, end in spans:
        if begin >= done and text[begin:end] != WITHHELD:
            pieces += [text[done:begin], WITHHELD]
            done = end
    return "".join((*pieces, text[done:]))


def _after_names(text: str) -> Iterator[tuple[int, int]]:
    """Where the values of secrets lie that stand behind their names: `api_key=...`, `"token": "..."`, `--key ...`."""
    patterns = (_NAMED, _FLAG_IN_TEXT, _SET_BY_CALL, _SET_BY_WORDS, _LOGIN_IN_TEXT)
    marks = [mark for pattern in patterns for mark in pattern.finditer(text)]
    end = 0
    for mark in sorted(marks, key=re.Match.start):
        name, sign = mark["name"], mark["sign"]
        in_query = text[mark.start() - 1 : mark.start()] in ("?", "&")
        is_signature = in_query and _SIGNED_ADDRESS.fullmatch(name) is not None
        is_login = mark.re is _LOGIN_IN_TEXT
        if mark.end() <= end or not (is_signature or is_login or looks_secret(name)):
            continue
        value = (_HEADER_VALUE if _HEADER.fullmatch(name) else _VALUE).match(text, mark.end())
        if value is None:
            continue
        kind = "bare" if value["quoted"] is None else "quoted"
        is_spaced = "=" in sign and sign.strip() != sign  # code
        is_entry = ":" in sign and name.lower() == "key"
        if kind == "bare" and (is_spaced or is_entry or value["bare"].startswith("//")):
            continue
        if is_signature or is_login or may_not_be_shown(name, value[kind]):
            end = value.end()
            yield value.span(kind)


def _looks_drawn(text: str) -> bool:
    """The same of digits and letters of one case: 97 of 100 keys of 40 hexadecimal digits are seen."""
    lowered = text.lower()
    is_digit = [letter.isdigit() for letter in lowered]
    in_words = sum(map(len, _LETTERS.findall(lowered)))
    changes = sum(one != next_ for one, next_ in pairwise(is_digit))
    letters = len(text) - sum(is_digit)
    return changes >= _CHANGES_SHARE_OF_ONE_CASE * (len(text) - 1) and in_words <= _WORDS_SHARE * letters


def _looks_random(text: str) -> bool:
    """Whether letters and digits follow each other as if drawn: names of kernels, models and runs are made of words.

    Of 32 characters drawn at random nine in ten are seen.
    """
    kinds = [letter.isupper() + 2 * letter.islower() for letter in text if letter.isalnum()]
    digits, capitals, small = map(kinds.count, range(3))
    if not digits or min(capitals, small) < _LETTERS_EACH or len(text) - len(kinds) > _SEPARATORS_SHARE * len(text):
        return False
    changes = sum(one != next_ for one, next_ in pairwise(kinds))
    in_words = sum(map(len, _LETTERS.findall(text)))
    return changes >= _CHANGES_SHARE * (len(kinds) - 1) and in_words < _WORDS_SHARE * small
