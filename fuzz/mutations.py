"""Changes to a profile that keep it nearly one: bytes and a source of chance in, other bytes out.

Bytes changed at random mostly give what cannot be parsed at all. So each format has changes of its own beside those: a
value of another type, a row twice, a column less, a length that lies. What cannot be taken apart is changed as bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from copy import deepcopy
from typing import Any, Final

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 255, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30),
    *(
        0.5,
        -0.0,
        1e308,
        -1e308,
        5e-324,
        "",
        "x",
        "0",
        "-1",
        "1.5",
        "NaN",
        "1e999",
        "\0",
        "\ud800",
        "é" * 40,
        "x" * 3000,
    ),
    *([], {}, [[]], [0] * 50, {"a": {}}, [None, 1, "x"]),
)
ODD_BYTES: Final = (
    b"\0",
    b"\xff",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\x7f\xff\xff\xff",
    b"-1",
    b"1e999",
    b"NaN",
)
_ODD_SQL: Final = (*(each for each in ODD if not isinstance(each, list | dict)), b"", b"\xff\xfe", b"\0" * 9)

Change = Callable[[bytes, random.Random], bytes]


def as_bytes(words: tuple[bytes, ...]) -> Change:
    """Changes that know nothing of the format but some words that stand in it."""

    def change(content: bytes, chance: random.Random) -> bytes:
        found = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(found) + 1)
            length = min(chance.choice((1, 1, 2, 4, 8, 30, 200)), len(found) - at)
            match chance.randrange(7):
                case 0:
                    found[at : at + 1] = bytes((chance.randrange(256),))
                case 1:
                    del found[at : at + length]
                case 2:
                    found[at:at] = chance.choice((*words, *ODD_BYTES))
                case 3:
                    found[at : at + length] = chance.choice((*words, *ODD_BYTES))
                case 4:
                    found[at:at] = found[at : at + length] * chance.choice((1, 2, 50))
                case 5:
                    other = chance.randrange(len(found) + 1)
                    found[at : at + length] = found[other : other + length]
                case _:
                    del found[at if chance.random() < 0.2 else len(found) :]
        return bytes(found)

    return change


def sometimes(own: Change, words: tuple[bytes, ...] = ()) -> Change:
    """The format's own changes, and now and then plain ones."""
    plain = as_bytes(words)

    def change(content: bytes, chance: random.Random) -> bytes:
        return (plain if chance.random() < 0.35 else own)(content, chance)

    return change


def json_changed(content: bytes, chance: random.Random) -> bytes:
    """A trace with a value, a key or an event changed."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return as_bytes((b'"ph":', b"{", b"}", b"[", b"]", b","))(content, chance)
    for _ in range(chance.randint(1, 3)):
        _change_json(whole, chance)
    # three ways to write it, as a cut between events depends on spaces and the order of keys
    separators = chance.choice(((",", ":"), (", ", ": "), (",\n", ":")))
    text = json.dumps(whole, separators=separators, ensure_ascii=chance.random() < 0.7)
    return text.encode("utf-8", "surrogatepass")


def _change_json(whole: Any, chance: random.Random) -> None:
    """Walk down to some list or object, and change one thing in it."""
    here = whole
    while isinstance(here, list | dict) and here:
        key = chance.choice(list(here)) if isinstance(here, dict) else chance.randrange(len(here))
        inner = here[key]
        if isinstance(inner, list | dict) and inner and chance.random() < 0.8:
            here = inner
            continue
        match chance.randrange(5):
            case 0 | 1:
                here[key] = deepcopy(chance.choice(ODD))
            case 2:
                del here[key]
            case 3 if isinstance(here, dict):
                here[chance.choice((*here, "", "args", "ts", "dur", "cat"))] = deepcopy(inner)
            case _ if isinstance(here, list):
                here.insert(chance.randrange(len(here) + 1), deepcopy(inner))
            case _:
                here[key] = [inner, inner]
        return


def gzip_changed(own: Change) -> Change:
    """The content changed and packed again, or the packed bytes."""
    plain = as_bytes((b"\x1f\x8b\x08\0",))

    def change(content: bytes, chance: random.Random) -> bytes:
        if chance.random() < 0.3:
            return plain(content, chance)
        try:
            inner = gzip.decompress(content)
        except (OSError, EOFError, ValueError):
            return plain(content, chance)
        except Exception as error:  # zlib.error has no base of its own
            if type(error).__name__ != "error":
                raise
            return plain(content, chance)
        return gzip.compress(own(inner, chance), 1, mtime=0)

    return change


def csv_changed(content: bytes, chance: random.Random) -> bytes:
    """A table with cells or rows changed."""
    text = content.decode("utf-8", "replace").replace("\0", "")
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        return as_bytes((b'"', b",", b"\n"))(content, chance)
    for _ in range(chance.randint(1, 4)):
        if not rows:
            break
        row = chance.choice(rows)
        match chance.randrange(6):
            case 0 | 1 | 2 if row:
                row[chance.randrange(len(row))] = _odd_cell(chance)
            case 3:
                rows.insert(chance.randrange(len(rows) + 1), list(row))
            case 4:
                rows.remove(row)
            case _ if row:
                row.pop(chance.randrange(len(row)))
    out = io.StringIO()
    csv.writer(out, quoting=chance.choice((csv.QUOTE_ALL, csv.QUOTE_ALL, csv.QUOTE_MINIMAL))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _odd_cell(chance: random.Random) -> str:
    more = (
        "n/a",
        "(!) n/a",
        "1,234.5",
        "1.234,5",
        "5 (1; 2; 3)",
        "(32, 1, 1)",
        "Kernel Name",
        "ID",
        "%",
        "byte/s",
        "1e400",
    )
    return chance.choice((*(str(each) for each in ODD), *more))


def sqlite_changed(content: bytes, chance: random.Random) -> bytes:
    """An export with a value, a row, a column or a table changed, written by SQLite."""
    # damaged, or nothing is left to change; SQLite says so with MemoryError too
    bad = suppress(sqlite3.Error, UnicodeError, OverflowError, IndexError, MemoryError)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database, bad:
        database.deserialize(content)
        database.execute("PRAGMA journal_mode = OFF")
        for _ in range(chance.randint(1, 3)):
            _change_table(database, chance)
        return database.serialize() or content
    return as_bytes(())(content, chance)


def _change_table(database: sqlite3.Connection, chance: random.Random) -> None:
    made = "SELECT name FROM sqlite_master WHERE type = 'table' AND typeof(name) = 'text' ORDER BY name"
    names = [name for (name,) in database.execute(made)]
    # enumerations are many and say little
    table = chance.choice([name for name in names if not name.startswith("ENUM")] if chance.random() < 0.8 else names)
    columns = [row[1] for row in database.execute(f'PRAGMA table_xinfo("{table}")')]
    column = chance.choice(columns)
    with suppress(sqlite3.Error, UnicodeError, OverflowError):
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                some = "1" if chance.random() < 0.2 else f"rowid % {chance.randint(1, 5)} = 0"
                odd = chance.choice(_ODD_SQL) if chance.random() < 0.7 else chance.randrange(-3, 40)
                database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {some}', (odd,))
            case 4:
                database.execute(f'DELETE FROM "{table}" WHERE rowid % {chance.randint(1, 3)} = 0')
            case 5:
                database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT 3')
            case 6:
                database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
            case 7:
                database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{chance.choice(columns)}_"')
            case 8:
                database.execute(f'DROP TABLE "{table}"')
            case _:
                _change_schema(database, table, chance)


def _change_schema(database: sqlite3.Connection, table: str, chance: random.Random) -> None:
    """What SQLite itself never writes into its schema."""
    database.execute("PRAGMA writable_schema = ON")
    what = chance.choice(("rootpage", "rootpage", "sql", "type", "name", "tbl_name"))
    odd = chance.choice((*_ODD_SQL, 2, 3, 5, "2", "5", "table", "CREATE TABLE x(a)", f'CREATE TABLE "{table}"(a INT)'))
    database.execute(f"UPDATE sqlite_master SET {what} = ? WHERE name = ?", (odd, table))


def blocks_changed(content: bytes, chance: random.Random) -> bytes:
    """A report of Nsight Compute with the lengths or fields of its blocks changed."""
    found = bytearray(content.ljust(8, b"\0"))
    at = chance.randrange(len(found) - 4)
    match chance.randrange(5):
        case 0:
            struct.pack_into("<I", found, at, chance.choice((0, 1, 2**31, 2**32 - 1, len(found), 40)))
        case 1:
            found[at:at] = bytes((chance.randrange(8) | chance.randrange(1, 9) << 3, chance.randrange(256)))
        case 2:
            found[at : at + 1] = b"\xff" * chance.choice((1, 4, 9, 10))
        case 3:
            found += found[4 : 4 + chance.randrange(len(found))]
        case _:
            del found[at : at + chance.randint(1, 40)]
    return bytes(found)


def yaml_changed(content: bytes, chance: random.Random) -> bytes:
    """A text of lines with keys and values, with some of them changed: YAML and TOML alike."""
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(chance.randint(1, 3)):
        if not lines:
            break
        at = chance.randrange(len(lines))
        mark = chance.choice((":", "="))
        key, _, value = lines[at].partition(mark)
        match chance.randrange(6):
            case 0 | 1:
                odd = json.dumps(chance.choice(ODD)) if chance.random() < 0.7 else chance.choice(_YAML)
                lines[at] = f"{key}{mark} {odd}"
            case 2:
                del lines[at]
            case 3:
                lines.insert(chance.randrange(len(lines) + 1), lines[at])
            case 4:
                lines[at] = " " * chance.randrange(9) + lines[at].lstrip()
            case _:
                lines[at] = f"{chance.choice(('', 'steps', 'a', '- ', '? ', '[x]'))}{mark}{value}"
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


_YAML: Final = (
    "*a",
    "&a [*a]",
    "!!binary x",
    "{a: {b: [c]}}",
    "|",
    ">-",
    "[" * 40,
    "${x}",
    "{{ x }}",
    "<<",
    "2001-01-01",
    "~",
    "0x1g",
)
