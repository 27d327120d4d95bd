"""The programs of harmless.md do the same with their stacks sampled: output, exit code, files, what a peer receives."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from support.command import ROOT
from support.thorough import some

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WATCHED: Final = (sys.executable, str(ROOT / "captures" / "watched.py"), "{scratch}/run")
HERE: Final = {"root": os.geteuid() == 0, "bash": shutil.which("bash") is not None}
_SECTION: Final = re.compile(r"^## (?P<name>\S+)\n(?P<prose>.*?)^```python\n(?P<text>.*?)^```$", re.M | re.S)
_FIELD: Final = re.compile(r"^(run|needs|python): (.*)$", re.M)


@dataclass
class Program:
    """One section of harmless.md."""

    name: str
    text: str
    fields: dict[str, str] = field(default_factory=dict)

    def skip_where_it_cannot_run(self) -> None:
        for need in re.split(r"[,\s]+", self.fields.get("needs", "bash")):
            if need not in HERE:
                pytest.importorskip(need)
            elif not HERE[need]:
                pytest.skip(f"needs {need}")
        least = re.search(r"\d+$", self.fields.get("python", "3.0"))
        if least is not None and sys.version_info[1] < int(least[0]):
            pytest.skip(f"needs Python {self.fields['python']}")

    def outcome(self, folder: Path, wrapper: tuple[str, ...] = ()) -> tuple[object, ...]:
        """Exit code, output, errors and files; the folder has the same path whatever runs in it."""
        places = {name: folder / name for name in ("work", "scratch", "temporary")}
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(mode=0o755)
        (places["work"] / "program.py").write_text(self.text, encoding="utf-8", errors="surrogatepass")
        command = shlex.split(self.fields.get("run", "{python} program.py"))
        done = subprocess.run(
            [
                word.replace("{scratch}", str(places["scratch"])).replace("{python}", sys.executable)
                for word in (*wrapper, *command)
            ],
            cwd=places["work"],
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": os.environ.get("HOME", "/"),
                "LANG": "C.UTF-8",
                "TMPDIR": str(places["temporary"]),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            timeout=60,
            check=False,
        )
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return code, done.stdout, done.stderr, _files(places["work"])


def _files(folder: Path) -> dict[str, tuple[str, bytes]]:
    found = {}
    for path in folder.rglob("*"):
        mode, content = path.lstat().st_mode, b""
        if stat.S_ISLNK(mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(mode) and path.suffix != ".pyc":  # that holds its source's time
            content = path.read_bytes()
        found[ascii(str(path.relative_to(folder)))] = stat.filemode(mode), content
    return found


def _programs() -> list[Program]:
    text = Path(__file__).with_name("harmless.md").read_text(encoding="utf-8")
    found = [
        Program(match["name"], match["text"], dict(_FIELD.findall(match["prose"]))) for match in _SECTION.finditer(text)
    ]
    assert len(found) == text.count("\n## ")
    return found


@pytest.mark.parametrize("program", some(_programs(), 9), ids=lambda program: program.name)
def test_a_sampled_program_does_the_same(program: Program, tmp_path_factory: pytest.TempPathFactory) -> None:
    program.skip_where_it_cannot_run()
    folder = tmp_path_factory.mktemp("harmless")
    for place in (folder, folder.parent):
        place.chmod(0o755)  # a program that gives up root still reaches its folder
    plain = program.outcome(folder)
    assert program.outcome(folder, WATCHED) == plain
