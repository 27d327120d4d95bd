"""Names that a terminal, a browser, a spreadsheet or a Markdown reader would take for something else."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.profiles.nsys_exports import PID, call, insert, kernel, minimal, push

TEXTS: Mapping[str, str] = {
    "script": "<script>alert(1)</script>",
    "end of a script": "</SCRIPT ><ScRiPt src=//x.example>",
    "end of a style": "</style><svg onload=alert(1)>",
    "an image": '<img src=x onerror="alert(1)">',
    "a comment": "<!-- a -->]]>-->",
    "entities": "&lt;script&gt; &amp; &#x1b; &nosuch;",
    "quotes": "a \"b\" 'c' `d`",
    "a leading quote": '"a" b',
    "a quote that stays open": '"a b',
    "a quote that stays open, and a comma": '"a, b',
    "bars": "a|b || c \\| d",
    "backticks": "``` a `` b ` c",
    "backslashes": "a\\b \\\\ \\n \\x1b[31m \\",
    "stars": "**a** _b_ ~~c~~ # d",
    "a link": "[a](javascript:alert(1)) ![b](http://x.example/c.png)",
    "a bare address": "http://x.example/?a=1&b=2",
    "a newline": "a\nb\r\nc\rd",
    "a new row": 'x\n9,9,9,"y"\n| a | b |\n\n# heading',
    "a tab": "a\tb",
    "colours": "\x1b[31mred\x1b[0m",
    "clear the screen": "\x1b[2J\x1b[H\x1bc",
    "set the title": "\x1b]0;owned\x07",
    "a hidden link": "\x1b]8;;http://x.example\x1b\\a\x1b]8;;\x1b\\",
    "escapes of 8 bits": "\x9b31m\x9d0;x\x9c",
    "backspaces": "secret\b\b\b\b\b\bpublic",
    "bell and delete": "\x07a\x7fb",
    "markup": "[red]a[/red] [/] [link=http://x]b[/link] :smile:",
    "a template": "{{ 7 * 7 }}{% raw %}${7*7}#{7*7}<%= 7 %>",
    "a format": "%s %n %(x)s {0} {x.y}",
    "a formula": "=HYPERLINK(1)",
    "a formula by plus": "+1+cmd|' /C calc'!A0",
    "a formula by minus": "-2+3+cmd|' /C calc'!A0",
    "a formula by at": "@A1(1)",
    "a formula after a tab": "\t=1+1",
    "a formula in full width": "＝1+1",
    "right to left": "a\u202eb\u2066c\u2069\u202c\u200f",
    "no width": "a\u200bb\u200dc\ufeffd\u2060e",
    "ends of lines of Unicode": "a\u2028b\u2029c\x85d",
    "NUL": "a\0b",
    "combining": "a" + "\u0301" * 300,
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 e",
    "wide": "漢字かな交じり文" * 20,
    "a shell": "$(touch canary) `touch canary`; touch canary",
    "a path": "../../../../canary",
    "spaces": "   ",
    "64 kB": "n" * 65536,
    "empty": "",
}


def harmless(names: Sequence[str]) -> list[str]:
    """As many names that nobody could take for anything else."""
    return [f"plain {chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(len(names))]


def profile(path: Path, names: Sequence[str]) -> Path:
    """An export with these names wherever an export has names: kernels, ranges, calls, GPUs, messages, metadata."""
    numbers = range(len(names))
    minimal(
        path,
        KERNEL=[
            kernel(1000 * at + 500, 1000 * at + 900 - at, correlationId=at, demangledName=10 + at, shortName=10 + at)
            for at in numbers
        ],
        RUNTIME=[call(1000 * at + 10, 1000 * at + 90, correlationId=at, nameId=10 + at) for at in numbers],
        NVTX=[push(1000 * at, 1000 * at + 95, name) for at, name in enumerate(names)],
    )
    with sqlite3.connect(path) as database:
        insert(database, "StringIds", [{"id": 10 + at, "value": name} for at, name in enumerate(names)])
        database.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, busLocation TEXT)")
        database.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)")
        database.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT)")
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, nameEnum INTEGER, value TEXT)")
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, '')", ("".join(names[:20]),))
        database.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, ?)", (PID >> 24 & 0xFFFFFF,))
        for at, name in enumerate(names):
            database.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (2, ?)", (f"{name} said {at}",))
            database.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", (name, name))
            database.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, 0, ?)", (name, name))
    database.close()
    return path
