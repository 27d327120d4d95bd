"""The compiled reader of pickles under the sanitizers of addresses and undefined behaviour, on damaged pickles.

A taste of what `make -C fuzz pickle` does for hours.
"""

from __future__ import annotations

import pickle
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import ROOT
from support.profiles.memory_snapshots import Program

FUZZ = ROOT / "fuzz"
pytestmark = pytest.mark.skipif(not FUZZ.is_dir(), reason="the fuzzers are not part of what was unpacked")


def _damaged(chance: random.Random) -> bytes:
    program = Program()
    for _ in range(chance.randrange(1, 8)):
        program.alloc(chance.randrange(1, 1 << 22), "f (a.py:1)")
    whole = bytearray(pickle.dumps(program.snapshot(), chance.choice((2, 4, 5))))
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(whole))
        whole[place] = chance.choice((*b".(0123ehjlqrstu}]aXKMJ", 0x80, 0x85, 0x8A, 0x8C, 0x94, chance.randrange(256)))
    return bytes(whole[: chance.choice((len(whole), chance.randrange(len(whole))))])


def test_damaged_pickles_break_nothing(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no compiler")
    source = ROOT / "src/gpuledger/trace/native/pickle_tree.c"
    options = ("-g", "-O1", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{FUZZ}")
    sources = (FUZZ / "pickle_tree_fuzz.c", FUZZ / "replay.c", source)
    target = tmp_path / "replay"
    built = subprocess.run([compiler, *options, *sources, "-o", target], capture_output=True, check=False)
    if built.returncode and b"san" in built.stderr:
        pytest.skip("the compiler has no such sanitizer")
    assert built.returncode == 0, built.stderr.decode()
    chance = random.Random(7)
    files = [tmp_path / f"{number}.pickle" for number in range(300)]
    for file in files:
        file.write_bytes(_damaged(chance))
    done = subprocess.run(
        [target, *files], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"}, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
