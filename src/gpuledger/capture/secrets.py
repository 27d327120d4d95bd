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
_APART: Final = "\x1f"
"""Between the words of a command: a blank for regular expressions."""


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    is_hidden = may_not_be_shown(name, value)
    return WITHHELD if is_hidden else without_secrets([f"{name}={value}"])[0].removeprefix(f"{name}=")


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    text = _APART.join(("", *(word.replace(_APART, " ") for word in argv)))
    again, shown, done = {secret for secret in known if len(secret) > len("key")}, "", 0
    for begin, end in sorted((*secret_forms(text), *_after_names(text), *_after_programs(text), *_fed(text))):
        end = min(end, _closing(text, begin, _APART)[0])
        if begin < end and text[begin:end] != WITHHELD:
            shown += text[done:begin] + WITHHELD if begin > done else ""
            done = max(done, end)
            again.update(filter(_REPEATED.fullmatch, [text[begin:end].strip(_QUOTES)]))
    shown += text[done:]
    for secret in sorted(again, key=len, reverse=True):
        shown = shown.replace(secret, WITHHELD)
    return shown.split(_APART)[1:]


_REPEATED: Final = regex(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}")
"""A secret that is not a word of its own accord: withheld wherever it stands again."""
_QUOTES: Final = "\\\"'` "
_NAME: Final = regex(
    r"""(?<![\w.-])(?P<element>(?<=<))?(?P<dash>--?)?(?P<name>\w[\w.-]*+)"""
    r"""(?:(?P<close>(?:[\\"'`]*["'`])?+)(?:(?P<call>(?=\())|(?P<tag>(?(element)(?=(?:\s[^<>]*+)?>)|(?!)))"""
    r"""|(?P<sign>\x1f=\x1f|\s*+(?:\]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?![:=/]))(?:\s*+(?=\\*["'`\[{(])|[ \t]*+))"""
    r"""|(?P<blank>(?:\\*\s|\\+n)++(?=[^\s-])))|[\\"'`]{1,16}(?P<comma>\s*,\s*)(?=[\\"'`]+(?![\w.-]{0,80}[\\"'`]+\s*:)))"""
)
"""A name and what its value follows: `name=`, `"name": `, `["name"] = `, `--name `, `("name", "...`, `<name>`, `name(`."""
_SET: Final = regex(
    r"(?i)(?:^|[\s\"'])(?:set|config|setenv|setx|put|env|arg|proxy_set_header|modify|set-item|password)\s[^;|&\n]*$"
)
"""What programs are to do with a name and a value that follow as words."""
_DOTTED: Final = regex(r"[A-Z][A-Z\d_]*(?:\.[A-Z\d_]+)+")
_SAID: Final = regex(r"(?i)[\w-]*(?:password|passwd|passphrase|requirepass)|identified")
"""What its value follows in SQL and netrc, where it does not look like a sentence."""
_SAYS: Final = regex(r"""\\*["']|(?i:by|with)\s|[^\s\w]*\w+[^\s=:]*?[\d_@#!%^*-]|\S+\s*$""")
_DRAWN: Final = regex(r"""[\\"'`]*(?=[^\s\d]*\d)(?=\S*[A-Za-z])[\w+/=.~-]{16,}(?![^\s"'`\\])""")
_PAIR: Final = regex(
    r"""(?i)(?:parameter|env|header|var|entry)?_?(?:name|key|variable|property|id)\\*["']?\s*[:=>]\s*[\\"']*([\w.:/-]+)"""
)
_VALUE: Final = regex(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)")
"""{"name": "HF_TOKEN", "value": "..."}."""
_KEEPS_SECRETS: Final = regex(r"""\bkind["']?\s*:\s*["']?Secret\b""")
_SECTION: Final = regex(
    r"(?m)(?:^|(?<=\x1f))\[(?P<name>[\w.-]+)\][ \t]*\n(?P<body>(?:(?!\[)[^\n]*(?:\n|\Z))*?)(?=\[|\Z)"
)
_CALLED: Final = regex(
    r"(?i)(?:\w+\.)*(?!get|load|read|from|ask|input|has|is)\w*?(?:login|auth(?:enticate)?|credentials?|password|secret(?:str)?)"
)
"""A function that takes a secret without a name."""
_SIGNED_ADDRESS: Final = regex(r"(?i)(?:x-[a-z]+-)?(?:sig(?:nature)?|credential)")
_COMPUTED: Final = regex(r"[A-Za-z_][\w.]*(?:\(|\.\w+\[)[^\n\x1f]*|\([^\n\x1f]*|(?:args|config|cfg|self|os)\.\S*")
_LOOKED_UP: Final = regex(r"tokeniz|environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")
_OPENED: Final = regex(r"""((?<!-c)(?<!-lc)(?<!/c)\x1f|[\\"'`]{0,16}["'`])(?:-{0,2}[\w-]+=|-[A-Za-z]|\+*)\Z""")
"""The quote or the beginning of a word before a name: its value goes to the other end. Not of a text for a shell."""


def _after_names(text: str) -> Iterator[Span]:
    """Values behind the names of secrets, in texts for a shell, JSON, YAML, ini, XML, SQL and code alike."""
    yield from (section.span("body") for section in _SECTION.finditer(text) if is_strong(section["name"]))
    is_paired = any(looks_secret(pair[1]) for pair in _PAIR.finditer(text))
    keeps = ("data", "stringData") if _KEEPS_SECRETS.search(text) else ()
    done = 0
    for mark in _NAME.finditer(text):
        name, begin = mark["name"], mark.end()
        if mark.start() < done:
            continue
        is_address = text[mark.start() - 1 : mark.start()] in ("?", "&") and _SIGNED_ADDRESS.fullmatch(name)
        is_called = mark["call"] is not None and _CALLED.fullmatch(name)
        if name in keeps or is_address or is_called or (is_paired and _VALUE.fullmatch(name)):
            name = "password"
        is_said = bool(mark["blank"] and not mark["dash"] and _SAID.fullmatch(name))
        is_said = is_said and bool(_SAYS.match(text, begin) or _has_value(text, mark))
        if not (is_said or ((looks_secret(name) or USERS.fullmatch(name)) and _has_value(text, mark))):
            continue
        if mark["tag"] is not None:
            begin = text.index(">", begin) + 1
            end = text.find(f"</{name}", begin)
            end = end if end >= 0 else len(text)
        elif mark["blank"] and mark["dash"] and name[-1] in "sS":
            yield from (
                (first, last)
                for first, last in _words(text, begin)
                if (first == begin or _DRAWN.match(text, first)) and may_not_be_shown(name, text[first:last])
            )
            continue
        else:
            extent = "line" if is_said else "word" if mark["blank"] else "setting" if mark["sign"] == "=" else "line"
            end = _end(
                text, mark.start(), begin, extent, is_apart=bool(mark["blank"] or mark["close"] or mark["comma"])
            )
        if is_said or may_not_be_shown(name, text[begin:end].strip(_QUOTES)):
            yield begin, end
            done = begin if mark["blank"] and end - begin < _LEAD else end  # `set --secret NAME VALUE`


def _has_value(text: str, mark: re.Match[str]) -> bool:
    """Whether a value follows the name of a secret, and no expression of a program, which holds no secret itself."""
    if mark["blank"]:
        lead = text[max(mark.start() - _LEAD, 0) : mark.start()]
        return bool(
            mark["dash"] or _DOTTED.fullmatch(mark["name"]) or _SET.search(lead) or _DRAWN.match(text, mark.end())
        )
    value = _COMPUTED.match(text, mark.end(), mark.end() + _LEAD)
    if value is None or not (mark["call"] is not None or "=" in (mark["sign"] or "")):
        return True
    return not _LOOKED_UP.search(value[0]) and (is_strong(mark["name"]) or re.search("[\"'`]", value[0]) is not None)


_LEAD: Final = 200
_TAKES: Final = r"""
mysql\w* mariadb\S* mycli 7z\w* rar unrar: -p -hp
sshpass login twine mongo\w* cqlsh ncftp\w+ supabase conan cypher-shell xmpp sendxmpp rdesktop crackmapexec nxc: -p
netexec evil-winrm poetry rabbitmqadmin yt-dlp youtube-dl psexec useradd usermod beeline steghide users impala-shell: -p
redis-\w+ valkey-cli keydb-cli: -a --pass auth requirepass masterauth
zip unzip zipcloak ssh-keygen sqlcmd bcp tsql mosquitto_[ps]ub ipmitool: -P
swanlab openssl ipmitool nuget choco ss-local: -k -K -pass -passin -passout
ldap\w+ beeline: -w -s
snmp\w+: -A -X -c
doctl flyctl vercel rancher influx codecov anaconda: -t
ssh-keygen: -N
sendemail signtool xfreerdp: -xp /p: /p
smbclient rpcclient smbget lftp curl wget https? xhs?: -u -a -U --user --proxy-user --auth -E --cert --proxy-cert -b --cookie
bearer gotty ttyd etcdctl transmission-remote jenkins-cli.jar: -a -c -n --user -auth
kubectl: --from-literal
keytool jarsigner pdfto\w+ pdfinfo: -storepass -keypass -srcstorepass -deststorepass -upw -opw
secrets? variable put-parameter: -b --body --value --data --string-value
pdftk mysqladmin nmcli openssl ansible-vault travis: user_pw owner_pw input_pw password passwd encrypt_string encrypt
vault bao wandb cargo ngrok: login unwrap unseal authtoken add-authtoken put write patch
composer poetry drush wp: http-basic upwd user-password user:password
fly flyctl heroku doppler mc: set config:set add
modal net rabbitmqctl filebrowser: create user use add add_user change_password authenticate_user
rclone bw grafana-cli grafana: obscure unlock login reset-admin-password
htpasswd mosquitto_passwd wpa_passphrase smbpasswd sqlplus sqlldr expdp impdp rman convertto-securestring:
"""
"""Programs, or what they are to do: options that take a secret, and words that have secrets after them."""


_ENDS: Final = r"(?=[\s=\"'`])"


@cache
def _programs() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    rows = list[tuple[re.Pattern[str], re.Pattern[str]]]()
    for row in _TAKES.strip().splitlines():
        programs, _, options = row.partition(":")
        name = rf"(?<![\w.-])(?:(?<=\\)n)?(?i:{'|'.join(programs.split())})(?![\w.-])"
        words = options.split()
        short = "".join(word[1] for word in words if word[0] == "-" and len(word) == len("-p")) or _APART
        long = [
            word if len(word) == len("/p:") else word + _ENDS
            for word in words
            if word[0] in "-/" and word != f"-{word[-1]}"
        ]
        verbs = [word for word in words if word[0] not in "-/"] or ([] if words else programs.split())
        taking = rf"(?<=[\s\"'`,])(?:-[{short}]|-[A-Za-z]+[{short}]{_ENDS}|{'|'.join(long) or '(?!)'})"
        gap = r"""(?:[=:]|[\\"'`]*,\s*|[\\"'`]*\s[\s\\]*(?!-)|)"""
        options = rf"{taking}{gap}|(?P<verb>(?<![\w-])(?i:{'|'.join(verbs) or '(?!)'})(?=[\s\"'`,.])\S*)"
        rows.append((re.compile(name), re.compile(options)))
    return rows


_COMMAND: Final = regex(r"""(?:[^;|&\n"'\\]|\\.|"(?:[^"\\]|\\.)*+"|'[^']*'|["'\\])*+""", re.S)


def _after_programs(text: str) -> Iterator[Span]:
    """Secrets behind options of programs, and behind what programs are to do."""
    for programs, options in _programs():
        done = 0
        for program in programs.finditer(text):
            if program.start() < done or not (command := _COMMAND.match(text, program.end())):
                continue
            done = len(text) if text.startswith(_APART, program.end()) else command.end()
            for option in options.finditer(text, max(program.start() - 1, 0), done):
                if option["verb"]:
                    yield from _words(text, option.end(), done)
                    break
                end = _end(text, option.start(), option.end(), "word", is_apart=text[option.end() - 1].isspace())
                if may_not_be_shown("password", text[option.end() : end].strip(_QUOTES)):
                    yield option.end(), end


def _words(text: str, place: int, end: int | None = None) -> Iterator[Span]:
    """The words here but options: all, or those before the next option."""
    while place < (len(text) if end is None else end):
        blank = _BLANK.match(text, place)
        start = blank.end() if blank else place
        place = max(_end(text, start, start, "word", is_apart=True), start + 1)
        if text[start : start + 1] != "-":
            yield start, place
        elif end is None:
            return
        if end is None and text[place : place + 1] in tuple(";|&\n)"):
            return


_BLANK: Final = regex(r"""[\s\\,]*+""")
_FED: Final = regex(
    r"""\b(?:echo|printf)\s+(?P<echoed>(?:[^|>\n"']|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])*+)|<<<\s*(?P<given>[^\n]*)"""
    r"""|<<-?[ \t]*[\\"']*\w+[^\n]*\n(?P<here>.*)""",
    re.S,
)
_READS_SECRET: Final = regex(r"-stdin|-fd\b|with-token|secret|chpasswd|passwd|kinit|cryptsetup|login|sudo\s+-S")
"""What reads a secret from its input."""


def _fed(text: str) -> Iterator[Span]:
    """What is printed or given to a program that reads a secret."""
    if _READS_SECRET.search(text):
        yield from (fed.span(fed.lastgroup or 0) for fed in _FED.finditer(text))


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
