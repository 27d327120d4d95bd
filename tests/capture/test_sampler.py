"""The sampler inside a program: lines of all threads and forked children, two times per look, nothing of it broken."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gpuledger.capture import python_samples
from gpuledger.capture.output_files import CapturePlace, samples_of

PROGRAM = """
import ctypes, os, threading, time, warnings
warnings.simplefilter("error")

def hold():
    ctypes.PyDLL(None).usleep(150_000)

def wait():
    time.sleep(0.35)  # it would take the lock when hold ends

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

other = threading.Thread(target=wait, name="other")
other.start()
spin(0.08)
hold()
other.join()
child = os.fork()
if child == 0:
    spin(0.08)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


class Section:
    """What one process wrote."""

    def __init__(self, text: str) -> None:
        self.frames: list[str] = []
        self.stacks: list[list[int]] = []
        self.names: dict[str, str] = {}
        self.seen: Counter[tuple[str, str]] = Counter()
        self.late_ns: dict[str, int] = {}
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "H":
                self.header = json.loads(rest)
            elif kind == "F":
                number, _, function, file = json.loads(rest)
                self.frames.append(f"{function}:{number}" if file.endswith("program.py") else function)
            elif kind == "S":
                self.stacks.append([int(frame) for frame in rest.split()])
            elif kind == "T":
                self.names[rest.split(" ", 1)[0]] = json.loads(rest.split(" ", 1)[1])
            elif kind == "s":
                self._look(rest.split())

    def _look(self, words: list[str]) -> None:
        for word in words[3:]:
            thread, stack = word.split(":")
            for frame in self.stacks[int(stack)]:
                # one that is only starting is not in Python's list yet, and has -1
                self.seen[self.names.get(thread, "-1"), self.frames[frame]] += 1
            self.late_ns[self.frames[self.stacks[int(stack)][0]]] = int(words[2])


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> list[Section]:
    folder = tmp_path_factory.mktemp("sampled")
    (folder / "program.py").write_text(PROGRAM)
    place = CapturePlace(folder, "run", ".json.gz")
    environment = os.environ | python_samples.prepare_sampling(place)
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    gathered = python_samples.gather_samples(place)
    assert gathered == folder / "run.samples.gz" == samples_of(folder / "run.json.gz")[0]
    assert not python_samples.samples_folder(place).exists()
    assert gathered.stat().st_mode & 0o777 == 0o600
    parts = gzip.decompress(gathered.read_bytes()).decode().split("H {")[1:]
    return [Section(f"H {{{part}") for part in parts]


def test_lines_of_all_threads_are_seen(sections: list[Section]) -> None:
    parent = next(section for section in sections if ("other", "wait:9") in section.seen)
    assert parent.seen["MainThread", "spin:13"] + parent.seen["MainThread", "spin:14"] >= 1
    assert parent.seen["MainThread", "<module>:18"] >= 1
    assert parent.header["python"].startswith("3.")


def test_a_call_that_keeps_the_lock_is_seen_when_it_ends_and_was_due_before(sections: list[Section]) -> None:
    parent = next(section for section in sections if ("other", "wait:9") in section.seen)
    assert parent.late_ns["hold:6"] > 50_000_000


def test_a_forked_child_that_leaves_at_once_has_its_own_file(sections: list[Section]) -> None:
    first, second = sorted(sections, key=lambda section: ("MainThread", "<module>:23") in section.seen)
    assert second.header["parent"] == first.header["pid"]
    assert second.seen["MainThread", "<module>:23"] >= 1


ALONE = """
import hashlib, sys, threading, time
data = bytes(100_000)

def compute():
    return [value % 255 for value in range(30_000)]

def steps(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        compute()
        hashlib.md5(data)  # gives up the lock

threading.Thread(target=lambda: [time.sleep(0.002) for _ in range(1000)], daemon=True).start()  # wants no lock
steps(0.3)
asked = sys.getswitchinterval()
threading.Thread(target=steps, args=(0.2,)).start()
steps(0.2)
print(asked < 0.001, sys.getswitchinterval())
"""


def test_one_thread_alone_is_asked_for_the_lock_at_once_and_two_share_it_as_before(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ALONE)
    place = CapturePlace(tmp_path, "run", ".json.gz")
    environment = os.environ | python_samples.prepare_sampling(place)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"True 0.005\n"
    gathered = python_samples.gather_samples(place)
    assert gathered is not None
    text = gzip.decompress(gathered.read_bytes()).decode()
    alone = Section(text[: text.index("I 5000000")])
    computing = sum(count for (_, frame), count in alone.seen.items() if frame.endswith(":6") and "compute" in frame)
    assert computing > alone.seen["MainThread", "steps:12"]


@pytest.mark.parametrize("options", [["-S"], ["-I"], ["-E"]])
def test_a_python_that_is_not_to_be_touched_is_not(tmp_path: Path, options: list[str]) -> None:
    place = CapturePlace(tmp_path, "run", ".json.gz")
    environment = os.environ | python_samples.prepare_sampling(place)
    subprocess.run([sys.executable, *options, "-c", ""], env=environment, check=True)
    assert python_samples.gather_samples(place) is None


def test_a_sitecustomize_of_the_programs_own_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.is_there = True\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environment = os.environ | python_samples.prepare_sampling(CapturePlace(tmp_path, "run", ".json.gz"))
    asked = (
        "import sys; own = sys.modules['sitecustomize'].__file__ == sys.argv[1]; "
        "print(is_there, own, any('injected' in path for path in sys.path))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, tmp_path / "sitecustomize.py"], env=environment, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"True True False\n", b"")


def test_why_a_program_is_not_sampled_is_said() -> None:
    assert python_samples.why_not_sampled({}) is None
    assert "--env sets PYTHONPATH" in (python_samples.why_not_sampled({"PYTHONPATH": "x"}) or "")
