"""Fuzz one of the Python readers.

    python fuzz/readers.py TARGET RUNS [--found FOLDER] [--seed N] [--engine own|atheris]

TARGET is a key of `targets.TARGETS`, or `all`. With atheris (from PyPI) new inputs are kept where they reach new code
in gpuledger; without it, changes are made to the seeds and to each other's results, unguided. Either way an input must
give a result or a GpuledgerError, within 5 s of processor time and without the process growing past 1 GiB. What does
not is a finding: one input per place is made as small as it gets and kept. The last line says how many runs there were,
how many of them gave a result, and how many findings. TMPDIR=/dev/shm keeps the inputs off the disk.
"""
# ruff: noqa: T201, S311 (a program; chance that can be repeated is what it wants)

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import importlib.util
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

SECONDS: Final = 5.0
"""Of the processor's time: a machine that others use as well makes nothing slow that is not."""
_WAITED: Final = 600.0
BYTES: Final = 1 << 30
_KEPT: Final = 400
_TRIES: Final = 400
_TELL: Final = 20_000
_SHORT: Final = 600
_GUIDES: Final = ("gpuledger.read", "gpuledger.config", "gpuledger.runbook")
"""Where new code is a reason to keep an input. To watch all of the package takes most of the time."""


class TooSlow(BaseException):
    """Raised in the middle of a run that takes too long; no `except Exception` hides it."""


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow


class Fuzzed:
    """One target as it is fuzzed: counts what happens, keeps what must not."""

    def __init__(self, name: str, found: Path) -> None:
        from targets import TARGETS

        from gpuledger.errors import GpuledgerError

        self.name, self.target = name, TARGETS[name]
        self._refusal = GpuledgerError
        self._found, self._folder = found, Path(tempfile.mkdtemp(prefix="gpuledger-fuzz-"))
        self.runs = self.results = 0
        self.places: dict[str, int] = {}
        signal.signal(signal.SIGPROF, _too_slow)
        signal.signal(signal.SIGALRM, _too_slow)
        _bound_memory()

    def run(self, content: bytes) -> bool:
        """Read one input; whether it gave a result. What must not happen is kept."""
        self.runs += 1
        place = self._place(content)
        if place is None:
            self.results += 1
            return True
        if place and not self._is_known(place):
            self._keep(self._smaller(content, place), place)
        return False

    def _is_known(self, place: str) -> bool:
        self.places[place] = self.places.get(place, 0) + 1
        return self.places[place] > 1

    def _place(self, content: bytes) -> str | None:
        """None for a result, empty for a refusal, else what happened and where."""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, _WAITED)
        try:
            self.target.read(content, self._folder)
        except self._refusal as refusal:
            return "" if refusal.claim else "a refusal that says nothing"
        except (Exception, RecursionError, MemoryError, TooSlow) as error:
            return _where(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        grown = _peak_bytes()
        return f"grew to {grown >> 20} MiB" if grown > BYTES and not self._is_known("grown") else None

    def _smaller(self, content: bytes, place: str) -> bytes:
        """The same finding with fewer bytes: pieces are left out as long as it stays."""
        size, tries = max(len(content) // 2, 1), 0
        while size and tries < _TRIES and "TooSlow" not in place:
            at = 0
            while at < len(content) and tries < _TRIES:
                tries += 1
                shorter = content[:at] + content[at + size :]
                if self._place(shorter) == place:
                    content = shorter
                else:
                    at += size
            size //= 2
        return content

    def _keep(self, content: bytes, place: str) -> None:
        self._found.mkdir(parents=True, exist_ok=True)
        name = f"{self.name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        (self._found / name).write_bytes(content)
        (self._found / f"{name}.txt").write_text(f"{place}\n")
        print(f"finding {name}: {place}", flush=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _bound_memory() -> None:
    """No more than 1 GiB beside what the process has already, so that a finding is not the end of the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, resource.RLIM_INFINITY))


def _peak_bytes() -> int:
    """The most memory that this process had; what `getrusage` says begins with what its parent had."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def _where(error: BaseException) -> str:
    """What was raised, and the last line of gpuledger that it went through."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/gpuledger/" in frame.filename]
    last = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "outside"
    kind = type(error).__name__
    if kind in ("TooSlow", "RecursionError", "MemoryError"):  # their message says nothing, or never the same
        return f"{kind} at {last}"
    message = re.sub(r"\d+", "N", str(error))[:100]
    return f"{kind} at {last}: {message}"


def by_chance(fuzzed: Fuzzed, runs: int, seed: int, _: Path) -> None:
    """Seeds, changed again and again; a changed input that still gives a result may be changed further."""
    chance = random.Random(seed)
    seeds = [content for content in fuzzed.target.seeds() if fuzzed.run(content)]
    if not seeds:
        raise SystemExit(f"{fuzzed.name}: no seed gives a result")
    kept = list(seeds)
    while fuzzed.runs < runs:
        content = fuzzed.target.change(chance.choice(seeds if chance.random() < 0.3 else kept), chance)
        if fuzzed.run(content) and len(content) < 4 * len(max(seeds, key=len)):
            if len(kept) < _KEPT:
                kept.append(content)
            else:
                kept[chance.randrange(len(seeds), _KEPT)] = content
        if fuzzed.runs % 2000 == 0:
            gc.collect()


def by_coverage(fuzzed: Fuzzed, runs: int, seed: int, work: Path) -> None:
    """Guided by atheris. It ends the process, so this never returns."""
    atheris: Any = importlib.import_module("atheris")
    corpus = work / f"corpus-{fuzzed.name}"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = fuzzed.target.seeds()
    most_bytes = max(3 * max(map(len, seeds)) // 2, _SHORT)
    for content in seeds:
        (corpus / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
    words = work / f"{fuzzed.name}.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in fuzzed.target.words))

    def change(content: bytes, most: int, chance_seed: int) -> bytes:
        chance = random.Random(chance_seed)
        if chance.random() < 0.25:
            return bytes(atheris.Mutate(content, most))
        # most of what is kept for its new code is refused: some changes are made to what is not
        begun = chance.choice(seeds) if chance.random() < 0.3 else content
        return fuzzed.target.change(begun, chance)[:most]

    def one(content: bytes) -> None:
        fuzzed.run(content)
        if fuzzed.runs % _TELL == 0:
            print(f"{fuzzed.name}: {fuzzed.runs:,} in {time.monotonic() - began:,.0f} s", file=sys.stderr, flush=True)
        if fuzzed.runs == runs:
            _finish(fuzzed, began)

    began = time.monotonic()
    flags = [f"-runs={runs}", f"-seed={seed or 1}", "-rss_limit_mb=1500", f"-max_len={most_bytes}"]
    flags += [f"-artifact_prefix={work}/", "-verbosity=0"]
    flags += [f"-dict={words}"] if fuzzed.target.words else []
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one, custom_mutator=change)
    atheris.Fuzz()


def _unwatched() -> list[str]:
    """The modules that guide nothing, found by their files: to import them would be too early."""
    spec = importlib.util.find_spec("gpuledger")
    root = Path(spec.origin).parent if spec and spec.origin else Path()
    names = (".".join(("gpuledger", *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py"))
    return [name.removesuffix(".__init__") for name in names if not name.startswith(_GUIDES)]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _finish(fuzzed: Fuzzed, began: float) -> None:
    took = time.monotonic() - began
    print(
        f"{fuzzed.name}: {fuzzed.runs:,} runs, {fuzzed.results:,} with a result, in {took:,.0f} s"
        f" ({time.process_time():,.0f} s of processor time);"
        f" {len(fuzzed.places)} findings",
        flush=True,
    )
    for place, times in sorted(fuzzed.places.items()):
        print(f"  {times:,} x {place}")
    fuzzed.close()


ENGINES: Final[dict[str, Callable[[Fuzzed, int, int, Path], None]]] = {"own": by_chance, "atheris": by_coverage}


def main() -> None:
    """Parse, fuzz, say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("runs", type=int)
    parser.add_argument("--found", type=Path, default=Path(tempfile.gettempdir()) / "gpuledger-fuzz")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="own")
    asked = parser.parse_args()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)  # a run that is stopped in the middle leaves its file open
    if asked.engine == "atheris":
        atheris: Any = importlib.import_module("atheris")
        with atheris.instrument_imports(include=["gpuledger"], exclude=_unwatched()):
            import targets
    else:
        import targets
    gc.freeze()  # what was imported stays; to look through it again and again takes time
    for name in targets.TARGETS if asked.target == "all" else (asked.target,):
        fuzzed, began = Fuzzed(name, asked.found), time.monotonic()
        ENGINES[asked.engine](fuzzed, asked.runs, asked.seed, asked.found)
        _finish(fuzzed, began)


if __name__ == "__main__":
    main()
