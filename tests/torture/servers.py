"""Calls that try to stop the server of agents: patterns, queries, sizes, calls taken back, broken lines, closed pipes.

Whatever one was, the next call is answered soon; and the server and all that it started end with their client. What
the longest of its threads waited for a processor that others had does not count: it says how busy the machine is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.command import ROOT
from torture.bench import Bench, Verdict
from torture.captures import an_export

SOON_S: Final = 1.0
"""The next call is answered within."""

LINE_S: Final = 0.001
"""And so much later for each line that stands before it."""

_ENDS_S: Final = 10.0
_LIMITS: Final = ("--limit=read-seconds=5", "--limit=query-seconds=1", "--limit=query-memory-bytes=256MB")


@dataclass(frozen=True, slots=True)
class Attack:
    """A call, taken back soon if so asked; lines that are no call; or a signal to the process that answers."""

    name: str
    tool: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    is_taken_back: bool = False
    line: bytes = b""
    signal: int = 0

    @property
    def soon_s(self) -> float:
        """How long the next call may take."""
        return SOON_S + LINE_S * self.line.count(b"\n")


_PATTERNS: Final = (
    r"(.*)*\x00",
    r"(\w+\s?)*\x00",
    r"(a|a|[a-z])*\x00",
    r"((.+)+)+\x00",
    r"(?=(.*)*\x00)",
    r"(?i)([a-z_:]*)*\x00",
    r".*.*.*.*.*.*.*.*.*\x00",
    r"(.?){60}.{60}\x00",
    r"(.*?)(\1)*\1\1\x00",
    "(" * 90,
    "(?:" * 60 + "a" + "){1,9}" * 20,
    "a{65535}" * 20,
)
_QUERIES: Final = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b",
    "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t",
    "SELECT list(a.range) FROM range(100000000000) a",
    "SELECT range(1000000000)",
    "WITH RECURSIVE t AS (SELECT 'xxxx' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "SELECT levenshtein(s, s || 'x') FROM (SELECT string_agg(name, '') AS s FROM kernels, range(300))",
    "SELECT damerau_levenshtein(s, reverse(s)) FROM (SELECT string_agg(name, '') AS s FROM kernels, range(300))",
    "SELECT jaro_winkler_similarity(s, reverse(s)) FROM (SELECT string_agg(name, '') AS s FROM kernels, range(300))",
    "SELECT editdist3(s, s || 'x') FROM (SELECT string_agg(name, '') AS s FROM kernels, range(300))",
    "SELECT list_sort(list_transform(range(100000000), lambda x: x % 7))",
    "SELECT regexp_replace(s, '(x*)*y', 'z', 'g') FROM (SELECT string_agg(name, '') AS s FROM kernels, range(300))",
    "SELECT factorial(30000)",
    "SELECT array_to_string(range(100000000), ',')",
    "SELECT sum(a.start_ns) FROM kernels a, kernels b, kernels c, kernels d",
    "SELECT " + "(" * 4000 + "1" + ")" * 4000,
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT 1; " * 2000,
    "SELECT now()",
)
_TAKEN_BACK: Final = 12
"""So many of the calls are also made and taken back."""

_LINES: Final = (
    b"no JSON\n",
    b"\xff\xfe\x00\n",
    b"{}\n",
    b"[" * 100_000 + b"\n",
    b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99999}}\n',
    b'{"jsonrpc":"2.0","id":77777,"method":"tools/call","params":{"name":3}}\n',
    b"\n" * 1000,
)


def attacks() -> Iterator[Attack]:
    """All of them: fifty and more."""
    calls = [
        *(Attack(f"step_kernel {text[:20]}", "open_profile", (("step_kernel", text[:200]),)) for text in _PATTERNS),
        *(Attack(f"range {text[:20]}", "open_profile", (("range", text[:200]),)) for text in _PATTERNS[:4]),
        *(Attack(f"query {sql[:40]}", "query", (("sql", sql),)) for sql in _QUERIES),
    ]
    yield from calls
    yield from (
        Attack(f"{call.name}, taken back", call.tool, call.arguments, is_taken_back=True)
        for call in calls[:_TAKEN_BACK]
    )
    yield Attack("a path of a megabyte", "open_profile", (("path", "x/" * 500_000),))
    yield Attack("a query of ten megabytes", "query", (("sql", "SELECT 1 -- " + "x" * 10_000_000),))
    yield Attack("a page that is nowhere", "steps", (("offset", 10**18), ("limit", 200)))
    yield from (Attack(f"line {line[:30]!r}", line=line) for line in _LINES)
    yield Attack("the process that answers killed", signal=signal.SIGKILL)
    yield Attack("and killed again", signal=signal.SIGKILL)
    yield Attack("stopped, in a call", "report", signal=signal.SIGSTOP)


def can_try() -> bool:
    """Whether what a server needs is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("mcp", "duckdb", "jsonschema"))


class RunningServer:
    """`gpuledger mcp` on a folder, spoken to line by line."""

    def __init__(self, folder: Path, profile: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "GPULEDGER_CACHE": "0"}
        words = [sys.executable, "-m", "gpuledger", "mcp", str(folder), *_LIMITS]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._number = 0
        self._profile = profile
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        self.answer(self.ask("initialize", about), 60)
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        opened = self.call("open_profile", 60, path=profile)
        assert "structuredContent" in opened, opened
        self.handle: str = opened["structuredContent"]["handle"]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.write(json.dumps(asked).encode() + b"\n")
        return self._number

    def answer(self, number: int, seconds: float) -> dict[str, Any]:
        """What is answered to a request; `queue.Empty` where nothing is in time."""
        ends = time.monotonic() + seconds
        while True:
            said = self._said.get(timeout=max(ends - time.monotonic(), 0.001))
            if said is None:
                raise EOFError
            if said.get("id") == number:
                return said

    def call(self, tool: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.answer(self.ask("tools/call", {"name": tool, "arguments": arguments}), seconds)[
            "result"
        ]
        return result

    def suffer(self, attack: Attack) -> float:
        """Make the attack, and time the next call in seconds, less what the server waited for a processor."""
        if attack.signal:
            os.kill(worker := self.worker(), attack.signal)
            while attack.signal == signal.SIGKILL and Path(f"/proc/{worker}").exists():  # with all its threads
                time.sleep(0.001)
        if attack.tool:
            given = {"path": self._profile} if attack.tool == "open_profile" else {"handle": self.handle}
            number = self.ask("tools/call", {"name": attack.tool, "arguments": given | dict(attack.arguments)})
            if attack.is_taken_back:
                time.sleep(0.2)
                told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
                self.write(json.dumps(told).encode() + b"\n")
            else:
                self.answer(number, 30)
        elif attack.line:
            self.write(attack.line)
        began, before = time.monotonic(), self._waited_ns()
        answer = self.call("report", 20, handle=self.handle)
        assert "structuredContent" in answer, answer
        took_s = time.monotonic() - began
        waits = (wait - before.get(thread, 0) for thread, wait in self._waited_ns().items())
        return took_s - max(waits, default=0) / 1e9

    def _waited_ns(self) -> dict[Path, int]:
        """How long each thread of the server's was ready to run while others ran, so far."""
        waited = {}
        for member in self.family():
            for thread in Path(f"/proc/{member}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):  # it has ended
                    waited[thread] = int(thread.read_text().split()[1])
        return waited

    def hang(self) -> None:
        """Begin a call that takes long."""
        given = {"path": self._profile, "step_kernel": _PATTERNS[0]}
        self.ask("tools/call", {"name": "open_profile", "arguments": given})
        time.sleep(0.3)

    def family(self) -> list[int]:
        """The server and all that it started, by their numbers."""
        parents = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, IndexError):  # it has ended
                    continue
        family = [self.process.pid]
        for member in family:
            family += [child for child, parent in parents.items() if parent == member]
        return family

    def worker(self) -> int:
        """The process that answers: the last but for its spare, which is a child of it."""
        return self.family()[-2]

    def ends(self, how: str) -> bool:
        """Whether the server and all that it started end, in the middle of a call, when its client goes so."""
        family = self.family()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if how == "killed":
            self.process.kill()
        else:
            self.process.stdin.close()
        ends = time.monotonic() + _ENDS_S
        while any(map(_is_alive, family)) and time.monotonic() < ends:
            self.process.poll()
            time.sleep(0.02)
        left = [member for member in family if _is_alive(member)]
        for member in left:
            os.kill(member, signal.SIGKILL)
        self.process.wait()
        self._listener.join()
        self.process.stdin.close()
        self.process.stdout.close()
        return not left


def _is_alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cases(bench: Bench) -> Iterator[Verdict]:
    """All attacks on a server, in an order that chance gives; then its client goes, one way or another; and again."""
    while True:
        folder = bench.empty("served")
        profile = an_export(folder, bench.chance)
        yield from _attacked(RunningServer(folder, str(profile.relative_to(folder))), profile, bench)


def _attacked(server: RunningServer, profile: Path, bench: Bench) -> Iterator[Verdict]:
    tried = list(attacks())
    bench.chance.shuffle(tried)
    for attack in tried:
        try:
            took_s = server.suffer(attack)
        except (queue.Empty, EOFError, OSError) as error:
            yield Verdict(attack.name, "hang", f"{type(error).__name__}: the server no longer answers", profile)
            server.process.kill()
            return
        verdict = "equal" if took_s < attack.soon_s else "hang"
        yield Verdict(attack.name, verdict, f"the next call took {took_s:.1f} s", profile)
    how = bench.chance.choice(("closed", "killed"))
    server.hang()
    yield Verdict(f"its client {how}", "equal" if server.ends(how) else "hang", "it goes on", profile)
