"""What of a command or a setting may be written down: words in, the same words without secrets out.

For the owner's files and terminal: it parses shell, JSON, YAML, ini, XML, code, URLs and headers, and withholds what a
name, a program's option or a value's own form gives away, up to the end of the value; where that is unclear, more.
Documents for others have `shareable_command`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpuledger.capture.secret_forms import Place, secret_forms
from gpuledger.capture.secret_names import is_strong, looks_secret, may_not_be_shown
from gpuledger.capture.secret_words import IN_COMMAND, READS_SECRET, WHOLE, roles
from gpuledger.regex import regex

WITHHELD: Final = "(withheld)"


def shown_value(name: str, value: str) -> str:
    """The value of a variable as it may be written down."""
    return WITHHELD if may_not_be_shown(name, value) else _cut(value, _spans(value, before=name))


def without_secrets(argv: Sequence[str], known: Iterable[str] = ()) -> list[str]:
    """A command as it may be written down: secrets in it are withheld, and `known` ones wherever they stand."""
    shown, again = list[str](), {text for text in known if len(text) > 3}
    for before, word, (begin, kind) in zip(("", *argv), argv, roles(argv), strict=False):
        spans = [*([] if begin is None else [(begin, len(word))]), *_spans(word, kind, before)]
        again.update(word[first:last] for first, last in spans if _REPEATED.fullmatch(word, first, last))
        shown.append(_cut(word, spans))
    for secret in sorted(again, key=len, reverse=True):
        shown = [word.replace(secret, WITHHELD) for word in shown]
    return shown


_REPEATED: Final = regex(r"(?=\S*\d)(?=\S*[A-Za-z])\S{12,}")
"""A secret that is not a word of its own accord: withheld wherever it stands again."""


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


_PIECE: Final = regex(
    r"""(?P<blank>(?:[ \t\r]|\\\n)+)"""
    r"""|<<-?[ \t]*(["']?)(?P<tag>\w+)\2(?P<rest>[^\n]{0,999})\n(?P<here>.*?)(?:\n[ \t]*(?P=tag)(?!\w)|\Z)"""
    r"""|'(?P<raw>[^']*)(?:'|\Z)|\$'(?P<ansi>(?:[^'\\]++|\\.)*+)\\?(?:'|\Z)"""
    r"""|\$?"(?P<double>(?:[^"\\]++|\\.)*+)\\?(?:"|\Z)"""
    r"""|(?P<bare>\(withheld\)|(?<==)\((?:'[^']*'|"[^"]*"|[^()'"]){0,999}\)|(?!\A)\$\([^()]*\)|[<>]&|&>|[<>]+"""
    r"""|\\.|[^\s;&|()<>'"\\$]+|[\\$])"""
    r"""|(?P<end>[;&|\n()]+|.)""",
    re.S,
)
_LETTER: Final = {
    "double": regex(r"""\\(?=["\\$`])(.)|(.)""", re.S),
    "ansi": regex(r"\\(.)|(.)", re.S),
    "bare": regex(r"\\(.)|(.)", re.S),
}
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r"}
_BLANK: Final = regex(r"\s")
_DEPTH, _SHORT = 6, 8
"""Texts in texts that are parsed: a shell's in a shell's in a job script's."""


class _Word:
    """One shell word after unquoting, and the position of each of its letters in the text."""

    def __init__(self) -> None:
        self.plain, self._places, self._parts = "", list[Place](), list[tuple[int, int, Place]]()

    def add(self, piece: re.Match[str], kind: str) -> None:
        """Append a piece: bare, or quoted in one of three ways."""
        text, begin, start = piece[kind], piece.start(kind), len(self.plain)
        if "\\" in text and kind in _LETTER:
            for letter in _LETTER[kind].finditer(text):
                escaped = letter[1]
                self.plain += (
                    (letter[2] or "")
                    if escaped is None
                    else _CONTROL.get(escaped, escaped)
                    if kind == "ansi"
                    else escaped
                )
                self._places.append((begin + letter.start(), begin + letter.end()))
        else:
            self.plain += text
            self._places += ((place, place + 1) for place in range(begin, begin + len(text)))
        self._parts.append((start, len(self.plain), piece.span()))

    def spans(self, begin: int, end: int) -> Iterator[Place]:
        """Where these letters stand: without the quotes around them, where all are in one pair or not all of a pair."""
        parts = [part for part in self._parts if part[0] < end and begin < part[1]]
        for start, stop, outer in parts:
            first, last = max(begin, start), min(end, stop)
            is_all = len(parts) > 1 and (first, last) == (start, stop)
            yield outer if is_all else (self._places[first][0], self._places[last - 1][1])


def _in_shell(text: str, depth: int) -> Iterator[Place]:
    """Secrets of the commands in a text for a shell."""
    words, piped, word = list[_Word](), list[_Word](), _Word()
    for piece in _PIECE.finditer(text):
        kind = piece.lastgroup or ""
        if kind in ("raw", "ansi", "double", "bare"):
            word.add(piece, kind)
            continue
        if word.plain:
            words.append(word)
            word = _Word()
        if kind == "blank":
            continue
        if kind == "here":
            plain = [word.plain for word in words]
            *_, (_, language) = roles([*plain, "-c", piece["here"]])
            inner = _in_shell(piece["rest"], depth)
            yield from ((piece.start("rest") + first, piece.start("rest") + last) for first, last in inner)
            own = [(0, len(piece["here"]))] if any(map(READS_SECRET.fullmatch, plain)) else []
            spans = (*own, *_spans(piece["here"], language, "", depth))
            yield from ((piece.start("here") + first, piece.start("here") + last) for first, last in spans)
        yield from _in_one_command(words, piped, depth)
        piped, words = (piped or words if piece[0] == "|" else []), []
    yield from _in_one_command([*words, word] if word.plain else words, piped, depth)


def _in_one_command(words: list[_Word], piped: list[_Word], depth: int) -> Iterator[Place]:
    plain = [word.plain for word in words]
    given = list[_Word]()
    if plain[:1] in (["echo"], ["printf"]) and ">" in "".join(plain[-2:]) and looks_secret(plain[-1]):
        given = words[1:-1]  # into a file
    elif piped and piped[0].plain in ("echo", "printf") and any(map(READS_SECRET.fullmatch, plain)):
        given = piped[1:]
    elif "<<<" in plain and any(looks_secret(word) or READS_SECRET.fullmatch(word) for word in plain):
        given = words[plain.index("<<<") + 1 :]
    for word in given:
        yield from word.spans(0, len(word.plain) if word.plain[:1] not in ("-", "$", ">") else 0)
    for word, before, (start, kind) in zip(words, ("", *plain), roles(plain), strict=False):
        own = [] if start is None else [(start, len(word.plain))]
        for span in (*own, *_spans(word.plain, kind, before, depth)):
            yield from word.spans(*span)


_SCRIPT: Final = regex(r"""(?:^|[\s;&|])(?:["']?--?[A-Za-z]|&&|\|\||<<)|;\s""")
"""A text that is a command, whatever runs it: its words are looked at, and not its lines."""
_FOLLOWING: Final = regex(r",(?=[A-Za-z_][\w.-]{1,80}=[^=])")
"""The next of several settings in one word."""
_ASSIGNMENT: Final = regex(r"\s*(?:exec\s|env\s|export\s)*\w+=\S")
_COMMANDS: Final = regex(r"(?:;|&&|\|\|)\s+\w|\s--?[A-Za-z]")


def _spans(text: str, kind: str = "", before: str = "", depth: int = 0) -> Iterator[Place]:
    """Where the secrets of one word are: a setting, a text for a shell, a document, code."""
    whole = None if kind and (kind == "code" or text[:1] != "-") else WHOLE.fullmatch(text)
    begin = whole.start("value") if whole is not None else 0
    is_script = depth < _DEPTH and len(text) > _SHORT and _BLANK.search(text) is not None and kind != "code"
    is_script = is_script and not _DOCUMENT.match(text, begin) and bool(kind or IN_COMMAND.search(text))
    if whole is not None and may_not_be_shown(whole["name"], whole["value"]):
        if is_script and text[:1] != "-" and _COMMANDS.search(whole["value"]):
            kind, begin = "shell", 0
        else:
            following = None if whole["value"][:1] in "\"'[({" else _FOLLOWING.search(text, begin)
            yield begin, following.start() if following else len(text)
    if is_script:
        yield from ((begin + first, begin + last) for first, last in _in_shell(text[begin:], depth + 1))
    if kind == "code" or text.lstrip()[:1] == "[":
        literals = [(text[piece.start() + 1 : piece.end() - 1], *piece.span()) for piece in _LITERAL.finditer(text)]
        for (word, begin, end), (start, _) in zip(literals, roles([word for word, _, _ in literals]), strict=True):
            if start is not None:
                yield begin + 1 + start, end - 1
            elif len(word) > _SHORT and " " in word:
                yield from ((begin + 1 + first, begin + 1 + last) for first, last in _in_shell(word, depth + 1))
    if not is_script or not (_SCRIPT.search(text, begin) or (kind and _ASSIGNMENT.match(text))):
        yield from _after_names(text, "" if kind == "shell" else kind)
        yield from secret_forms(text, before)


_LITERAL: Final = regex(r"""'[^'\n]*'|"[^"\n]*\"""")
_MARKS: Final = (
    regex(  # name=  "name":  name =>  ["name"] =
        r"""(?<![\w.-])-{0,2}(?P<name>\w[\w.-]*+)(?P<close>\\{0,8}["'])?"""
        r"(?P<sign>\s*+(?:[\]}]\s*=(?!=)|=>|%3[AaDd]|(?:\|\||[:?+])?=(?!=)|:(?!:))\s*+)"
    ),
    regex(r"<(?P<close>)(?P<name>[\w:.-]++)(?P<sign>(?:\s[^<>]*+)?>)(?<!/>)"),  # an element of XML
    regex(  # ("NAME", "value")  ["--name", "value"]
        r"""(?<!:)(?<!: )(?P<close>\\{0,8}["'])(?P<name>(?:--)?\w[\w.-]*+)\\{0,8}["'](?P<sign>\s*,\s*)"""
        r"""(?=\\{0,8}["'])(?!\\{0,8}["'][\w.-]{0,80}\\{0,8}["']\s*:)"""
    ),
    regex(r"(?<![\w.])(?P<close>)(?P<name>[A-Za-z_][\w.]*+)(?P<sign>)(?=\()"),  # login("...")
    regex(  # SQL, netrc, a name and a value in a line
        r"(?i)(?<![\w/.-])(?P<close>)"
        r"(?P<name>[\w-]*(?:password|passwd|passphrase|requirepass|identified(?: with \S+)? by)"
        r"""|[A-Za-z]\w*[_-][\w-]+(?=\s+["']))"""
        r"""(?P<sign>(?:\s+for\s+\S{1,99}\s*=)?\s++)(?=['"]|(?![-/&|;<>])(?:[^\s=:]*[\d_@#!%^*.-]|[^\s=:]+\s*(?:$|\n)))"""
    ),
)
_NAME, _TAG, _PAIR, _CALL_OF, _SPACED = _MARKS


def _is_of(mark: re.Match[str], *forms: re.Pattern[str]) -> bool:
    return mark.re.pattern in [form.pattern for form in forms]


_NAMING: Final = regex(r"(?i)(?:parameter|env|header|var|entry)?_?(?:name|key|variable|property|id)")
_NAMED: Final = regex(r"""\\{0,8}["']?(?P<name>[\w.:/-]+)""")
_VALUED: Final = regex(r"(?i)(?:parameter|default|env|header|var)?_?(?:value|val|string)")
"""Keys of a pair: {"name": "HF_TOKEN", "value": "..."}."""
_APART: Final = regex(r"[{}]|\n[ \t]*- |/>")
_PAIRED: Final = regex(
    r"""\\{0,8}["']?[\s,]*+\\{0,8}["']?(?i:(?:parameter|default|env)?_?(?:value|val))\\{0,8}["']?\s*[:=]"""
)
_ATTRIBUTE: Final = regex(r"""(?i)\b(?:name|key|id|property)\s*=\s*\\{0,8}["'](?P<name>[\w.-]+)""")
_SIGNED_ADDRESS: Final = regex(r"(?:x-[a-z]+-)?(?:sig(?:nature)?|credential)", re.I)
_CALLED: Final = regex(
    r"(?:\w+\.)*(?!get|load|read|from|ask|input|has|is)\w*?"
    r"(?:login|auth(?:enticate)?|credentials?|password|secret(?:str)?)",
    re.I,
)
"""A function that takes a secret without a name."""
_KEEPS_SECRETS: Final = regex(r"""\bkind["']?\s*:\s*["']?Secret\b""")


_DOCUMENT: Final = regex(
    r"""\s*(?:\[\s*[\w"'\[{(]|(?:import|from|const|return)\s|-----|\$\w+\{"""
    r"""|[\w.:]+[(\[]["']|\(\w|<[\w!?]|\{\s*["'\n}]|\{\w|(?:- )?[\w-]+\s?[:=][ \n])"""
)
_SECTION: Final = regex(r"(?m)^\[(?P<name>[\w.-]+)\][ \t]*\n(?P<body>(?:(?!\[)[^\n]*(?:\n|\Z))*?)(?=\[|\Z)")


def _after_names(text: str, kind: str) -> Iterator[Place]:
    """Values behind the names of secrets: `api_key=...`, `"token": "..."`, `<password>...`, name/value pairs."""
    keeps = ("data", "stringData") if _KEEPS_SECRETS.search(text) else ()
    yield from (section.span("body") for section in _SECTION.finditer(text) if is_strong(section["name"]))
    begin, end, naming, is_paired, unnamed = 0, 0, 0, False, None
    for mark in sorted((mark for pattern in _MARKS for mark in pattern.finditer(text)), key=re.Match.start):
        name = mark["name"]
        is_colon = mark["sign"].strip() == ":"
        if begin <= mark.start() < end or (
            is_colon and text[max(mark.start() - 2, 0) : mark.start()].endswith(("$", "//"))
        ):
            continue
        if _NAMING.fullmatch(name) and _is_of(mark, _NAME, _TAG):
            named = _NAMED.match(text, mark.end())
            is_paired = named is not None and looks_secret(named["name"])
            if is_paired and unnamed and not _APART.search(text, unnamed.end(), mark.start()):
                yield from ((first, last) for first, last, _ in _value(text, unnamed, kind, "password"))
            unnamed, naming = None, mark.end()
            if named and _PAIRED.match(text, named.end()):
                continue
        elif _VALUED.fullmatch(name):
            is_paired = is_paired and not _APART.search(text, naming, mark.start())
            name, unnamed, is_paired = "password" if is_paired else name, mark, False
        if name in keeps or _is_secret_by_place(text, mark):
            name = "password"
        for begin, end, is_secret in _value(text, mark, kind, name) if looks_secret(name) else ():
            yield (begin, end) if is_secret else (0, 0)


def _is_secret_by_place(text: str, mark: re.Match[str]) -> bool:
    """Whether what surrounds a name makes its value a secret."""
    name = mark["name"]
    if _is_of(mark, _TAG):
        attribute = _ATTRIBUTE.search(mark["sign"])
        return attribute is not None and looks_secret(attribute["name"])
    in_query = text[mark.start() - 1 : mark.start()] in ("?", "&")
    return (_is_of(mark, _SPACED) and name.lower().startswith("identified")) or bool(
        (in_query and _SIGNED_ADDRESS.fullmatch(name)) or (_is_of(mark, _CALL_OF) and _CALLED.fullmatch(name))
    )


_OPENING: Final = regex(r"""[bruf]{0,2}(?P<mark>\\{0,8}(?:\"""|'''|["'`]))""")
_BRACKETS: Final = regex(r"""\\{0,8}["'`]|[\[({\])}]""")
_JOINED: Final = regex(r"""\s*[+%]\s*(?=["'\[({\w])|[ \t]*(?:\n[ \t]*)?(?=[bruf]?["'`])""")
_GLUED: Final = regex(r"""(["'])[^\s"',;]*\1""")
_IN_QUERY: Final = regex(r"""[^&#\s"'<>]*+""")
_IN_WORD: Final = regex(r"""(?:[^\s;&|<>()"'`\\]|\\.)*+""", re.S)
_IN_CODE: Final = regex(r"""[^\s,;()\[\]{}"'`]*+(?:\s=(?=\s))?+[ \t]*+""")
_IN_LINE: Final = regex(r"""(?:(?!\\n)[^\n])*+""")
_NEXT: Final = r"""\s*\\{0,8}["']?[\w.-]{1,80}\\{0,8}["']?\s*[:=]"""
_IN_FLOW: Final = regex(rf"""(?:[^\n"'`,}}\])\\]|,(?!{_NEXT})(?!\s*[{{\[])|[}}\])](?!\s*(?:[,;}}\])"']|$)))*+""", re.M)
_IN_SETTING: Final = regex(
    rf"""(?:[^\s,;&|"'`)\]}}<>]|[ \t]+(?![-"'\s&|]|$)(?!{_NEXT})"""
    rf"""|[,;&|](?![\s"']|$)(?!{_NEXT})|[)\]}}](?![\s,;)\]}}"']|$))*+"""
)
"""What a value without quotes is made of, by where it stands."""


def _value(text: str, mark: re.Match[str], kind: str, name: str) -> Iterator[tuple[int, int, bool]]:
    """The value behind a name, and whether it may not be shown; nothing where more names may be in it."""
    place, sign = mark.end(), mark["sign"]
    opened = text[mark.start() - 1 : mark.start()] if _is_of(mark, _NAME) and not mark["close"] else ""
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
    elif _is_of(mark, _TAG):
        end = text.find(f"</{mark['name']}", place)
        if end < 0 and not (text.startswith("<") or text.rfind("</") > place):
            return  # `--token <token>`
        end = end if end >= 0 else len(text)
    else:
        end = _value_end(text, place, _manner(text, mark, kind, is_first=is_first))
    quote = _OPENING.match(text, place)
    if quote is not None and (_is_of(mark, _PAIR) or text.lstrip()[:1] == "<"):
        closed = _closing(text, quote.end(), quote["mark"])
        end = end if _JOINED.match(text, closed) else closed
    is_quoted = quote is not None and _closing(text, quote.end(), quote["mark"]) == end
    if quote is not None and is_quoted:
        place, end = quote.end(), end - len(quote["mark"]) * text.endswith(quote["mark"], quote.end(), end)
    end = place + len(text[place:end].rstrip())
    value = text[place:end]
    if not is_quoted and not is_inner and _is_computed(value, mark, kind, name):
        yield from () if re.search("[\"'`]", value) else ((place, end, False),)
    elif not value.startswith("//") and may_not_be_shown(name, value):
        yield place, end, True


_CALL: Final = regex(r"lambda\b.*|[A-Za-z_][\w.]*[()].*|[A-Za-z_]\w*\.\w[\w.]*\[.*", re.S)
_LOOKED_UP: Final = regex(r"tokeniz|environ\b|getenv\(|getpass|input\(|args\.|open\(|read\w*\(|config[\[.]|\.get\(")


def _is_computed(value: str, mark: re.Match[str], kind: str, name: str) -> bool:
    """Whether it is an expression of a program, which holds no secret itself."""
    has_text = re.search("[\"'`]", value) is not None
    if _is_of(mark, _CALL_OF) or kind == "code":
        return not has_text or _LOOKED_UP.search(value) is not None
    is_spaced = "=" in mark["sign"] and mark["sign"].strip() != mark["sign"]
    return is_spaced and bool(_CALL.fullmatch(value)) and (not is_strong(name) or bool(_LOOKED_UP.search(value)))


def _manner(text: str, mark: re.Match[str], kind: str, *, is_first: bool) -> re.Pattern[str]:
    """What an unquoted value is made of here."""
    sign, opened = mark["sign"], text[max(mark.start() - 9, 0) : mark.start()].rstrip()[-1:]
    is_spaced, is_valued = sign.strip() != sign, text[mark.end() : mark.end() + 1] in ('"', "'", "[", "(", "{")
    if opened in ("?", "&", "#") and "=" in sign and not is_spaced:
        return _IN_QUERY
    if kind == "code" or ("=" in sign and is_spaced and is_valued):
        return _IN_CODE
    if sign.strip() == ":":
        return _IN_FLOW if mark["close"] or opened in ("{", ",", "[") else _IN_LINE
    if sign.isspace():
        return _IN_WORD
    return _IN_LINE if is_spaced or (is_first and "\n" in text) else _IN_SETTING


_HEAD: Final = regex(r"\s*(?:[&!]\S+\s*)*(?:[|>][\d+-]*)?\s*(?:#.*)?")
_REST_OF_LINE: Final = regex(r"[^\n]*")


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
"""Deepest column of a YAML key; beyond it, a colon is ordinary text."""


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
