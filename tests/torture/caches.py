"""What is kept for the next time: bits of it flipped, files of it cut, two calls at once that use and write it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hostile.forked import Server
from torture.bench import Bench, Tried, Verdict, tried
from torture.captures import an_export

_ALWAYS = {"GPULEDGER_CACHE": "always"}


def flipped(bench: Bench) -> Iterator[Verdict]:
    """A cache that is damaged is one that is not there."""
    while True:
        path = an_export(bench.folder, bench.chance)
        bench.empty("cached")
        first = _report(bench, path)
        kept = sorted(file for file in (bench.folder / "cached" / "cache").rglob("*") if file.is_file())
        if not kept:
            continue
        file = bench.chance.choice(kept)
        _damage(bench, file)
        second = _report(bench, path)
        verdict = second.verdict if second.verdict != "read" else "equal" if _same(first, second) else "wrong"
        yield Verdict(f"{path.name}: {file.suffix or file.name} in the cache damaged", verdict, second.said, file)


def two_at_once(bench: Bench) -> Iterator[Verdict]:
    """Two calls that find no cache, and write the same one and the same output."""
    other = Server()
    while True:
        path = an_export(bench.folder, bench.chance)
        place, written = bench.empty("shared"), bench.empty("written") / "a.json"
        words = ("report", path, "--format=json", "-o", written, "--force")
        shared = _ALWAYS | {"XDG_CACHE_HOME": str(place)}
        with ThreadPoolExecutor(2) as pool:
            calls = [
                pool.submit(server.run, *words, folder=bench.folder / f"at-once-{number}", environment=shared)
                for number, server in enumerate((bench.server, other))
            ]
            both = [tried(call.result()) for call in calls]
        alone = bench.call("report", path, "--format=json", "-o", bench.empty("alone") / "a.json")
        content = (bench.folder / "alone" / "a.json").read_bytes() if alone.verdict == "read" else b""
        if alone.verdict != "read":
            verdict = alone.verdict
        elif any(ran.verdict != "read" for ran in both):
            verdict = next(ran.verdict for ran in both if ran.verdict != "read")
            verdict = "wrong" if verdict == "refused" else verdict
        else:
            verdict = "equal" if written.read_bytes() == content else "wrong"
        yield Verdict(f"{path.name}: two reports at once", verdict, both[0].said + both[1].said)


def _report(bench: Bench, path: Path) -> Tried:
    return bench.call("report", path, "--format=json", place="cached", cache=True, environment=_ALWAYS)


def _same(first: Tried, second: Tried) -> bool:
    return bool(first.document == second.document)


def _damage(bench: Bench, file: Path) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(bench.chance.choice((1, 1, 8))):
        if content:
            content[bench.chance.randrange(len(content))] ^= 1 << bench.chance.randrange(8)
    if bench.chance.random() < 0.2:
        del content[bench.chance.randrange(len(content) + 1) :]
    file.chmod(0o600)
    file.write_bytes(content)
