"""What of a command or a setting may be written down: words in, the same words without secrets out.

A name, a program's option or a value's own form gives a secret away, up to the quote or bracket that closes, or the end
of a word, a line or the argument: where unclear, more. What others read shows only what is known to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Final

from gpuledger.regex import regex

WITHHELD: Final = "(withheld)"
Span = tuple[int, int]


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    return (
        WITHHELD if may_not_be_shown(name, value) else without_secrets([f"{name}={value}"])[0].removeprefix(f"{name}=")
    )


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    text = _APART.join(("", *(word.replace(_APART, " ") for word in argv)))
    again, shown, done = {secret for secret in known if len(secret) > 3}, "", 0
    printed = [fed.span(fed.lastgroup or 0) for fed in _FED.finditer(text)] if _READS_SECRET.search(text) else []
    for begin, end in sorted((*_by_form(text), *_after_names(text), *_after_programs(text), *printed)):
        end = min(end, text.find(_APART, begin) % (len(text) + 1))
        if begin < end and text[begin:end] != WITHHELD:
            shown += text[done:begin] + WITHHELD if begin > done else ""
            done = max(done, end)
            again.update(filter(_REPEATED.fullmatch, [text[begin:end].strip(_QUOTES)]))
    shown += text[done:]
    for secret in sorted(again, key=len, reverse=True):
        shown = shown.replace(secret, WITHHELD)
    return shown.split(_APART)[1:]


_APART: Final = "\x1f"  # between the words of a command: a blank for regular expressions
_WORD: Final = regex(r"[^\x1f]+")
_QUOTES: Final = "\\\"'` "
_LEAD: Final = 200
_REPEATED: Final = regex(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}")  # no word of its own accord: withheld elsewhere, too
_STRONG: Final = regex(
    r"(?:^| )(?:\w*(?:secret|pass(?:wo?r[dt]|wd|phrase|code)|credential|apikey|authtoken)s?|\w*(?:ps?wd|psk"
    r"|sess(?:ion)?id)|authorization|bearer|(?:set)?cookies?|kennwort|contrasena|senha|identified|(?:\w*(?:pw|jwts?"
    r"|sas)|creds?|pat|t?otp|pin|mnemonic|requirepass|masterauth|(?:recovery|backup|verification|pass|pin|mfa|otp"
    r"|access|auth|security|unlock|activation|reset) code)$|(?:api|access|private) key|auth config|(?:api|access"
    r"|auth) token)(?: |$)"
)
_WEAK: Final = regex(
    r"(?:^| )(?!(?:mon|don|tur|hoc|joc|whis|hot)keys?$|(?:by|com|encom|sur|tres)pass$)\w*?(?:key|token|pass|auth)s?$"
    r"|(?:^| )sig(?:nature)?s?$|^(?:token|pass) \w+$"
)
_ADDED: Final = regex(
    r"(?:(?:^| )(?:\d+|v|val(?:ue)?|str(?:ing)?|text|hex|b(?:ase)?64|prod|dev|staging|ci|read|write|r[ow]|header|old"
    r"|new|prev|current|main|backup|test))+$"  # OPENAI_API_KEY_2, HF_TOKEN_READ
)
_ABOUT: Final = regex(  # what is about a secret, and none itself
    r"(?:no|disable|skip|without|enable|require|ask|num|max|min)\b.*|(?:.* )?(?:(?:file|path|name|var|id|type|ref)s?"
    r"|dir|env|folder|variable|mode|method|len(?:gth)?|size|policy|format|ur[il]|endpoint|provider|manager|store"
    r"|backend|prompt|required|enabled|ttl|expiry|timeout|stdin|version|selector|field|column|count|limit|cmd)"
)
_OTHERWISE: Final = regex(  # a sort key, a padding token, a forward pass
    r"(?:^| )(?:(?:sort|primary|foreign|group|partition|public|cache|index|dict|row|col(?:umn)?|query|map|json|field"
    r"|state|order|by|per|rng|data(?:set)?|label|image|batch|num|head|known) keys?|(?:pad|padding|eos|bos|unk|sep|cls"
    r"|mask|special|stop|start|begin|end|eot|eom|sos|first|last|next|per|image|prefix|tool|new|extra|max|num|total"
    r"|draft|initializer|prompt|output|input|placeholder) tokens?|(?:single|first|second|one|two|multi|forward"
    r"|backward|[fb]wd|per|last|next|by|render|opt|compiler|final) pass)$"
)
_REFERENCE: Final = regex(
    r"|(?i:true|false|none|null|nil|yes|no|auto|on|off|default|optional|required|enabled|disabled|empty)|\(withheld\)"
    r"|(?:\w+ )?(?:\$\w+|\$\{\w+\}|\$\((?!echo|printf)[^()]*\)|\$?\{\{[^{}]*\}\}"
    r"|\{\w*(?:key|token|pass|pwd?|secret|cred|auth)\w*\}|%\w+%|%s|<[^<>!]*>|\[[A-Z_]+\])|(?:file|env|fd):.*|stdin"
    r"|(?:(?:id|src|source|target|env|type)=[^,=]*(?:,|$))+"  # docker build --secret
)
_FILE: Final = regex(r"@?(?:~|\.{1,2})?/[\w./~-]*|[\w./~-]+\.(?:py|sh|json|ya?ml|toml|txt|pem|crt|key|cfg|ini|env)")
_NOT_WEAK: Final = regex(r"(?i)(?:[\[(\s]*+-?\d{1,5}(?:\.\d*+)?(?![\d.])[\s,\])]*+)++|basic|bearer|https?://[^\s?#@]*")
_USERS: Final = regex(r"(?i)[\w-]*(?:login|auth|user|userpwd|creds?|credentials?)")
_USER: Final = regex(r"(?!\d+:\d+$|(?P<who>[\w-]+):(?P=who)$)[^\s:@/=]+:(?!//)\S.*", re.S)


def looks_secret(name: str) -> bool:
    """Whether the name of a variable, option or key suggests a secret."""
    words = _words(name)
    return bool(_STRONG.search(words) or (_WEAK.search(words) and not _OTHERWISE.search(words)))


def _words(name: str) -> str:
    words = _ADDED.sub("", " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name[-200:])).lower())
    return "" if _ABOUT.fullmatch(words) else words


def may_not_be_shown(name: str, value: str) -> bool:
    """Whether a value is withheld, by its name and its form."""
    if len(value) > 2 * _LEAD or not looks_secret(name):
        return looks_secret(name) or bool(_USERS.fullmatch(name) and _USER.fullmatch(value))
    if _REFERENCE.fullmatch(value) or (_FILE.fullmatch(value) and not _looks_drawn(value)):
        return False
    is_plain = value.isdigit() if name[-1] in "sS" else name.lower() == "key" and not re.search(r"\d", value)
    return bool(_STRONG.search(_words(name))) or not (is_plain or _NOT_WEAK.fullmatch(value))


_PREFIXES: Final = r"""[A-Za-z][A-Za-z\d]{1,9}[_-](?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{12} (?:sk|xai)-(?=[\w-]{16})
    gl(?:pat|[dr]t|ft|ptt|cbt|imt|agent|oas|soat|ffct|wt|sa|c)[-_] s(?:gp|m_[aps]at|nyk|bp|b_secret|ntry[su])_ hv[sbr]\.
    dp\.(?:pt|st|ct|sa|scim|audit)\. [sr]k_(?:live|test|prod)_ shp(?:at|ca|pa|ss|tka)_ [hr][f8]_(?=[^\W_]{16}) api_org_
    v1\.0-(?=[\da-f]{24}) x(?:keysib|smtpsib)- A(?:KIA|SIA|BIA|CCA) EAAA?[A-Z](?=\w{30}) pypi-(?=[\w-]{16}) sq0[a-z]{3}-
    npm_(?=[^\W_]{16}) dapi(?=[\da-f]{8}) lin_(?:api|oauth)_ s\.(?=[^\W_]{24}) SG\.(?=[\w-]{10}) [^\W_]{14}\.atlas bkua_
    EZ[AT]K(?=\w{20}) SK(?=[\da-f]{32}) AT(?:ATT|CTT|BB) pat[^\W_]{14}\. NR(?:AK|II|JS)- AGE-SECRET-KEY- CCIP(?:AT|RJ)_
    dt0[a-z]\d\d\. access_token\$ lsv2_[a-z]{2}_ xox[a-z][.-] dckr_[po]at_ pscale_\w+_ do[opr]_v1_ github_pat_ esecret_
    wandb_v\d_ gh[pousr]_ apify_api_ CLOJARS_ sha256~ ops_eyJ FLWSECK tgp_v1_ GOCSPX- duffel_ CFPAT- ya29\. whsec_ figd_
    tskey- nvapi- fio-u- PMAK- pcsk_ tvly- rdme_ pplx- xapp- HRKU- fo1_ csk- AIza gsk_ p8e- nfp_ ico- fm2_ LTAI 1//0
    AKCp"""
_FORM: Final = regex(
    rf"(?s)(?<![A-Za-z0-9])(?P<service>(?:{'|'.join(_PREFIXES.split())})[\w.~+/=-]{{8,}}[^\s\"'`<>,;&|()\[\]{{}}\\]*)"
    r"|(?<![\w.-])(?P<claims>eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*)|(?P<putty>PuTTY-User-Key-File.*)"
    r"|(?P<pem>-----BEGIN [A-Z\d ]*PRIVATE KEY.*?(?:-----END [A-Z\d ]*PRIVATE KEY[A-Z ]*-----|\Z))"
    r"|(?i:\bbearer\s+|\bbasic\s+(?=[\w+/]{16}))(?P<header>(?=[\w.~+/=-]*\d|[\w.~+/=-]{16})[\w.~+/=-]{6,})"
    r"""|(?<![\w+.-])(?i:[a-z][a-z0-9+.-]{0,20}://)[^\s/:@"']{0,99}:(?!\d{1,5}[/?])(?P<address>(?!\$)[^\s"'<>]{1,200})@"""
    r"""(?=[\w.\[$-])|https?://(?P<user>(?=[^\s/:@"']*\d|[^\s/:@"']{20})[^\s/:@"'$]{8,})@|:thin:\w+/(?P<thin>[^\s@]+)@"""
    r"""|(?<![\w/@:.-])(?!mailto:)[\w.-]+:(?P<host>(?!\$)[^\s/:@"']{4,})@(?!sha\d+:)[\w.-]+|/t/(?P<path>[\w-]{16,})/"""
    r"|(?<![\w/:.-])[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w*-]+:(?P<pgpass>[^\s:]{4,})"
    r"|(?i:hooks?\.slack\.com/[a-z]+|/web-?hooks?(?:b2)?)/(?P<hook>[\w/.~%@-]{8,})|(?<![^\W_])(?:bot)?\d{6,12}:"
    r"(?P<bot>AA[\w-]{20,})|/hooks?/(?:catch/)?(?P<caught>(?=[\w/]*-?\d)[\w/.~%@-]{16,})"
)
_MIXED: Final = regex(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,256}={0,2}(?![\w+/=-])")
_ONE_CASE: Final = regex(
    r"(?:(?<=//)|(?<![\w+/@:.-]))(?:[A-Za-z][A-Za-z0-9]{1,11}[_.-]){0,3}(?P<body>[A-Za-z0-9]{20,256})(?![\w+/.-])"
)
_DIGEST: Final = regex(
    r"(?i)(?:^|[^a-z])(?:commit|rev(?:ision)?|sha\d*|md5|digest|hash|(?:check)?sum|refs?|tree|tag|ids?|uuid|version|log"
    r"|build|checkout|switch|detach|hard|soft|reset|revert|show|merge|rebase|pick|bisect|good|bad)\W{1,4}$"
)


def _by_form(text: str) -> Iterator[Span]:
    """Keys of services, passwords in addresses, random letters."""
    yield from (match.span(match.lastgroup or 0) for match in _FORM.finditer(text))
    yield from (run.span() for run in _MIXED.finditer(text) if _looks_drawn(run[0]))
    for run in _ONE_CASE.finditer(text):
        is_digest = _DIGEST.search(text[max(run.start("body") - 40, 0) : run.start("body")])
        if not is_digest and _looks_drawn(run["body"].lower(), 0.28):
            yield run.span()


def _looks_drawn(text: str, min_changes: float = 0.4) -> bool:
    """Whether kinds of letters follow each other as if drawn, and make no words: nine in ten keys of 32 letters do."""
    kinds = [letter.isupper() + 2 * letter.islower() for letter in text if letter.isalnum()]
    digits, capitals, small = map(kinds.count, range(3))
    is_path = "/" in text and max(map(len, text.split("/"))) < 16  # base 64 has a slash in 64 letters
    is_mixed = digits > 0 and min(capitals, small) > 2 and not is_path and len(text) - len(kinds) <= 0.12 * len(text)
    changes, in_words = sum(map(int.__ne__, kinds, kinds[1:])), sum(map(len, re.findall("[a-z]{3,}", text)))
    return (is_mixed or min_changes < 0.4) and changes >= min_changes * (len(kinds) - 1) and in_words <= 0.65 * small


_NAME: Final = regex(
    r"""(?:(?<![\w.-])|(?<=\\n))(?P<element>(?<=<))?(?P<dash>--?)?(?P<name>\w[\w.-]*+)"""
    r"""(?:(?P<close>(?:[\\"'`]*["'`])?+)(?:(?P<call>(?=\())|(?P<tag>(?(element)(?=(?:\s[^<>]*+)?>)|(?!)))"""
    r"""|(?P<sign>\x1f=\x1f|(?:\\*\s)*+(?:[\]}]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?![:=/]))"""
    r"""(?:(?:\\*\s)*+(?=\\*["'`\[{(])|[ \t]*+))|(?P<blank>(?:\\*\s|\\+n){1,200}+(?=[^\s-])))"""
    r"""|[\\"'`]{1,16}(?P<comma>\s*,\s*)(?=[\\"'`]+(?![\w.-]{0,80}[\\"'`]+\s*:)))"""
)
"""A name and what its value follows: `name=`, `"name": `, `--name `, `("name", "...`, `<name>`, `name(`."""
_SET: Final = regex(r"(?i)[\s\"'](?:set|config|setenv|setx|put|env|arg|proxy_set_header|modify|set-item)\s[^;|&\n]*$")
_DRAWN: Final = r"""[\\"'`]*(?=[^\s\d]*\d)(?=\S*[A-Za-z])[\w+/=.~-]{16,}(?![^\s"'`\\])"""
_FOLLOWS: Final = regex(rf"""(?P<drawn>{_DRAWN})|\\*["']|(?i:by|with)[\s\\]|\W{{,9}}\w+[^\s=:]*?[\d_@#!%^*-]|\S+\s*$""")
_MORE: Final = regex(rf"(?:\s+{_DRAWN}[\"'`]*)*")
_PAIR: Final = regex(r"""(?i)(?:name|key|variable|property|id|kind)\\*["']?\s*[:=>]\s*[\\"']*([\w.:/-]+)""")
_VALUE: Final = regex(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)|data|stringdata")
_SECTION: Final = regex(r"(?:^|(?<=[\x1f\n]))\[([\w.-]+)\][ \t]*\n(?P<body>(?:(?!\n\[)[^\x1f])*+)")
_CALLED: Final = regex(r"(?i)(?:\w+\.)*(?!get|load|read|from|ask|is)\w*?(?:login|auth|credential|password|secret)\w*")
_COMPUTED: Final = regex(r"[A-Za-z_][\w.]*(?:\(|\.\w+\[)[^\n\x1f]*|\([^\n\x1f]*|(?:args|config|cfg|self|os)\.\S*")
_LOOKED_UP: Final = regex(r"tokeniz|environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")


def _after_names(text: str) -> Iterator[Span]:
    """Values behind the names of secrets, in texts for a shell, JSON, YAML, ini, XML, SQL and code alike."""
    yield from (section.span("body") for section in _SECTION.finditer(text) if _STRONG.search(_words(section[1])))
    is_paired, done = any(looks_secret(pair[1]) for pair in _PAIR.finditer(text)), 0
    for mark in _NAME.finditer(text):
        name, begin, blank = mark["name"], mark.end(), mark["blank"]
        if (is_paired and _VALUE.fullmatch(name)) or (mark["call"] is not None and _CALLED.fullmatch(name)):
            name = "password"
        if mark.start() < done or not (looks_secret(name) or _USERS.fullmatch(name)) or not _has_value(text, mark):
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
            if name[-1] in "sS":
                yield from (word.span() for word in _WORD.finditer(text, end, _reach(_MORE, text, end)))


def _has_value(text: str, mark: re.Match[str]) -> bool:
    """Whether a value follows a name, and no next word of a sentence or expression of a program."""
    name, is_strong = mark["name"], _STRONG.search(_words(mark["name"])) is not None
    if mark["blank"]:
        lead = text[max(mark.start() - _LEAD, 0) : mark.start()]
        is_value = (follows := _FOLLOWS.match(text, mark.end())) and (is_strong or follows["drawn"])
        return bool(is_value or mark["dash"] or (name.isupper() and "." in name) or _SET.search(lead))
    value = _COMPUTED.match(text, mark.end(), mark.end() + _LEAD)
    if value is None or (mark["call"] is None and "=" not in (mark["sign"] or "")):
        return True
    return not _LOOKED_UP.search(value[0]) and (is_strong or re.search("[\"'`]", value[0]) is not None)


_TAKES: Final = r"""b : --from-literal|--body|--value|--data|--string-value : secrets?|variable|put-parameter
p|hp|P|upw|opw : 0 : mysql\w*|mariadb\S*|mycli|7z\w*|u?n?rar|sshpass|login|twine|mongo\w*|cqlsh|ncftp\w+|supabase|conan
p : 0 : cypher-shell|xmpp|sendxmpp|rdesktop|crackmapexec|nxc|netexec|evil-winrm|poetry|rabbitmqadmin|psexec|useradd
p|P|upw|opw : user_pw|owner_pw|input_pw : yt-dlp|youtube-dl|user(?:mod|s)|beeline|steghide|impala-shell|pdf\w+
P|N|xp : /p|-storepass|-keypass|-srcstorepass|-deststorepass : ssh-keygen|sendemail|signtool|xfreerdp|keytool|jarsigner
a|P : --pass|auth|requirepass|masterauth : redis-\w+|valkey-cli|keydb-cli|zip|unzip|sqlcmd|tsql|mosquitto_[ps]ub
k|K|P : -pass|-passin|-passout|passwd|encrypt(?:_string)? : swanlab|openssl|ipmitool|nuget|choco|ss-local|ansible-vault
w|s|A|X|c|t : encrypt : ldap\w+|beeline|snmp\w+|doctl|flyctl|vercel|rancher|influx|codecov|anaconda|travis
u|a|U|E|b : --(?:proxy-)?user|--auth|--(?:proxy-)?cert|--cookie : smbclient|rpcclient|smbget|lftp|curl|wget|https?|xhs?
a|c|n|P : --auth|--user|-auth : zipcloak|bcp|bearer|gotty|ttyd|etcdctl|transmission-remote|jenkins-cli.jar
0 : password|http-basic|upwd|user[:-]password : mysqladmin|nmcli|composer|poetry|drush|wp
0 : login|unwrap|unseal|authtoken|add-authtoken|put|write|patch : vault|bao|wandb|ngrok|cargo
0 : create|user?|(?:config:)?set|add|\w+_(?:user|password) : modal|net|rabbitmqctl|filebrowser|mc|heroku|doppler
0 : [\w-]+ : htpasswd|mosquitto_passwd|wpa_passphrase|smbpasswd|sqlplus|sqlldr|expdp|impdp|rman|convertto-securestring
0 : obscure|unlock|login|reset-admin-password|set : rclone|bw|grafana-cli|grafana|fly(?:ctl)?"""
"""Short options that take a secret; long ones, and what has only secrets behind it; the programs that these are of."""
_COMMAND: Final = regex(r"""(?:[^;|&\n"'\\]|\\.|"(?:[^"\\]|\\.)*+"|'[^']*'|["'\\])*+""", re.S)
_TAKING: Final = (
    r"""(?<![\w-])(?:-(?:%s)|-[A-Za-z]+(?:%s)(?=[\s\\"'`])|(?P<long>(?i:%s)(?=[\s=:.,\\"'`])))"""
    r"""(?:[=:]|[\\"'`]*,\s*|[\\"'`]*\s[\s\\]*(?!-)|)"""
)
_PROGRAMS: Final = [
    (regex(rf"(?<![\w.-])(?:(?<=\\)n)?(?i:{programs})(?![\w.-])"), regex(_TAKING % (short, short, long)))
    for short, long, programs in (row.split(" : ") for row in _TAKES.splitlines())
]


def _after_programs(text: str) -> Iterator[Span]:
    """Secrets behind options of programs, and behind what programs are to do."""
    for programs, options in _PROGRAMS:
        done = 0
        for program in programs.finditer(text):
            if program.start() < done:
                continue
            done = len(text) if text.startswith(_APART, program.end()) else _reach(_COMMAND, text, program.end())
            for option in options.finditer(text, max(program.start() - 1, 0), done):
                begin = option.end()
                if (option["long"] or "-")[0] not in "-/":
                    yield from (word.span() for word in _WORD.finditer(text, begin, done))
                    break
                end = _end(text, option.start(), begin, "word", is_apart=text[begin - 1].isspace())
                if may_not_be_shown("password", text[begin:end].strip(_QUOTES)):
                    yield begin, end


_FED: Final = regex(
    r"""\b(?:echo|printf)[\s\\]+(?P<echoed>(?:[^|>\n"']|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'])*+)|<<<\s*(?P<given>[^\n]*)"""
    r"""|<<-?[ \t]*[\\"']*\w+[^\n]*\n(?P<here>[^\x1f]*)"""
)
_READS_SECRET: Final = regex(r"-stdin|-fd\b|with-token|secret|chpasswd|passwd|kinit|cryptsetup|login|sudo\s+-S")
_OPENED: Final = regex(r"""((?<!-c)(?<!-lc)(?<!/c)\x1f|[\\"'`]{0,16}["'`])(?:-{0,2}[\w-]+=|-[A-Za-z]|\+*)\Z""")
_QUOTE: Final = regex(r"""[\\"'`]{0,16}["'`]""")
_ATOM: Final = r"""[^\[\](){}"'\\]|\\+"[^"]*+"|\\.|"(?:[^"\\]|\\.)*+"|'[^']*+'|["'\\]"""
_NESTED: Final = reduce(lambda inner, _: rf"{_ATOM}|[\[({{](?:{inner})*+[\])}}]", range(6), _ATOM)
_BRACKET: Final = regex(rf"[\[({{](?:{_NESTED})*+[\])}}]", re.S)
_REST_OF_WORD: Final = regex(r"""(?:[^\s;&|<>()"'`\\]|\\.|(["'`])(?![\s;&|,)\]}]|$)(?:[^"'`\\]|\\.)*+\1)*+""", re.S)
_GOES_ON: Final = regex(r"[ \t]*+(?:[,;|\n)}\]/>#<\x1f]|&&|&\s|\Z)|\s+(?:-|\.{0,2}/|[\w.]+=|(?:python|bash|exec)\b)")


def _end(text: str, start: int, place: int, extent: str, *, is_apart: bool) -> int:
    """Where a value ends: with the quote that begins before its name, or with its own, its bracket, word or lines."""
    lead = text[max(start - _LEAD, 0) : start]
    opened = None if is_apart else _OPENED.search(lead)
    if opened or text[place - 1 : place] == _APART:
        return _closing(text, place, opened[1] if opened else _APART)[0]
    end = place
    if quote := _QUOTE.match(text, place):
        end = _closing(text, quote.end(), quote[0])[1]
    elif text[place : place + 1] in tuple("[({"):
        end = _reach(_BRACKET, text, place)
    word_end = _reach(_REST_OF_WORD, text, end)
    if extent == "word" or (extent == "setting" and "\n" not in lead and _GOES_ON.match(text, word_end)):
        return word_end
    if end > place and _GOES_ON.match(text, end):
        return end
    column = len(lead) - max(lead.rfind("\n"), lead.rfind(_APART)) - 1
    deeper = rf"[^\n]*(?:\n(?=[ \t]{{{column + 1},}}|[ \t]{{{column},}}-[ \t]|[ \t]*(?:\n|\Z))[^\n]*)*+"
    return _reach(re.compile(deeper), text, end)


def _reach(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return match.end() if match else len(text)


def _closing(text: str, place: int, mark: str) -> Span:
    """The quote that closes: the same, or in reverse order; the text's end where there is none."""
    if mark in ('""', "''"):
        return place, place
    both = {mark, mark if "\\" in mark else mark[::-1]}
    skipped = r"""'"'"'|'\\+''|"'"'"|""" if len(mark) == 1 else ""  # a quote within quotes of the same kind
    ends = re.compile(rf"{skipped}(?P<end>(?<!\\)(?:{'|'.join(map(re.escape, both))}))").finditer(text, place)
    return next((match.span("end") for match in ends if match["end"]), (len(text), len(text)))


_KNOWN: Final = """python python3 torchrun accelerate deepspeed vllm sglang trtllm-bench trtllm-serve trtllm-build srun
    sbatch mpirun mpiexec nsys ncu rocprofv3 docker podman kubectl apptainer singularity ssh env bash sh sudo timeout
    numactl taskset nice nohup time uv uvx ray gpuledger nvidia-smi run serve launch bench exec profile throughput
    latency true false none null yes no auto on off default float32 float16 bfloat16 fp32 fp16 bf16 fp8 int8 int4 cuda
    nvtx osrt cudnn cublas nccl cpu gpu all info debug warning error"""
_NUMBER: Final = r"[+-]?\d{1,9}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,3})?(?:[num]?s|min|h|%|[kKMGTx]|[KMGT]i?B|B)?"
_NUMBERS: Final = regex(rf"{_NUMBER}(?:[,x]{_NUMBER}){{0,63}}")
_OPTION: Final = regex(r"-[A-Za-z]{1,2}|--[A-Za-z][\w.-]{0,60}|--")
_SETTING: Final = regex(r"-{0,2}[A-Za-z_][\w.-]{0,60}")
_MODULE: Final = regex(r"[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40}){0,9}")
_FILES: Final = regex(
    r"\w[\w.-]{0,60}\.(?:py|sh|jsonl?|ya?ml|toml|cfg|ipynb|csv|parquet|sqlite|nsys-rep|ncu-rep|safetensors|gguf|so|cu|cpp)"
)


def shareable_command(argv: Sequence[str]) -> list[str]:
    """A command as others may see it: what is not known to be harmless is withheld."""
    shown = list[str]()
    for before, word, private in zip(("", *argv), argv, without_secrets(argv), strict=False):
        name, sign, value = word.partition("=")
        if private != word and not (sign and private.startswith(f"{name}=")):
            shown.append(WITHHELD)
        elif sign and _SETTING.fullmatch(name):
            shown.append(f"{name}={shareable_value(name, value)}")
        elif _OPTION.fullmatch(word) or (before == "-m" and _MODULE.fullmatch(word)):
            shown.append(word)
        else:
            shown.append(shareable_value(before if before.startswith("-") else "", word))
    return shown


def shareable_value(name: str, value: str) -> str:
    """A value as others may see it, the name of a file in place of its path."""
    own_name = value.rstrip("/").rpartition("/")[2]
    is_file = _FILES.fullmatch(own_name) and without_secrets([own_name]) == [own_name]
    if looks_secret(name) or not (is_file or _NUMBERS.fullmatch(value) or own_name.lower() in _KNOWN.split()):
        return WITHHELD
    return own_name if is_file or "/" in value else value
