"""What of a command or a setting may be written down: words in, the same words without secrets out.

For the owner's files and terminal. A name, a program's option or a value's own form gives a secret away; it is withheld
to the quote or the bracket that closes, or to the end of the shell word, the line or the argument: where that is
unclear, more. Documents for others have `shareable_command`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpuledger.capture.secret_forms import secret_forms
from gpuledger.capture.secret_names import USERS, is_strong, looks_secret, may_not_be_shown, word_set
from gpuledger.regex import regex

WITHHELD: Final = "(withheld)"
Span = tuple[int, int]


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    return WITHHELD if may_not_be_shown(name, value) else _cut(value, _spans(value, name))


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    spans = [list(_spans(word, before)) for before, word in zip(("", *argv), argv, strict=False)]
    for index, span in _in_commands(argv):
        spans[index].append(span)
    again = {text for text in known if len(text) > 3}  # noqa: PLR2004 - what is shorter is part of other words
    for word, places in zip(argv, spans, strict=True):
        again.update(filter(_REPEATED.fullmatch, (word[first:last].strip("\\\"'`") for first, last in places)))
    shown = [_cut(word, places) for word, places in zip(argv, spans, strict=True)]
    for secret in sorted(again, key=len, reverse=True):
        shown = [word.replace(secret, WITHHELD) for word in shown]
    return shown


_REPEATED: Final = regex(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}")
"""A secret that is not a word of its own accord: withheld wherever it stands again."""


def _cut(text: str, spans: Iterable[Span]) -> str:
    """The text with these spans withheld; spans that overlap become one."""
    pieces, done = list[str](), -1
    for begin, end in sorted(spans):
        if begin >= end or text[begin:end] == WITHHELD:
            continue
        if begin > done:
            pieces += [text[max(done, 0) : begin], WITHHELD]
        done = max(done, end)
    return "".join((*pieces, text[max(done, 0) :]))


_TAKES: Final = """
mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump mycli 7z 7za 7zz rar unrar: -p -hp
sshpass login twine mongosh mongo mongodump mongorestore mongoimport mongoexport mongostat cqlsh ncftpput ncftpget: -p
supabase conan cypher-shell xmpp sendxmpp rdesktop crackmapexec nxc netexec evil-winrm poetry rabbitmqadmin yt-dlp: -p
youtube-dl psexec useradd usermod beeline steghide users impala-shell: -p
redis-cli valkey-cli keydb-cli redis-benchmark: -a --pass auth requirepass masterauth
zip unzip zipcloak ssh-keygen sqlcmd bcp tsql mosquitto_pub mosquitto_sub ipmitool: -P
swanlab openssl ipmitool nuget choco ss-local: -k -K -pass -passin -passout
ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd beeline: -w
snmpwalk snmpget snmpset snmpbulkwalk: -A -X -c
doctl flyctl vercel rancher influx codecov anaconda: -t
ssh-keygen: -N
bearer: -a --auth
sendemail signtool: -xp /p
ldappasswd: -s
smbclient rpcclient smbget: -U
curl wget http https xh xhs: -u -a -U --user --proxy-user --auth -E --cert --proxy-cert -b --cookie
gotty ttyd etcdctl transmission-remote jenkins-cli.jar: -c -n --user -auth
lftp: -u
kubectl: --from-literal
keytool jarsigner: -storepass -keypass -srcstorepass -deststorepass
pdftotext pdftoppm pdfinfo: -upw -opw
pdftk: user_pw owner_pw input_pw
secret secrets variable put-parameter: -b --body --value --data --string-value
vault bao wandb cargo ngrok: login unwrap unseal authtoken add-authtoken
vault bao: put write patch
composer poetry: http-basic
drush wp: upwd user-password user:password
htpasswd mosquitto_passwd: htpasswd mosquitto_passwd
fly flyctl heroku doppler mc: set config:set add
modal net rabbitmqctl filebrowser: create user use add add_user change_password authenticate_user
rclone bw grafana-cli grafana: obscure unlock login reset-admin-password
wpa_passphrase: wpa_passphrase
smbpasswd: smbpasswd
sqlplus sqlldr expdp impdp rman: sqlplus sqlldr expdp impdp rman
openssl ansible-vault travis: passwd encrypt_string encrypt
convertto-securestring: convertto-securestring
mysqladmin nmcli: password
"""
"""Programs, or what they are to do: options that take a secret, and words that have secrets after them."""
_OPTIONS: Final = dict[str, set[str]]()
for _row in _TAKES.strip().splitlines():
    _programs, _, _options = _row.partition(": ")
    for _program in _programs.split():
        _OPTIONS.setdefault(_program, set()).update(_options.split())
_SETTING: Final = word_set("set config setenv setx put env arg proxy_set_header modify set-item")
"""What programs are to do with a name and a value that follow."""
_DOTTED: Final = regex(r"[A-Z][A-Z\d_]*(?:\.[A-Z\d_]+)+")
"""A key of a configuration that its value follows as a word."""
_SAID: Final = regex(r"(?i)[\w-]*(?:password|passwd|passphrase|requirepass)|by")
"""What its value follows in SQL and netrc, where it does not look like a sentence."""
_TOKEN: Final = regex(
    r"""\\+\n|(?P<stop>[;|&\n]|\\+n)|(?P<open>(?:(?<![\\"'`])[\\"'`]*+(?<=["'`]))?+)(?P<word>(?:[^\s"'`;&|()<>,{}\[\]\\]|\\(?![\\"'`\nn]).?)++)""", re.S
)
_SHELL: Final = regex(r"-[a-z]*c|/c|eval")
"""What comes before a text for a shell."""


class _Command:
    """What the words of a command so far say about the next."""

    def __init__(self, outer: _Command | None = None) -> None:
        self.before = outer.before if outer else ""
        self.options = outer.options.copy() if outer else set[str]()
        self.is_setting = self.is_taking = False
        if outer:
            self.is_setting, self.is_taking = outer.is_setting, outer.is_taking

    def secret(self, word: str, *, is_quoted: bool) -> tuple[int, str] | None:
        """Where a secret begins in the next word, and its name."""
        before, is_option = self.before, word[:1] == "-"
        for option in self.options:
            is_short = len(option) == 2 and before[:1] == "-" and before[-1] == option[1]  # noqa: PLR2004
            if not is_option and (before == option or (is_short and before[1:].isalpha())):
                return 0, "password"
            if option[:1] in "-/" and word.startswith(option) and len(option) < len(word) and (len(option) < 4 or word[len(option)]=="="):
                return len(option) + (word[len(option)] == "="), "password"
        if is_option:
            return None
        if self.is_taking:
            return 0, "password"
        if "=" not in before and (before[:1] == "-" or self.is_setting or _DOTTED.fullmatch(before)):
            names = re.split(r"[./:]", before) if self.is_setting else [before]
            return next(((0, name) for name in names if may_not_be_shown(name, word)), None)
        return (0, before) if _SAID.fullmatch(before) and (is_quoted or re.search(r"[\d_@#!%^*-]", word)) else None

    def add(self, word: str) -> None:
        """Take note of a word."""
        name = word[-_LONGEST_PROGRAM:].rpartition("/")[2].lower()
        self.options.update(_OPTIONS.get(name, ()))
        self.is_taking = self.is_taking or name.partition(".")[0] in self.options
        self.is_setting = self.is_setting or name in _SETTING
        self.before = word


_LONGEST_PROGRAM: Final = 256


def _in_commands(argv: Sequence[str]) -> Iterator[tuple[int, Span]]:
    """Secrets for their place in a command, with the word's index: behind an option, a verb, or a name."""
    outer = _Command()
    for index, text in enumerate(argv):
        command, done = _Command(outer), 0
        for token in _TOKEN.finditer(text):
            word, start = token["word"], token.start("word")
            if token["stop"]:
                command = _Command()
            elif start >= done:
                found = command.secret(word, is_quoted=bool(token["open"]))
                command.add(word)
                if found is None:
                    continue
                is_whole = start == 0 and not _SHELL.fullmatch(outer.before)
                done = len(text) if is_whole else _end(text, start + found[0], token["open"])
                if may_not_be_shown(found[1], text[start + found[0] : done]):
                    yield index, (start + found[0], done)
        if "\n" in text or " " in text:
            outer.before = text
        else:
            outer.add(text)


_NAME: Final = regex(
    r"""(?<![\w.-])(?P<element>(?<=<))?-{0,2}(?P<name>\w[\w.-]*+)"""
    r"""(?:(?P<close>(?:[\\"'`]*["'`])?+)"""
    r"""(?P<sign>\s*+(?:\]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?![:=/]))(?:\s*+(?=\\*["'`\[{(])|[ \t]*+))"""
    r"""|["'`](?P<comma>\s*,\s*)(?=\\*["'`](?![\w.-]{0,80}\\*["']\s*:))|(?P<tag>(?(element)(?=(?:\s[^<>]*+)?>)|(?!)))|(?P<call>(?=\()))"""
)
"""A name and what its value follows: `name=`, `"name": `, `["name"] = `, `("name", "value")`, `<name>`, `name(...)`."""
_PAIR: Final = regex(
    r"""(?i)(?:parameter|env|header|var|entry)?_?(?:name|key|variable|property|id)\\*["']?\s*[:=>]\s*[\\"']*(?P<name>[\w.:/-]+)"""
)
_VALUE: Final = regex(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)")
"""{"name": "HF_TOKEN", "value": "..."}."""
_KEEPS_SECRETS: Final = regex(r"""\bkind["']?\s*:\s*["']?Secret\b""")
_SECTION: Final = regex(r"(?m)^\[(?P<name>[\w.-]+)\][ \t]*\n(?P<body>(?:(?!\[)[^\n]*(?:\n|\Z))*?)(?=\[|\Z)")
_CALLED: Final = regex(
    r"(?i)(?:\w+\.)*(?!get|load|read|from|ask|input|has|is)\w*?(?:login|auth(?:enticate)?|credentials?|password|secret(?:str)?)"
)
"""A function that takes a secret without a name."""
_SIGNED_ADDRESS: Final = regex(r"(?i)(?:x-[a-z]+-)?(?:sig(?:nature)?|credential)")
_COMPUTED: Final = regex(r"[A-Za-z_][\w.]*(?:\(|\.\w+\[)[^\n]*|\([^\n]*|[A-Za-z_]\w*\.[\w.]+")
_LOOKED_UP: Final = regex(r"tokeniz|environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")
_FED: Final = regex(
    r"""\b(?:echo|printf)\s+(?P<echoed>(?:[^|>\n"']|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])*+)|<<<\s*(?P<given>[^\n]*)"""
    r"""|<<-?[ \t]*[\\"']*\w+[^\n]*\n(?P<here>.*)""",
    re.S,
)
_READS_SECRET: Final = regex(r"-stdin|-fd\b|with-token|secret|chpasswd|passwd|kinit|cryptsetup|login|sudo\s+-S")
"""What reads a secret from its input."""


def _spans(text: str, before: str = "") -> Iterator[Span]:
    """Where the secrets of one word are, whatever command it belongs to: by names and forms in it."""
    yield from secret_forms(text, before)
    yield from (section.span("body") for section in _SECTION.finditer(text) if is_strong(section["name"]))
    if _READS_SECRET.search(text):
        yield from (fed.span(fed.lastgroup or 0) for fed in _FED.finditer(text))
    is_paired = any(looks_secret(pair["name"]) for pair in _PAIR.finditer(text))
    keeps = ("data", "stringData") if _KEEPS_SECRETS.search(text) else ()
    done = 0
    for mark in _NAME.finditer(text):
        name, start = mark["name"], mark.start()
        if start < done:
            continue
        is_address = text[start - 1 : start] in ("?", "&") and _SIGNED_ADDRESS.fullmatch(name)
        is_called = mark["call"] is not None and _CALLED.fullmatch(name)
        if name in keeps or is_address or is_called or (is_paired and _VALUE.fullmatch(name)):
            name = "password"
        if not (looks_secret(name) or USERS.fullmatch(name)):
            continue
        begin, end = _value(text, mark, before)
        if may_not_be_shown(name, text[begin:end].strip("\\\"'` ")) and not _is_computed(text, mark, name, before):
            yield begin, end
            done = end


def _is_computed(text: str, mark: re.Match[str], name: str, before: str) -> bool:
    """Whether the value is an expression of a program, which holds no secret itself."""
    sign = mark["sign"] or ""
    if mark["call"] is None and not ("=" in sign and (sign.strip() != sign or before in ("-c", "-e", "-r"))):
        return False
    value = _COMPUTED.match(text, mark.end())
    if value is None:
        return False
    return _LOOKED_UP.search(value[0]) is not None or not (is_strong(name) or re.search("[\"'`]", value[0]))


_QUOTE: Final = regex(r"""[\\"'`]{0,16}["'`]""")
_BRACKETS: Final = regex(r"""\\*["'`]|[\[({\])}]""")
_REST_OF_WORD: Final = regex(r"""(?:[^\s;&|<>()"'`\\]|\\.|(["'`])(?![\s;&|,)\]}]|$)(?:[^"'`\\]|\\.)*+\1)*+""", re.S)
_SHELL_GOES_ON: Final = regex(
    r"\s*+(?:[;|\n)}\]<>]|&&|&\s|\Z)|\s+(?:-|\.{0,2}/|[\w.]+=|(?:python|bash|sh|env|exec|srun|torchrun)\b)"
)
_GOES_ON: Final = regex(r"\s*+(?:[,;)\]}/>#]|\n|\Z)")
"""What stands behind a quote or a bracket that ends a value."""
_DEEPEST: Final = 200


def _value(text: str, mark: re.Match[str], before: str) -> Span:
    """The value behind a name."""
    start, begin, sign = mark.start(), mark.end(), mark["sign"]
    if mark["tag"] is not None:
        begin = text.index(">", begin) + 1
        end = text.find(f"</{mark['name']}", begin)
        return begin, end if end >= 0 else len(text) if text.lstrip()[:1] == "<" else begin
    lead = text[max(start - _DEEPEST, 0) : start]
    lead_in = _OPENED.search(lead)
    opened = "" if mark["close"] or not sign or lead_in is None else lead_in["mark"]
    if sign == "=" and lead_in and lead_in.start() == 0 and not opened and not _SHELL.fullmatch(before):
        return begin, len(text)
    if sign == "=" and start <= _DEEPEST and "\n" not in lead and not opened:
        end = _end(text, begin, "")
        if _SHELL_GOES_ON.match(text, end):
            return begin, end
    column = len(lead) - lead.rfind("\n") - 1
    return begin, _end(text, begin, opened, column)


def _end(text: str, place: int, opened: str, column: int | None = None) -> int:
    """Where a value ends: at the quote `opened` before it, at its own, with its word, or with its line and those deeper."""
    if opened:
        return _closing(text, place, opened)[0]
    end = place
    if quote := _QUOTE.match(text, place):
        end = _closing(text, quote.end(), quote[0])[1]
    elif text[place : place + 1] in tuple("[({"):
        end = _bracket_end(text, place)
    if column is None:
        rest = _REST_OF_WORD.match(text, end)
    elif end > place and _GOES_ON.match(text, end):
        return end
    else:
        deeper = rf"[^\n]*(?:\n(?=[ \t]{{{column + 1},}}|[ \t]{{{column},}}-[ \t]|[ \t]*(?:\n|\Z))[^\n]*)*+"
        rest = re.compile(deeper).match(text, end)
    return rest.end() if rest else end


def _closing(text: str, place: int, mark: str) -> Span:
    """The quote that closes: the same, or in reverse order; the text's end where there is none."""
    if mark in ('""', "''"):
        return place, place
    both = {mark, mark if "\\" in mark else mark[::-1]}
    found = re.compile(rf"(?<!\\)(?:{'|'.join(map(re.escape, both))})").search(text, place)
    return found.span() if found else (len(text), len(text))


def _bracket_end(text: str, place: int) -> int:
    depth, quoted = 0, 0
    for match in _BRACKETS.finditer(text, place):
        if match.start() < quoted:
            continue
        if match[0][-1] in "\"'`":
            quoted = _closing(text, match.end(), match[0])[1]
        elif (depth := depth + (1 if match[0] in "[({" else -1)) == 0:
            return match.end()
    return len(text)


_OPENED: Final = regex(r"""(?P<mark>\A|[\\"'`]{0,16}["'`])(?:-{0,2}[\w-]+=|-[A-Za-z]|\+*|-*)$""")
