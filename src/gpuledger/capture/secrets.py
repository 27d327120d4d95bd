"""What of a command or a setting may be written down: words in, the same words without secrets out.

Two filters. `without_secrets` is for its owner's files and terminal: it parses shell, JSON, YAML, ini, XML, code, URLs and
headers, and withholds values that a name, a program's option or their own form gives away, to their end; where the end
is unclear, more. `shareable_command` is for documents that others read: it keeps only what is known to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

WITHHELD: Final = "(withheld)"
Place = tuple[int, int]
"""The first letter, and the one behind the last."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STRONG: Final = re.compile(
    r"\w*(?:secret|password|passwd|passphrase|passcode|credential|apikey|authtoken)s?|\w*pwd|passwo?rd|pswd"
    r"|authorization|bearer|(?:set)?cookies?|\w*sess(?:ion)?id|kennwort|passwort|contrasena|senha"
)
"""What is hardly ever called so unless it is a secret."""
_STRONG_AT_END: Final = re.compile(r"pw|creds?|jwts?|pat|sas|t?otp|pin|psk|mnemonic|requirepass|masterauth|code")
_TWO_WORDS: Final = frozenset(("api key", "api token", "access token", "access key", "auth token", "private key"))
"""What may be said before whose it is: API_KEY_OPENAI."""
_CODES: Final = frozenset("recovery backup verification pass pin mfa otp access auth security".split())
_WEAK: Final = re.compile(r"\w*?(key|token|pass|auth)s?")
_ADDED: Final = re.compile(r"\d+|v|value|val|string|str|text|hex|b64|base64|prod|dev|staging|ci|read|write|ro|rw|header")
"""What may follow: OPENAI_API_KEY_2, HF_TOKEN_READ, CI_JOB_JWT_V2."""
_ABOUT: Final = frozenset(
    "file files path paths dir folder name names env var vars variable id ids type types mode method length len size"
    " policy format url uri endpoint provider manager store backend prompt required enabled chars rotation ttl expiry"
    " timeout stdin ref refs version arn selector field column source stretch algorithm alg class count limit jar".split()
)
"""The last word of what is about a secret, and none itself."""
_SWITCHES: Final = "no disable skip without enable require ask num max min".split()
_ENGLISH: Final = "monkey donkey turkey hockey jockey whiskey hotkey bypass compass encompass surpass trespass".split()
_OTHERWISE: Final = {
    "key": "sort primary foreign group partition public cache index dict routing row column col query q lookup map json"
    " field state metric order by per shard prng rng random dataset data label feature image batch num head object",
    "token": "pad padding eos bos unk sep cls mask special stop start begin end eot eom sos first last next per image"
    " audio video think thinking prefix suffix fim tool separator sentinel num max min new extra prompt output input"
    " decode prefill draft each from total generated bad allowed reasoning completion",
    "pass": "single first second third one two three multi forward backward fwd bwd num per last next high low band by"
    " render opt compiler each final",
}
"""Words before `key`, `token` and `pass` that say that it is no secret: a sort key, a padding token, a forward pass."""


_OF_WHOM: Final = 2  # TOKEN_GITHUB; TOKEN_PER_STEP is another thing


def looks_secret(name: str) -> bool:
    """Whether a variable, an option or a key of this name may hold something that nobody else should read."""
    words = _words(name)
    weak = _WEAK.fullmatch(words[-1]) if words else None
    is_weak = weak is not None and words[-1].removesuffix("s") not in _ENGLISH and words[-1] not in _ENGLISH
    is_first = name.isupper() and words[:1] in (["token"], ["pass"]) and len(words) == _OF_WHOM
    if (is_first or not _TWO_WORDS.isdisjoint(map(" ".join, pairwise(words)))) and not _is_about(words):
        return True
    before = words[-2] if len(words) > 1 else ""
    is_other = weak is not None and (before in _OTHERWISE.get(weak[1], "").split() or _is_about(words))
    return is_strong(name) or (is_weak and not is_other)


def is_strong(name: str) -> bool:
    """Whether it is a secret whatever its value looks like: a password may be a number."""
    words = _words(name)
    if not words or _is_about(words):
        return False
    is_last = _STRONG_AT_END.fullmatch(words[-1]) and (words[-1] != "code" or not _CODES.isdisjoint(words[-2:-1]))
    return bool(is_last) or any(map(_STRONG.fullmatch, words))


def _is_about(words: Sequence[str]) -> bool:
    return words[-1] in _ABOUT or words[0] in _SWITCHES


def _words(name: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name[-200:])]
    while words and _ADDED.fullmatch(words[-1]):
        words.pop()
    return words


_PLAIN: Final = re.compile(
    r"|true|false|none|null|nil|yes|no|auto|on|off|default|optional|required|enabled|disabled|empty|\(withheld\)", re.I
)
_SCHEME: Final = re.compile(r"basic|digest|ntlm|bearer|oauth2?|kerberos|token", re.I)
_REFERENCE: Final = re.compile(
    r"(?:\w+ )?(?:\$\w+|\$\{\w+\}|\$\((?!echo|printf)[^()]*\)|\$?\{\{[^{}]*\}\}|\{[a-z_]+\}|%\w+%|%s|<[^<>!]*>|\[[A-Z_]+\])"
    r"|(?:(?:id|src|source|target|env|type)=[^,=]*(?:,|$))+"  # docker build --secret
)
_NUMBER: Final = re.compile(r"-?\d{1,5}(?:\.\d*)?")
_FILE: Final = re.compile(
    r"@?(?:~|\.{1,2})?/[\w./~-]*|[\w./~-]+\.(?:py|sh|json|ya?ml|toml|txt|pem|crt|key|cfg|ini|env)"
)
_CALL: Final = re.compile(r"lambda\b.*|[A-Za-z_][\w.]*[()].*|[A-Za-z_]\w*\.\w[\w.]*\[.*", re.S)
_ELEMENT: Final = re.compile(r"[^\s,()\[\]{}\"']+")


def may_not_be_shown(name: str, value: str) -> bool:
    """Whether a value that is called so is a secret, as far as one can tell from both."""
    if not looks_secret(name) or _PLAIN.fullmatch(value) or _REFERENCE.fullmatch(value):
        return False
    if _FILE.fullmatch(value) and not _looks_random(value):
        return False
    if is_strong(name):
        return True
    if re.fullmatch(r"\d+|https?://[^\s?#@]*", value) and (value[0] == "h" or _words(name)[-1].endswith("s")):
        return False  # a number of tokens, where keys are fetched
    is_listed = name.lower() in ("key", "keys") and re.fullmatch(r"[\[(]?[a-z_ ,'\"]*[\])]?", value)
    if value[:1] in ("[", "(", "{"):
        return not is_listed and not all(map(_NUMBER.fullmatch, _ELEMENT.findall(value)))
    return not (is_listed or _NUMBER.fullmatch(value) or _SCHEME.fullmatch(value))


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    return WITHHELD if may_not_be_shown(name, value) else _cut(value, _spans(value, before=name))


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    shown = list[str]()
    for before, word, (begin, kind) in zip(("", *argv), argv, _roles(argv), strict=False):
        own = [] if begin is None else [(begin, len(word))]
        shown.append(_cut(word, (*own, *_spans(word, kind, before))))
    for secret in sorted((text for text in known if len(text) > 3), key=len, reverse=True):
        shown = [word.replace(secret, WITHHELD) for word in shown]
    return shown


def secret_words(argv: Sequence[str]) -> set[int]:
    """Which words of a command what stands before them makes secrets, in part or as a whole."""
    return {index for index, (begin, _) in enumerate(_roles(argv)) if begin is not None}


def _cut(text: str, spans: Iterable[Place]) -> str:
    """The text with these spans withheld; spans that overlap become one."""
    pieces, done = list[str](), -1
    for begin, end in sorted(spans):
        if begin >= end or text[begin:end] == WITHHELD:
            continue
        if begin > done:
            pieces += [text[max(done, 0) : begin], WITHHELD]
        done = max(done, end)
    return "".join((*pieces, text[max(done, 0) :]))


def _rows(*rows: tuple[str, str, str]) -> tuple[tuple[frozenset[str], frozenset[str], str], ...]:
    return tuple((frozenset(programs.split()), frozenset(words.split()), how) for programs, words, how in rows)


_OPTIONS: Final = _rows(
    ("mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump mycli 7z 7za 7zz rar unrar", "-p= -hp=", ""),
    ("sshpass login twine mongosh mongo mongodump mongorestore mongoimport mongoexport mongostat cqlsh", "-p", ""),
    ("rdesktop crackmapexec nxc netexec evil-winrm poetry rabbitmqadmin yt-dlp youtube-dl ncftpget", "-p", ""),
    ("psexec useradd usermod beeline steghide users impala-shell", "-p", ""),
    ("redis-cli valkey-cli keydb-cli redis-benchmark", "-a --pass", ""),
    ("zip unzip zipcloak ssh-keygen sqlcmd bcp tsql mosquitto_pub mosquitto_sub ipmitool", "-P", ""),
    ("ssh-keygen", "-N", ""),
    ("openssl ipmitool nuget choco ss-local", "-k -K -pass -passin -passout", ""),
    ("ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd beeline", "-w", ""),
    ("snmpwalk snmpget snmpset snmpbulkwalk", "-A -X -c", ""),
    ("doctl flyctl vercel rancher influx", "-t", ""),
    ("smbclient rpcclient smbget", "-U", "%"),
    ("curl wget http https xh xhs", "-u -a -U --user --proxy-user --auth", ":"),
    ("gotty ttyd etcdctl transmission-remote jenkins-cli.jar", "-c -n --user -auth", ":"),
    ("curl", "-E --cert --proxy-cert", ":"),
    ("lftp", "-u", ","),
    ("curl", "-b --cookie", "="),
    ("keytool jarsigner", "-storepass -keypass -srcstorepass -deststorepass", ""),
    ("pdftotext pdftoppm pdfinfo", "-upw -opw", ""),
    ("secret secrets variable put-parameter", "-b --body --value --data --string-value", ""),
)
"""Programs, or what they are to do; their options that take a secret (`=`: in the same word); what ends the user."""
_SUBCOMMANDS: Final = _rows(
    ("redis-cli valkey-cli keydb-cli", "auth requirepass masterauth", "0"),
    ("vault bao wandb cargo ngrok", "login unwrap authtoken add-authtoken", "0"),
    ("vault bao", "put write patch", "1"),
    ("htpasswd", "-b -bc -cb -nb -bn -nbb -bnb -bb -cbb -bcb -bbn -bbc -nbm -nbs", "1"),
    ("fly flyctl heroku doppler", "set config:set", "0"),
    ("modal net rabbitmqctl", "create user use add_user change_password authenticate_user", "1"),
    ("mc", "set add", "2"),
    ("rclone bw grafana-cli grafana", "obscure unlock reset-admin-password", "0"),
    ("wpa_passphrase smbpasswd bw", "wpa_passphrase smbpasswd login", "1"),
    ("sqlplus sqlldr expdp impdp rman", "sqlplus sqlldr expdp impdp rman", "0"),
    ("openssl ansible-vault travis convertto-securestring", "passwd encrypt_string encrypt convertto-securestring", "0"),
    ("mysqladmin nmcli pdftk", "password user_pw owner_pw", "0"),
)
"""Programs; what they are to do with a secret that follows as a word; how many words come before it."""
_PROGRAMS: Final = frozenset[str]().union(*(programs for programs, _, _ in (*_OPTIONS, *_SUBCOMMANDS)))
_SETTING: Final = frozenset("set config setenv setx put SET ENV ARG SetEnv proxy_set_header".split())
"""What programs are to do with a name and a value that follow."""
_WHOLE: Final = re.compile(r"(?:--?env=|-D|-e|\+{1,2}|-{1,2})?(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.S)
"""A word that is nothing but a setting with its value, blanks and all."""
_USER: Final = r"(?!\d+:\d+$)[^\s:@/=]+:(?=[^\s/])"
_WHO: Final = r"--?[\w-]*(?:login|auth|userpwd|creds?)"
_AFTER_USER: Final = re.compile(rf"--from-literal=[^=]*=|/p(?:ass(?:word)?)?:|{_WHO}={_USER}")
_READS_SECRET: Final = re.compile(r".*(?:-stdin|-fd|with-token|secret).*|-S|chpasswd|passwd|kinit|cryptsetup|login", re.S)
_INTERPRETER: Final = re.compile(r"(?:i?python|pypy|node|ruby|perl|julia|php|deno)[\d.]*")
_SHELL: Final = re.compile(r"(?:ba|da|z|k|a|fi|c|tc)?sh|su|pwsh|powershell|cmd|ssh|eval|s(?:run|batch)")
_TEXT: Final = re.compile(r"-[a-z]*c|-e|-r|/c|--(?:eval|wrap|command|cmd)")
"""What comes before a text for a shell, or code."""


def _roles(words: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """For each word, from which letter on what stands before it makes it a secret; and its language."""
    before, language, verb, left = "", "", False, -1
    programs = set[str]()
    for word in words:
        is_option, is_flag = word[:1] == "-", before[:1] == "-" and "=" not in before
        begin = _option_secret(before, word, programs) if before or programs else None
        if begin is None and (is_flag or (verb and "=" not in before)) and not is_option and (
            may_not_be_shown(before, word) or (verb and may_not_be_shown(before.partition(".")[0], word))
        ):
            begin = 0
        if left >= 0 and not is_option:
            whole = _WHOLE.fullmatch(word) if left == 0 else None
            begin = begin if left or begin is not None else whole.start("value") if whole else 0
            left = max(left - 1, 0)
        yield begin, language if _TEXT.fullmatch(before) or before == "eval" or "ssh" in programs else ""
        name = PurePath(word[-_LONGEST_PROGRAM:]).name.lower()
        language = "code" if _INTERPRETER.fullmatch(name) else "shell" if _SHELL.fullmatch(name) else language
        verb = verb or word in _SETTING
        if name in _PROGRAMS or name == "ssh":
            programs.add(name)
        for owners, verbs, skipped in _SUBCOMMANDS if programs else ():
            left = int(skipped) if word.lower() in verbs and not owners.isdisjoint(programs) else left
        before = word


_LONGEST_PROGRAM: Final = 256
"""Letters of a path that are looked at: a name of a file has no more."""


def _option_secret(before: str, word: str, programs: set[str]) -> int | None:
    """Where the secret of a program's option begins: in the word behind it, or in the same."""
    for owners, options, separator in _OPTIONS if programs else ():
        for option in () if owners.isdisjoint(programs) else options:
            short = option.rstrip("=")
            is_bundle = separator == ":" and re.fullmatch(f"-[sSfLkivgN]*{short[1:]}", before)
            if (before == option and (separator or word[:1] != "-")) or is_bundle:
                start = 0
            elif word.startswith(short) and word != short and (len(short) == 2 or short != option or word[len(short)] == "="):
                start = len(short) + (word[len(short)] == "=")
            else:
                continue
            place = word.find(separator, start)
            if place >= 0 and not (separator == ":" and word[start:].replace(":", "").isdigit()):
                return start if separator in ("", "=") or place + 1 == len(word) else place + 1
    if before == "--from-literal":
        return word.find("=") + 1
    part = _AFTER_USER.match(word) or (re.match(_USER, word) if re.fullmatch(_WHO, before) else None)
    return part.end() if part else None


_PIECE: Final = re.compile(
    r"""\\.|'[^']*'|"(?:[^"\\]++|\\.)*+"|(?P<end>[;&|\n()]+)|(?P<blank>[ \t\r]+)|[^\s;&|()'"\\]+|.""", re.S
)
_DEPTH, _SHORT = 4, 8
"""Texts in texts that are parsed: a shell's in a shell's in a job script's."""


def _in_shell(text: str, depth: int) -> Iterator[Place]:
    """Secrets of the commands in a text for a shell, as far as it can be read."""
    words, piped, begin = list[tuple[str, int, int]](), list[tuple[str, int, int]](), -1
    for piece in (*_PIECE.finditer(text), None):
        if piece is not None and piece.lastgroup is None:
            begin = piece.start() if begin < 0 else begin
            continue
        end = len(text) if piece is None else piece.start()
        if begin >= 0:
            is_quoted = text[begin] in "'\"" and text.find(text[begin], begin + 1) == end - 1 > begin
            begin, end = begin + is_quoted, end - is_quoted
            plain = text[begin:end] if is_quoted else re.sub(r"""\\(.)|['"]""", r"\1", text[begin:end], flags=re.S)
            words.append((plain, begin, end))
            begin = -1
        if piece is None or piece.lastgroup == "end":
            yield from _in_one_command(text, words, piped, depth)
            piped, words = (words if piece and piece[0] == "|" else []), []


def _in_one_command(
    text: str, words: list[tuple[str, int, int]], piped: list[tuple[str, int, int]], depth: int
) -> Iterator[Place]:
    plain = [word for word, _, _ in words]
    is_kept = re.search(r">\s*\S*$", " ".join(plain[:-1] + [plain[-1][:1]])) is not None if plain else False
    if plain and plain[0] in ("echo", "printf") and is_kept and looks_secret(plain[-1]):
        piped = words[:-1]
        yield from ((begin, end) for word, begin, end in piped[1:] if word[:1] not in "-$>")
    elif piped and piped[0][0] in ("echo", "printf") and any(map(_READS_SECRET.fullmatch, plain)):
        yield from ((begin, end) for word, begin, end in piped[1:] if word[:1] not in "-$")
    is_read = False
    for (word, begin, end), (start, kind) in zip(words, _roles(plain), strict=True):
        if start is not None:
            rest = text.rfind(word[start:], begin, end)
            yield (rest if rest >= 0 else begin), end
        elif is_read or word.startswith("<<<"):
            is_read = is_read or any(looks_secret(one) or _READS_SECRET.fullmatch(one) for one in plain)
            yield (begin + 3 * word.startswith("<<<"), end) if is_read else (0, 0)
        elif depth < _DEPTH and len(word) > _SHORT and re.search(r"\s", word):
            inner = text[begin:end]
            spans = (*_in_shell(inner, depth + 1), *(_after_names(inner, kind) if kind else ()))
            yield from ((begin + first, begin + last) for first, last in spans)


def _spans(text: str, kind: str = "", before: str = "") -> Iterator[Place]:
    """Where the secrets of one word are: a setting, a text for a shell, a document, code."""
    whole = None if kind else _WHOLE.fullmatch(text)
    if whole is not None and may_not_be_shown(whole["name"], whole["value"]):
        yield whole.span("value")
    yield from _after_names(text, kind)
    if kind == "code" or text.lstrip()[:1] == "[":
        literals = [(text[piece.start() + 1 : piece.end() - 1], *piece.span()) for piece in _LITERAL.finditer(text)]
        for (word, begin, end), (start, _) in zip(literals, _roles([word for word, _, _ in literals]), strict=True):
            if start is not None:
                yield begin + 1 + start, end - 1
            elif len(word) > _SHORT and " " in word:
                yield from ((begin + 1 + first, begin + 1 + last) for first, last in _in_shell(word, 1))
    elif re.search(r"\s", text):
        yield from _in_shell(text, 0)
    yield from (match.span(match.lastgroup or 0) for match in _FORM.finditer(text))
    yield from (run.span() for run in _RUN.finditer(text) if _looks_random(run[0]))
    for run in (*_RUN_OF_ONE_CASE.finditer(text), *_TAGGED.finditer(text)):
        if _looks_drawn(run["body"]) and not _is_digest(text, run.start("body"), before):
            yield run.span()


_LITERAL: Final = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
_MARKS: Final = (
    re.compile(  # name=  "name":  name =>  ["name"] =
        r"""(?<![\w.-])-{0,2}(?P<name>\w[\w.-]*+)(?P<close>\\{0,8}["'])?"""
        r"(?P<sign>\s*+(?:[\]}]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?!:))\s*+)"
    ),
    re.compile(r"<(?P<close>)(?P<name>[\w:.-]++)(?P<sign>(?:\s[^<>]*+)?>)"),  # an element of XML
    re.compile(  # ("NAME", "value")  ["--name", "value"]
        r"""(?P<close>\\{0,8}["'])(?P<name>(?:--)?\w[\w.-]*+)\\{0,8}["'](?P<sign>\s*,\s*)(?=\\{0,8}["'])"""
    ),
    re.compile(r"(?<![\w.])(?P<close>)(?P<name>[A-Za-z_][\w.]*+)(?P<sign>)(?=\()"),  # login("...")
    re.compile(  # SQL, netrc, a name and a value in a line
        r"(?i)(?<![\w/.-])(?P<close>)(?P<name>[\w-]*(?:password|passwd|passphrase|requirepass|identified(?: with \S+)? by))"
        r"""(?P<sign>\s++)(?=['"]|(?![-/&|;<>])(?:[^\s=:]*[\d_@#!%^*.-]|[^\s=:]+\s*(?:$|\n)))"""
    ),
)
_TAG, _PAIR, _CALL_OF, _SPACED = _MARKS[1:]
_NAMING: Final = re.compile(r"(?i)(?:parameter|env|header|var|entry)?_?(?:name|key|variable|property|id)")
_NAMED: Final = re.compile(r"""\\{0,8}["']?(?P<name>[\w.:/-]+)""")
_VALUED: Final = re.compile(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)")
"""Keys of a pair: {"name": "HF_TOKEN", "value": "..."}."""
_ATTRIBUTE: Final = re.compile(r"""(?i)\b(?:name|key|id|property)\s*=\s*\\{0,8}["'](?P<name>[\w.-]+)""")
_SIGNED_ADDRESS: Final = re.compile(r"(?:x-[a-z]+-)?(?:sig(?:nature)?|credential)", re.I)
_CALLED: Final = re.compile(
    r"(?:\w+\.)*(?!get|load|read|from|ask|input|has|is)\w*?"
    r"(?:login|auth(?:enticate)?|credentials?|password|secret(?:str)?)",
    re.I,
)
"""A function that takes a secret without a name."""
_KEEPS_SECRETS: Final = re.compile(r"""\bkind["']?\s*:\s*["']?Secret\b""")


def _after_names(text: str, kind: str) -> Iterator[Place]:
    """Values behind the names of secrets: `api_key=...`, `"token": "..."`, `<password>...`, name/value pairs."""
    keeps = ("data", "stringData") if _KEEPS_SECRETS.search(text) else ()
    end, is_paired, unnamed, heredoc = 0, False, None, text.find("<<")
    for mark in sorted((mark for pattern in _MARKS for mark in pattern.finditer(text)), key=re.Match.start):
        name, manner = mark["name"], "" if 0 <= heredoc < mark.start() and kind == "shell" else kind
        if mark.start() < end or (text[mark.start() - 1 : mark.start()] == "$" and mark["sign"].strip() == ":"):
            continue
        if _NAMING.fullmatch(name) and mark.re in _MARKS[:2]:
            named = _NAMED.match(text, mark.end())
            is_paired = named is not None and looks_secret(named["name"])
            if is_paired and unnamed and not re.search("[}{]", text[unnamed.end() : mark.start()]):
                yield from ((begin, last) for begin, last, _ in _value(text, unnamed, manner, "password"))
            unnamed = None
        elif _VALUED.fullmatch(name):
            name, unnamed, is_paired = "password" if is_paired else name, mark, False
        if name in keeps or _is_secret_by_place(text, mark):
            name = "password"
        for begin, end, is_secret in _value(text, mark, manner, name) if looks_secret(name) else ():
            yield (begin, end) if is_secret else (0, 0)


def _is_secret_by_place(text: str, mark: re.Match[str]) -> bool:
    """Whether what surrounds a name makes its value a secret."""
    name = mark["name"]
    if mark.re is _TAG:
        attribute = _ATTRIBUTE.search(mark["sign"])
        return attribute is not None and looks_secret(attribute["name"])
    in_query = text[mark.start() - 1 : mark.start()] in ("?", "&")
    return mark.re is _SPACED or bool(
        (in_query and _SIGNED_ADDRESS.fullmatch(name)) or (mark.re is _CALL_OF and _CALLED.fullmatch(name))
    )


_OPENING: Final = re.compile(r"""[bruf]{0,2}(?P<mark>\\{0,8}(?:\"""|'''|["'`]))""")
_BRACKETS: Final = re.compile(r"""\\{0,8}["'`]|[\[({\])}]""")
_JOINED: Final = re.compile(r"""\s*[+%]\s*(?=["'\[({\w])|[ \t]*(?:\n[ \t]*)?(?=[bruf]?["'`])""")
_GLUED: Final = re.compile(r"""(["'])[^\s"',;]*\1""")
_IN_QUERY: Final = re.compile(r"""[^&#\s"'<>]*+""")
_IN_WORD: Final = re.compile(r"""(?:[^\s;&|<>()"'`\\]|\\.)*+""", re.S)
_IN_CODE: Final = re.compile(r"""[^\s,;()\[\]{}"'`]*+(?:\s=(?=\s))?+[ \t]*+""")
_IN_LINE: Final = re.compile(r"""(?:(?!\\n)[^\n])*+""")
_IN_ELEMENT: Final = re.compile("[^<]*+")
_NEXT: Final = r"""\s*\\{0,8}["']?[\w.-]{1,80}\\{0,8}["']?\s*[:=]"""
_IN_FLOW: Final = re.compile(
    rf"""(?:[^\n"'`,}}\])\\]|,(?!{_NEXT})(?!\s*[{{\[])|[}}\])](?!\s*(?:[,;}}\])"']|$)))*+""", re.M
)
_IN_SETTING: Final = re.compile(
    rf"""(?:[^\s,;&|"'`)\]}}<>]|[ \t]+(?![-"'\s&|]|$)(?!{_NEXT})|[,;&|](?![\s"']|$)(?!{_NEXT})|[)\]}}](?![\s,;)\]}}"']|$))*+"""
)
"""What a value without quotes is made of, by where it stands."""


def _value(text: str, mark: re.Match[str], kind: str, name: str) -> Iterator[tuple[int, int, bool]]:
    """The value behind a name, and whether it may not be shown; nothing where more names may be in it."""
    place, sign = mark.end(), mark["sign"]
    opened = text[mark.start() - 1 : mark.start()] if mark.re is _MARKS[0] and not mark["close"] else ""
    line = text[text.rfind("\n", max(mark.start() - 200, 0), mark.start()) + 1 : mark.start()]
    is_first = re.fullmatch(r"""\s*(?:-\s+)?(?:export\s+|set\s+)?["']?""", line) is not None
    is_yaml = sign.strip() == ":" and is_first
    quote = _OPENING.match(text, place)
    is_inner = opened in ("'", '"', "`")
    if is_inner:
        escape = re.search(r"\\*$", text[max(mark.start() - 9, 0) : mark.start() - 1])
        end = _closing(text, place, (escape[0] if escape else "") + opened, inner=True)
    elif is_yaml and (block := _block(text, mark)):
        place, end = block
    elif sign.strip() == ":" and name.lower() == "key" and quote is None and not re.search(r"\w $", line):
        return  # an entry of a table
    elif "\n" in sign and text[place : place + 1] not in ('"', "'", "[", "{", "("):
        return
    elif mark.re is _TAG:
        end = text.find(f"</{mark['name']}", place)
        if end < 0 and not (text.startswith("<") or text.rfind("</") > place):
            return  # `--token <token>`
        end = end if end >= 0 else len(text)
    else:
        end = _value_end(text, place, _manner(text, mark, kind, is_first=is_first))
    quote = _OPENING.match(text, place)
    is_quoted = quote is not None and _closing(text, quote.end(), quote["mark"]) == end
    if quote is not None and is_quoted:
        place, end = quote.end(), end - len(quote["mark"]) * text.endswith(quote["mark"], quote.end(), end)
    end = place + len(text[place:end].rstrip())
    value = text[place:end]
    if not is_quoted and not is_inner and _is_computed(value, mark, kind, name):
        yield from () if re.search("[\"'`]", value) else ((place, end, False),)
    elif not value.startswith("//") and may_not_be_shown(name, value):
        yield place, end, True


_LOOKED_UP: Final = re.compile(r"environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")


def _is_computed(value: str, mark: re.Match[str], kind: str, name: str) -> bool:
    """Whether it is an expression of a program, which holds no secret itself."""
    has_text = re.search("[\"'`]", value) is not None
    if mark.re is _CALL_OF or kind == "code":
        return not has_text or _LOOKED_UP.search(value) is not None
    is_spaced = "=" in mark["sign"] and mark["sign"].strip() != mark["sign"]
    return is_spaced and bool(_CALL.fullmatch(value)) and (not is_strong(name) or bool(_LOOKED_UP.search(value)))


def _manner(text: str, mark: re.Match[str], kind: str, *, is_first: bool) -> re.Pattern[str]:
    """What an unquoted value is made of here."""
    sign, opened = mark["sign"], text[max(mark.start() - 9, 0) : mark.start()].rstrip()[-1:]
    is_spaced, is_valued = sign.strip() != sign, text[mark.end() : mark.end() + 1] in ('"', "'", "[", "(", "{")
    if opened in ("?", "&", "#") and "=" in sign and not is_spaced and kind != "shell":
        return _IN_QUERY
    if kind == "code" or ("=" in sign and is_spaced and is_valued):
        return _IN_CODE
    if sign.strip() == ":":
        return _IN_FLOW if mark["close"] or opened in ("{", ",", "[") else _IN_WORD if kind == "shell" else _IN_LINE
    if kind == "shell" or sign.isspace():
        return _IN_WORD
    return _IN_LINE if is_spaced or (is_first and "\n" in text) else _IN_SETTING


_HEAD: Final = re.compile(r"\s*(?:[&!]\S+\s*)*(?:[|>][\d+-]*)?\s*(?:#.*)?")
_REST_OF_LINE: Final = re.compile(r"[^\n]*")


def _block(text: str, mark: re.Match[str]) -> Place | None:
    """The lines of YAML below a key: deeper ones, or a list as deep; None where the value is all in one line."""
    beside = _REST_OF_LINE.match(text, text.index(":", mark.start("sign")) + 1)
    column = mark.start() - text.rfind("\n", 0, mark.start()) - 1
    if beside is None or column > _DEEPEST or beside[0].strip()[:1] in ("[", "{", "(", "'", '"'):
        return None
    deeper = rf"\n(?:[ \t]*(?=\n|$)|[ \t]{{{column + 1},}}[^\n]*|[ \t]{{{column}}}-[ \t][^\n]*)"
    below = re.compile(f"(?:{deeper})++").match(text, beside.end())
    if below is None or not below[0].strip():
        return None
    begin = below.end() - len(below[0].lstrip()) if _HEAD.fullmatch(beside[0]) else mark.end()
    return begin, below.end()


_DEEPEST: Final = 200
"""Columns that keys of YAML stand in; beyond, it is another text with a colon."""


def _value_end(text: str, place: int, manner: re.Pattern[str]) -> int:
    """Where a value ends: quotes and brackets at their partners, or at the text's end where those are missing."""
    begin, is_bare = -1, False
    while begin < place < len(text):
        begin = place
        if (opening := _OPENING.match(text, place)) and (not is_bare or _GLUED.match(text, place)):
            place, is_bare = _closing(text, opening.end(), opening["mark"]), False
        elif text[place] in "[({":
            place = _bracket_end(text, place)
        elif plain := manner.match(text, place):
            place, is_bare = plain.end(), manner is not _IN_CODE
        if place > begin and not is_bare and (joined := _JOINED.match(text, place)):
            place = joined.end()
    return place


def _closing(text: str, place: int, mark: str, *, inner: bool = False) -> int:
    """Behind the quote that closes, or before it; the text's end where there is none."""
    begin = place
    while (place := text.find(mark, place)) >= 0:
        before = text[max(begin, place - 20) : place]
        slashes = len(before) - len(before.rstrip("\\"))
        if slashes == 0 or (slashes % 2 == 0 and mark[0] != "\\"):
            return place if inner else place + len(mark)
        place += 1
    return len(text)


def _bracket_end(text: str, place: int) -> int:
    depth, quoted = 0, 0
    for match in _BRACKETS.finditer(text, place):
        if match.start() < quoted:
            continue
        if match[0][-1] in "\"'`":
            quoted = _closing(text, match.end(), match[0])
        elif (depth := depth + (1 if match[0] in "[({" else -1)) == 0:
            return match.end()
    return len(text)


_PREFIXES: Final = r"""
    dckr_[po]at_ GOCSPX- xapp- xox[a-z][.-] gl(?:pat|dt|rt|ft|ptt|cbt|imt|agent|oas|soat|ffct|wt)- AT(?:ATT|CTT|BB)
    shp(?:at|ca|pa|ss|tka)_ whsec_ lin_(?:api|oauth)_ sq0[a-z]{3}- EAAA[A-Z] AGE-SECRET-KEY- github_pat_ gh[pousr]_
    hv[sbr]\. npm_(?=[^\W_]{16}) pypi-(?=[\w-]{16}) rubygems_ do[opr]_v1_ SG\.(?=[\w-]{10}) r8_(?=\w{16}) xai-(?=\w{16})
    nvapi- gsk_ [sr]k_(?:live|test|prod)_ ntn_(?=\w{12}) pplx- AKCp (?:AKIA|ASIA|ABIA|ACCA) AIza ya29\. 1//0 LTAI PMAK-
    pul-(?=[\da-f]{20}) pn[ub]_(?=\w{20}) rdme_ sgp_ sntry[su]_ sm_[aps]at_ shippo_(?:live|test)_ x(?:keysib|smtpsib)-
    FLWSECK fio-u- glsa_ glc_(?=\w{20}) HRKU- ico-(?=\w{32}) dt0[a-z]\d\d\. dp\.(?:pt|st|ct|sa|scim|audit)\. duffel_
    EZ[AT]K(?=\w{20}) CLOJARS_ CCIP(?:AT|RJ)_ NR(?:AK|II|JS)- ph[cx]_(?=\w{20}) figd_ fo1_ fm2_ nfp_ sbp_ sb_secret_
    pscale_(?:tkn|pw|oauth)_ tskey- v1\.0-(?=[\da-f]{24}) lsv2_[a-z]{2}_ tgp_v1_ tvly- jina_(?=[\da-f]{32}) pcsk_ csk-
    bkua_ snyk_(?=\w{20}) sq[aup]_(?=[\da-f]{20}) ops_eyJ p8e- CFPAT- rpa_(?=\w{20}) dapi(?=[\da-f]{8}) api_org_ sha256~
    hf_(?=[^\W_]{16}) sk-(?=[\w-]{16}) secret_(?=[^\W_]{24}) key-(?=[\da-f]{32}) EAA(?=\w{30}) wandb_v\d_ apify_api_
    pat[^\W_]{14}\. (?:live|test)_(?=[\da-f]{30}) access_token\$production\$ esecret_ SK(?=[\da-f]{32}) e2b_(?=\w{20})
"""
"""What services begin their keys with (as gitleaks, trufflehog and the services say), each with what makes it no word."""
_FORM: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?P<a>(?:{'|'.join(_PREFIXES.split())})[\w.~+/=-]{{8,}})"
    # a token that carries its own claims
    r"|(?<![\w.-])(?P<b>eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*)"
    r"|(?P<c>-----BEGIN [A-Z\d ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z\d ]*PRIVATE KEY[A-Z ]*-----|\Z))"
    r"|(?P<d>PuTTY-User-Key-File.*)"
    r"|(?i:\bbearer)\s+(?P<e>(?=[\w.~+/=-]*\d|[\w.~+/=-]{16})[\w.~+/=-]{6,})"
    # who asks, in an address; up to the last @, as a password may hold one
    r"""|(?<![\w+.-])(?i:[a-z][a-z0-9+.-]{0,20}://)[^\s/:@"']{0,99}:(?!\d{1,5}[/?])(?P<f>(?!\$)[^\s"'<>]{1,200})@(?=[\w.\[$-])"""
    r"""|https?://(?P<g>(?=[^\s/:@"']*\d|[^\s/:@"']{20})[^\s/:@"'$]{8,})@"""
    r"""|(?<![\w/@:.-])(?!mailto:)[\w.-]+:(?P<h>(?!\$)[^\s/:@"']{4,})@(?!sha\d+:)[\w.-]+"""
    r"|:thin:\w+/(?P<i>[^\s@]+)@"
    r"|(?i:hooks?\.slack\.com/[a-z]+|/web-?hooks?(?:b2)?)/(?P<j>[\w/.~%@-]{8,})",
    re.S,
)
_RUN: Final = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,256}={0,2}(?![\w+/=-])")
_RUN_OF_ONE_CASE: Final = re.compile(
    r"(?:(?<=//)|(?<![\w+/@:.-]))(?P<body>[a-z0-9]{24,256}|[A-Z0-9]{24,256})(?![\w+/.-])"
)
_TAGGED: Final = re.compile(r"(?<![\w./-])(?:[A-Za-z][A-Za-z0-9]{1,11}[_.-]){1,3}(?P<body>[A-Za-z0-9]{20,256})(?!\w)")
"""A service's tag and what it drew, as all of them write their keys."""
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
_SHORTEST_SEGMENT: Final = 16
"""Letters between slashes, which base 64 has one of in 64: a path has them closer."""

def _is_digest(word: str, start: int, before: str) -> bool:
    """Whether it is named for a commit, a digest or a number, in this word or by the one before it."""
    text = f"{before} {word[max(start - 40, 0) : start]}"
    return _DIGEST.search(text) is not None


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
    if "/" in text and max(map(len, text.split("/"))) < _SHORTEST_SEGMENT:
        return False
    kinds = [letter.isupper() + 2 * letter.islower() for letter in text if letter.isalnum()]
    digits, capitals, small = map(kinds.count, range(3))
    if not digits or min(capitals, small) < _LETTERS_EACH or len(text) - len(kinds) > _SEPARATORS_SHARE * len(text):
        return False
    changes = sum(one != next_ for one, next_ in pairwise(kinds))
    in_words = sum(map(len, _LETTERS.findall(text)))
    return changes >= _CHANGES_SHARE * (len(kinds) - 1) and in_words < _WORDS_SHARE * small
