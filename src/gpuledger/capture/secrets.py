"""What of a command or a setting may be written down: words in, the same words without secrets out.

For the owner's files and terminal. A name, a program's option or a value's own form gives a secret away; it is withheld
up to the quote or bracket that closes, or to the end of its word, its line or the argument: where that is unclear, more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from gpuledger.capture.secret_forms import Span, secret_forms
from gpuledger.capture.secret_names import USERS, is_strong, looks_secret, may_not_be_shown
from gpuledger.regex import regex

WITHHELD: Final = "(withheld)"


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    is_hidden = may_not_be_shown(name, value)
    return WITHHELD if is_hidden else without_secrets([f"{name}={value}"])[0].removeprefix(f"{name}=")


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    text = _APART.join(("", *(word.replace(_APART, " ") for word in argv)))
    again, shown, done = {secret for secret in known if len(secret) > len("key")}, "", 0
    printed = [fed.span(fed.lastgroup or 0) for fed in _FED.finditer(text)] if _READS_SECRET.search(text) else []
    for begin, end in sorted((*secret_forms(text), *_after_names(text), *_after_programs(text), *printed)):
        end = min(end, _closing(text, begin, _APART)[0])
        if begin < end and text[begin:end] != WITHHELD:
            shown += text[done:begin] + WITHHELD if begin > done else ""
            done = max(done, end)
            again.update(filter(_REPEATED.fullmatch, [text[begin:end].strip(_QUOTES)]))
    shown += text[done:]
    for secret in sorted(again, key=len, reverse=True):
        shown = shown.replace(secret, WITHHELD)
    return shown.split(_APART)[1:]


_APART: Final = "\x1f"
"""Between the words of a command: a blank for regular expressions."""
_WORD: Final = regex(r"[^\x1f]+")
_QUOTES: Final = "\\\"'` "
_LEAD: Final = 200
"""Letters looked at before a name."""
_REPEATED: Final = regex(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}")
"""A secret that is not a word of its own accord: withheld wherever it stands again."""
_NAME: Final = regex(
    r"""(?<![\w.-])(?P<element>(?<=<))?(?P<dash>--?)?(?P<name>\w[\w.-]*+)"""
    r"""(?:(?P<close>(?:[\\"'`]*["'`])?+)(?:(?P<call>(?=\())|(?P<tag>(?(element)(?=(?:\s[^<>]*+)?>)|(?!)))"""
    r"""|(?P<sign>\x1f=\x1f|\s*+(?:\]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?![:=/]))(?:\s*+(?=\\*["'`\[{(])|[ \t]*+))"""
    r"""|(?P<blank>(?:\\*\s|\\+n)++(?=[^\s-])))|[\\"'`]{1,16}(?P<comma>\s*,\s*)(?=[\\"'`]+(?![\w.-]{0,80}[\\"'`]+\s*:)))"""
)
"""A name and what its value follows: `name=`, `"name": `, `["name"] = `, `--name `, `("name", "...`, `<name>`, `name(`."""
_SET: Final = regex(
    r"(?i)(?:^|[\s\"'])(?:set|config|setenv|setx|put|env|arg|proxy_set_header|modify|set-item)\s[^;|&\n]*$"
)
"""What programs are to do with a name and a value that follow as words."""
_DRAWN: Final = r"""[\\"'`]*(?=[^\s\d]*\d)(?=\S*[A-Za-z])[\w+/=.~-]{16,}(?![^\s"'`\\])"""
_FOLLOWS: Final = regex(rf"""(?P<drawn>{_DRAWN})|\\*["']|(?i:by|with)\s|\W{{0,9}}\w+[^\s=:]*?[\d_@#!%^*-]|\S+\s*$""")
"""What follows a name as its value does, and not as the next word of a sentence."""
_DOTTED: Final = regex(r"[A-Z][A-Z\d_]*(?:\.[A-Z\d_]+)+")
_MORE: Final = regex(rf"(?:\s+{_DRAWN}[\"'`]*)*")
_PAIR: Final = regex(
    r"""(?i)(?:parameter|env|header|var|entry)?_?(?:name|key|variable|property|id|kind)\\*["']?\s*[:=>]\s*[\\"']*([\w.:/-]+)"""
)
_VALUE: Final = regex(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)|data|stringdata")
"""{"name": "HF_TOKEN", "value": "..."}, and `kind: Secret`."""
_SECTION: Final = regex(r"(?:^|(?<=[\x1f\n]))\[([\w.-]+)\][ \t]*\n(?P<body>(?:(?!\n\[)[^\x1f])*+)")
_CALLED: Final = regex(
    r"(?i)(?:\w+\.)*(?!get|load|read|from|ask|input|has|is)\w*?(?:login|auth\w*|credentials?|password|secret\w*)"
)
"""A function that takes a secret without a name."""
_COMPUTED: Final = regex(r"[A-Za-z_][\w.]*(?:\(|\.\w+\[)[^\n\x1f]*|\([^\n\x1f]*|(?:args|config|cfg|self|os)\.\S*")
_LOOKED_UP: Final = regex(r"tokeniz|environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")


def _after_names(text: str) -> Iterator[Span]:
    """Values behind the names of secrets, in texts for a shell, JSON, YAML, ini, XML, SQL and code alike."""
    yield from (section.span("body") for section in _SECTION.finditer(text) if is_strong(section[1]))
    is_paired, done = any(looks_secret(pair[1]) for pair in _PAIR.finditer(text)), 0
    for mark in _NAME.finditer(text):
        name, begin, blank = mark["name"], mark.end(), mark["blank"]
        if mark.start() < done:
            continue
        if (is_paired and _VALUE.fullmatch(name)) or (mark["call"] is not None and _CALLED.fullmatch(name)):
            name = "password"
        if not (looks_secret(name) or USERS.fullmatch(name)) or not (_is_followed if blank else _is_literal)(
            text, mark
        ):
            continue
        if mark["tag"] is not None:
            begin = text.index(">", begin) + 1
            end = text.find(f"</{mark['name']}", begin) % (len(text) + 1)
        else:
            extent = "word" if blank and mark["dash"] else "setting" if blank or mark["sign"] == "=" else "line"
            end = _end(text, mark.start(), begin, extent, is_apart=bool(blank or mark["close"] or mark["comma"]))
        if may_not_be_shown(name, text[begin:end].strip(_QUOTES)):
            yield begin, end
            done = begin if blank and end - begin < _LEAD else end  # `set --secret NAME VALUE`
            if name[-1] in "sS" and (more := _MORE.match(text, end)):
                yield from (word.span() for word in _WORD.finditer(text, end, more.end()))


def _is_followed(text: str, mark: re.Match[str]) -> bool:
    """Whether the next word is the value of this one."""
    follows, lead = _FOLLOWS.match(text, mark.end()), text[max(mark.start() - _LEAD, 0) : mark.start()]
    is_said = follows is not None and (follows["drawn"] is not None or is_strong(mark["name"]))
    return bool(is_said or mark["dash"] or _DOTTED.fullmatch(mark["name"]) or _SET.search(lead))


def _is_literal(text: str, mark: re.Match[str]) -> bool:
    """Whether the value is no expression of a program, which holds no secret itself."""
    value = _COMPUTED.match(text, mark.end(), mark.end() + _LEAD)
    if value is None or not (mark["call"] is not None or "=" in (mark["sign"] or "")):
        return True
    return not _LOOKED_UP.search(value[0]) and (is_strong(mark["name"]) or re.search("[\"'`]", value[0]) is not None)


_TAKES: Final = r"""
p|hp : 0 : mysql\w*|mariadb\S*|mycli|7z\w*|rar|unrar
p : 0 : sshpass|login|twine|mongo\w*|cqlsh|ncftp\w+|supabase|conan|cypher-shell|xmpp|sendxmpp|rdesktop|crackmapexec|nxc
p : 0 : netexec|evil-winrm|poetry|rabbitmqadmin|yt-dlp|youtube-dl|psexec|useradd|usermod|beeline|steghide|impala-shell
a : --pass|auth|requirepass|masterauth : redis-\w+|valkey-cli|keydb-cli
P : 0 : zip|unzip|zipcloak|ssh-keygen|sqlcmd|bcp|tsql|mosquitto_[ps]ub|ipmitool
k|K : -pass|-passin|-passout|passwd|encrypt_string|encrypt : swanlab|openssl|ipmitool|nuget|choco|ss-local|ansible-vault|travis
w|s : 0 : ldap\w+|beeline
A|X|c : 0 : snmp\w+
t : 0 : doctl|flyctl|vercel|rancher|influx|codecov|anaconda
N|xp : /p : ssh-keygen|sendemail|signtool|xfreerdp
u|a|U|E|b : --user|--proxy-user|--auth|--cert|--proxy-cert|--cookie : smbclient|rpcclient|smbget|lftp|curl|wget|https?|xhs?
a|c|n : --auth|--user|-auth : bearer|gotty|ttyd|etcdctl|transmission-remote|jenkins-cli.jar
b : --from-literal|--body|--value|--data|--string-value : secrets?|variable|put-parameter
upw|opw : -storepass|-keypass|-srcstorepass|-deststorepass : keytool|jarsigner|pdfto\w+|pdfinfo
0 : user_pw|owner_pw|input_pw|password|http-basic|upwd|user-password|user:password : pdftk|mysqladmin|nmcli|composer|poetry|drush|wp
0 : login|unwrap|unseal|authtoken|add-authtoken|put|write|patch : vault|bao|wandb|cargo|ngrok
0 : set|config:set|add : fly|flyctl|heroku|doppler|mc
0 : create|user|use|add|add_user|change_password|authenticate_user : modal|net|rabbitmqctl|filebrowser
0 : obscure|unlock|login|reset-admin-password : rclone|bw|grafana-cli|grafana
0 : [\w-]+ : htpasswd|mosquitto_passwd|wpa_passphrase|smbpasswd|sqlplus|sqlldr|expdp|impdp|rman|convertto-securestring
"""
"""Short options that take a secret; long ones, and what has only secrets behind it; the programs that these are of."""
_COMMAND: Final = regex(r"""(?:[^;|&\n"'\\]|\\.|"(?:[^"\\]|\\.)*+"|'[^']*'|["'\\])*+""", re.S)


@cache
def _programs() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    rows = [row.split(" : ") for row in _TAKES.strip().splitlines()]
    return [
        (
            re.compile(rf"(?<![\w.-])(?:(?<=\\)n)?(?i:{programs})(?![\w.-])"),
            re.compile(
                rf"""(?<![\w-])(?:-(?:{short})|-[A-Za-z]+(?:{short})(?=[\s"'`])|(?P<long>(?i:{long})(?=[\s=:.,"'`])))"""
                r"""(?:[=:]|[\\"'`]*,\s*|[\\"'`]*\s[\s\\]*(?!-)|)"""
            ),
        )
        for short, long, programs in rows
    ]


def _after_programs(text: str) -> Iterator[Span]:
    """Secrets behind options of programs, and behind what programs are to do."""
    for programs, options in _programs():
        done = 0
        for program in programs.finditer(text):
            if program.start() < done or not (command := _COMMAND.match(text, program.end())):
                continue
            done = len(text) if text.startswith(_APART, program.end()) else command.end()
            for option in options.finditer(text, max(program.start() - 1, 0), done):
                begin = option.end()
                if (option["long"] or "-")[0] not in "-/":
                    yield from (word.span() for word in _WORD.finditer(text, begin, done))
                    break
                end = _end(text, option.start(), begin, "word", is_apart=text[begin - 1].isspace())
                if may_not_be_shown("password", text[begin:end].strip(_QUOTES)):
                    yield begin, end


_FED: Final = regex(
    r"""\b(?:echo|printf)\s+(?P<echoed>(?:[^|>\n"']|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])*+)|<<<\s*(?P<given>[^\n]*)"""
    r"""|<<-?[ \t]*[\\"']*\w+[^\n]*\n(?P<here>[^\x1f]*)"""
)
"""What is printed, or given as input."""
_READS_SECRET: Final = regex(r"-stdin|-fd\b|with-token|secret|chpasswd|passwd|kinit|cryptsetup|login|sudo\s+-S")
_OPENED: Final = regex(r"""((?<!-c)(?<!-lc)(?<!/c)\x1f|[\\"'`]{0,16}["'`])(?:-{0,2}[\w-]+=|-[A-Za-z]|\+*)\Z""")
"""The quote or the beginning of a word before a name: its value goes to the other end. Not of a text for a shell."""
_QUOTE: Final = regex(r"""[\\"'`]{0,16}["'`]""")
_BRACKETS: Final = regex(r"""\\*["'`]|[\[({\])}]""")
_REST_OF_WORD: Final = regex(r"""(?:[^\s;&|<>()"'`\\]|\\.|(["'`])(?![\s;&|,)\]}]|$)(?:[^"'`\\]|\\.)*+\1)*+""", re.S)
_SHELL_GOES_ON: Final = regex(
    r"[ \t]*+(?:[;|\n)}\]<>\x1f]|&&|&\s|\Z)|\s+(?:-|\.{0,2}/|[\w.]+=|(?:python|bash|sh|env|exec|srun|torchrun)\b)"
)
_GOES_ON: Final = regex(r"[ \t]*+(?:[,;)\]}/>#\n\x1f]|\Z)")
"""What stands behind a quote or a bracket that ends a value."""


def _end(text: str, start: int, place: int, extent: str, *, is_apart: bool) -> int:
    """Where a value ends: with the quote or the word that begins before its name, or its own quote, bracket, word or lines."""
    lead = text[max(start - _LEAD, 0) : start]
    opened = None if is_apart else _OPENED.search(lead)
    if opened or text[place - 1 : place] == _APART:
        return _closing(text, place, opened[1] if opened else _APART)[0]
    end = place
    if quote := _QUOTE.match(text, place):
        end = _closing(text, quote.end(), quote[0])[1]
    elif text[place : place + 1] in tuple("[({"):
        end = _bracket_end(text, place)
    rest = _REST_OF_WORD.match(text, end)
    if extent == "word" or (
        extent == "setting" and "\n" not in lead and rest and _SHELL_GOES_ON.match(text, rest.end())
    ):
        return rest.end() if rest else end
    if end > place and _GOES_ON.match(text, end):
        return end
    column = len(lead) - max(lead.rfind("\n"), lead.rfind(_APART)) - 1
    deeper = rf"[^\n]*(?:\n(?=[ \t]{{{column + 1},}}|[ \t]{{{column},}}-[ \t]|[ \t]*(?:\n|\Z))[^\n]*)*+"
    lines = re.compile(deeper).match(text, end)
    return lines.end() if lines else end


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
