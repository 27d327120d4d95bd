"""Which names are of secrets, and which values under such a name are none: `$NAME`, a file, a number of tokens."""

from __future__ import annotations

import re
from typing import Final

from gpuledger.capture.secret_forms import looks_random
from gpuledger.regex import regex


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_WORD: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STRONG: Final = regex(
    r"(?:^| )(?:\w*(?:secret|password|passwd|passphrase|passcode|credential|apikey|authtoken)s?|\w*pwd|passwo?rd|pswd"
    r"|authorization|bearer|(?:set)?cookies?|\w*(?:sess(?:ion)?id|psk)|kennwort|passwort|contrasena|senha|identified"
    r"|(?:\w*(?:pw|jwts?|sas)|creds?|pat|t?otp|pin|psk|mnemonic|requirepass|masterauth"
    r"|(?:recovery|backup|verification|pass|pin|mfa|otp|access|auth|security|unlock|activation|reset) code)$)(?: |$)"
)
"""What is hardly ever called so unless it is a secret, whatever its value looks like: a password may be a number."""
_WEAK: Final = regex(
    r"(?:^|(?P<before>\w+) )(?!(?:mon|don|tur|hoc|joc|whis|hot)keys?$|(?:by|com|encom|sur|tres)pass$)\w*?(?P<kind>key|token|pass|auth)s?$"
    r"|(?:^| )sig(?:nature)?s?$|(?:api|access|private) key|(?:api|access|auth) token|auth config"
)
_ADDED: Final = regex(
    r"\d+|v|value|val|string|str|text|hex|b64|base64|prod|dev|staging|ci|read|write|ro|rw|header|old|new|prev|current|main|backup|test"
)
"""What may follow: OPENAI_API_KEY_2, HF_TOKEN_READ, CI_JOB_JWT_V2."""
_ABOUT: Final = word_set(
    "file files path paths dir folder name names env var vars variable id ids type types mode method length len size"
    " policy format url uri endpoint provider manager store backend prompt required enabled chars rotation ttl expiry"
    " timeout stdin ref refs version arn selector field column source stretch algorithm alg class count limit jar"
    " command cmd"
)
"""The last word of what is about a secret, and none itself."""
_SWITCHES: Final = word_set("no disable skip without enable require ask num max min")
_OTHERWISE: Final = {
    "key": "sort primary foreign group partition public cache index dict routing row column col query q lookup map json"
    " field state metric order by per shard prng rng random dataset data label feature image batch num head object"
    " project host recv send known",
    "token": "pad padding eos bos unk sep cls mask special stop start begin end eot eom sos first last next per image"
    " audio video think thinking prefix suffix fim tool separator sentinel num max min new extra prompt output input"
    " decode prefill draft each from total generated bad allowed reasoning completion initializer placeholder trigger",
    "pass": "single first second third one two three multi forward backward fwd bwd num per last next high low band by"
    " render opt compiler each final",
}
"""Words before `key`, `token` and `pass` that say that it is no secret: a sort key, a padding token, a forward pass."""


def looks_secret(name: str) -> bool:
    """Whether the name of a variable, option or key suggests a secret."""
    words = _words(name)
    weak = _WEAK.search(words)
    is_other = weak is not None and (weak["before"] or "-") in _OTHERWISE.get(weak["kind"] or "", "").split()
    is_first = name.isupper() and re.fullmatch(r"(?:token|pass) \w+", words)  # but not TOKEN_PER_STEP
    return bool(_STRONG.search(words) or is_first) or (weak is not None and not is_other)


def is_strong(name: str) -> bool:
    """Whether it is a secret whatever its value looks like."""
    return _STRONG.search(_words(name)) is not None


def _words(name: str) -> str:
    words = [word.lower() for word in _WORD.findall(name[-200:])]
    while words and _ADDED.fullmatch(words[-1]):
        words.pop()
    return "" if not words or words[-1] in _ABOUT or words[0] in _SWITCHES else " ".join(words)


_REFERENCE: Final = regex(
    r"|(?i:true|false|none|null|nil|yes|no|auto|on|off|default|optional|required|enabled|disabled|empty)|\(withheld\)"
    r"|(?:\w+ )?(?:\$\w+|\$\{\w+\}|\$\((?!echo|printf)[^()]*\)|\$?\{\{[^{}]*\}\}"
    r"|\{\w*(?:key|token|pass|pwd?|secret|cred|auth)\w*\}|%\w+%|%s|<[^<>!]*>|\[[A-Z_]+\])"
    r"|(?:(?:id|src|source|target|env|type)=[^,=]*(?:,|$))+"  # docker build --secret
    r"|(?:file|env|fd):.*|stdin"
)
_FILE: Final = regex(r"@?(?:~|\.{1,2})?/[\w./~-]*|[\w./~-]+\.(?:py|sh|json|ya?ml|toml|txt|pem|crt|key|cfg|ini|env)")
_NOT_WEAK: Final = regex(
    r"(?:[\[(\s]*+-?\d{1,5}(?:\.\d*+)?(?![\d.])[\s,\])]*+)++|basic|digest|ntlm|bearer|oauth2?|kerberos|token|https?://[^\s?#@]*",
    re.I,
)
"""Values of a key or a token that is no secret: numbers, the scheme of a header, an address."""
USERS: Final = regex(r"(?i)-{0,2}[\w-]*(?:login|auth|user|userpwd|creds?|credentials?)")
"""Names of options that take a user, maybe with a password."""
_USER: Final = regex(r"(?!\d+:\d+$|(?P<who>[\w-]+):(?P=who)$)[^\s:@/=]+:(?=[^\s/]).*", re.S)


_LONGEST: Final = 400


def may_not_be_shown(name: str, value: str) -> bool:
    """Whether a value is withheld, by its name and its form."""
    if len(value) > _LONGEST:
        return looks_secret(name)
    if USERS.fullmatch(name) and _USER.fullmatch(value):
        return True
    is_file = _FILE.fullmatch(value) and not looks_random(value)
    if not looks_secret(name) or is_file or _REFERENCE.fullmatch(value):
        return False
    if is_strong(name):
        return True
    is_count = value.isdigit() and name[-1] in "sS"
    is_plain_key = name.lower() in ("key", "keys") and not re.search(r"\d", value)
    return not (is_count or is_plain_key or _NOT_WEAK.fullmatch(value))
