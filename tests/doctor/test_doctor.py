"""`doctor`: each cause is named with its fix, nothing else is blamed for it, and no tool can hang or spoil it."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.doctor import check as checking
from gpuledger.doctor.check import DoctorCheck, DoctorVerdict, ExaminedMachine, ProfileWriter
from gpuledger.doctor.checks import CHECKS
from gpuledger.errors import ToolFailed, UnreadableProfile
from gpuledger.present.safe_text import display_width as cell_len
from gpuledger.present.views.runs.doctor import DoctorAnswer, doctor_answer
from gpuledger.present.writers import write
from gpuledger.system.machine import InstalledGpu, Machine
from gpuledger.system.processes import Ran
from support.command import ROOT, gpuledger, gpuledger_process
from support.pages.schemas import schema_of

H200 = InstalledGpu(0, "NVIDIA H200", 150_754_820_096, 345, 1980, 700_000, is_split=False, compute_mode="default")
HEALTHY = Machine("570.133.20", "12.8", (H200,), "", "NVML")
NO_GPU = Machine(None, None, (), "the package nvidia-ml-py is not installed; nvidia-smi is not here either")
NSYS = Path("/opt/nvidia/nsight-systems/2025.3.2/bin/nsys")
NCU = Path("/usr/local/cuda/bin/ncu")
SMI = Path("/usr/bin/nvidia-smi")
TORCH = "gpuledger-torch version=2.9.0 cuda=12.8 gpus=1 kernels=20"
GB = 10**9

Answer = Ran | ToolFailed | Callable[[list[str]], Ran]


METRICS_HELP = """Possible --gpu-metrics-devices values are:
\t0: Hopper GH100 | NVIDIA H200 PCI[0000:00:06.0]
\tall: Select all supported GPUs
\tnone: Disable GPU Metrics [Default]
"""


def recorded(argv: list[str]) -> Ran:
    """What nsys does with the trial: a report, and the program's own output with slower launches."""
    [name] = [word.removeprefix("--output=") for word in argv if word.startswith("--output=")]
    Path(f"{name}.nsys-rep").touch()
    return Ran(0, f"gpuledger-trial launches=10240 ns_per_launch=3300\nGenerated:\n  {name}.nsys-rep\n")


def exported(argv: list[str]) -> Ran:
    if not Path(argv[-1]).exists():
        return Ran(1, f"File does not exist: {argv[-1]}\n")
    [name] = [word.removeprefix("--output=") for word in argv if word.startswith("--output=")]
    Path(name).touch()
    return Ran(0, "Exporting to SQLite file\n")


ANSWERS: Mapping[str, Answer] = {
    "nsys --version": Ran(0, "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0\n"),
    "nsys export": exported,
    "nsys profile": recorded,
    "nsys --gpu-metrics-devices=help": Ran(0, METRICS_HELP),
    "QdstrmImporter --version": Ran(0, "QdstrmImporter 2025.3.2\n"),
    "ncu --version": Ran(0, "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)\n"),
    "trial_torch.py": Ran(0, TORCH),
    "trial_launches.py": Ran(0, "gpuledger-trial launches=10240 ns_per_launch=2100\n"),
}

FILES: Mapping[str, str] = {
    "/proc/driver/nvidia/params": "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n",
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20\n",
    "/proc/self/status": "Name:\tpython\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n",
    "/proc/sys/kernel/perf_event_paranoid": "4\n",
}


PACKAGES = (
    *("pynvml", "ncu_report", "pyarrow", "vl_convert", "viztracer", "distributed", "mcp", "duckdb"),
    *("gpuledger_workloads", "torch"),
)
TOOLS: Mapping[str, Path] = {"nsys": NSYS, "ncu": NCU, "nvidia-smi": SMI}


@dataclass(eq=False)
class Room(ExaminedMachine):
    """A machine that is made up: all is well on it, but for what a test changes."""

    machine: Machine = HEALTHY
    tools: Mapping[str, Path] = field(default_factory=lambda: TOOLS)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    listings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = PACKAGES
    free: int | None = 500 * GB
    refused: str = ""
    kernels: int | Exception = 10240
    written: ProfileWriter | None = None
    is_quick: bool = False
    started: list[list[str]] = field(default_factory=list)
    scratches: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.count_kernels, is_quick=self.is_quick, written=self.written)
        self.folders = {"this folder": Path("/home/user/runs"), "the temporary folder": Path("/scratch")}
        self.python = Path("/usr/bin/python3")

    def find(self, name: str) -> Path | None:
        return self.tools.get(name)

    def importer(self, nsys: Path) -> Path | None:
        return nsys.parent / "QdstrmImporter"

    def start(self, argv: Sequence[str | Path], seconds: float) -> Ran:
        assert 0 < seconds <= 90, "everything that is started has a time limit"
        words = [str(word) for word in argv]
        self.started.append(words)
        name = Path(words[0]).name
        keys = [Path(word).name for word in words[1:] if word.endswith(".py")]
        key = keys[-1] if keys and name != "nsys" else " ".join([name, *words[1:2]])
        if words[-1].endswith("=help"):  # it only says what there is
            key = f"{name} {words[-1]}"
        answer = {**ANSWERS, **self.answers}[key]
        if isinstance(answer, ToolFailed):
            raise answer
        return answer if isinstance(answer, Ran) else answer(words)

    def read(self, path: str) -> str | None:
        return {**FILES, **self.files}.get(path)

    def listed(self, path: str) -> tuple[str, ...]:
        return self.listings.get(path, ())

    def package(self, name: str) -> str | None:
        return "1.0" if name in self.packages else None

    def free_bytes(self, folder: Path) -> int | None:
        return self.free

    def refusal(self, folder: Path) -> str:
        return self.refused

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        with super().scratch() as path:
            self.scratches.append(path)
            yield path

    def count_kernels(self, _: Path) -> int:
        if isinstance(self.kernels, Exception):
            raise self.kernels
        return self.kernels

    @cached_property
    def examined(self) -> DoctorAnswer:
        return doctor_answer(self)


def outcomes(found: DoctorAnswer) -> dict[str, DoctorCheck]:
    return {check.name: check for check in found.checks}


def test_on_a_healthy_machine_all_is_ok() -> None:
    room = Room(written=ProfileWriter("run.sqlite", "nsys", "2025.3.2.474"))
    found = room.examined
    assert {check.name: check.verdict for check in found.checks} == dict.fromkeys(CHECKS, DoctorVerdict.OK)
    assert found.ready
    assert found.records_with == ("nsys", "torch.profiler")
    assert found.tracing_ns_per_call == 1200.0
    trial = outcomes(found)["Trial capture"]
    assert trial.found == "10,240 kernels recorded, exported and read"
    assert trial.means == "tracing adds about 1.2 us per CUDA call (2.1 us plain, 3.3 us traced)"
    assert room.scratches
    assert not any(path.exists() for path in room.scratches), "temporary folders are removed"


def without(*names: str) -> dict[str, Path]:
    return {name: path for name, path in TOOLS.items() if name not in names}


FORBIDDEN = {"/proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n"}
DRIVER_GONE = {"/proc/driver/nvidia/version": None}


def gpu_with(setting: str) -> Machine:
    name, _, value = setting.partition("=")
    return replace(HEALTHY, gpus=(replace(H200, **{name: ast.literal_eval(value)}),))


WORDS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "no": lambda _: {"machine": NO_GPU},
    "reason": lambda text: {"machine": replace(HEALTHY, reason=text)},
    "gpu": lambda text: {"machine": gpu_with(text)},
    "tools": lambda text: {"tools": {name: path for name, path in TOOLS.items() if name in text.split()}},
    "without": lambda text: {"tools": without(text)},
    "folder": lambda text: {"listings": {text.split(": ")[0]: tuple(text.split(": ")[1].split())}},
    "set": lambda text: {"environment": dict([text.split("=")])},
    "free": lambda text: {"free": int(text)},
    "refused": lambda text: {"refused": text},
    "kernels": lambda text: {"kernels": int(text)},
    "unreadable": lambda text: {"kernels": UnreadableProfile(text)},
    "written": lambda text: {"written": ProfileWriter(*text.split())},
}


def answer_of(code: str | None, how: str, text: str) -> Answer:
    if how == "prints":
        return lambda argv: replace(recorded(argv), output=text)
    return ToolFailed(text) if code is None else Ran(int(code), f"{text}\n")


def room_of(words: str) -> Room:
    """The machine of a row of machines.md."""
    made, files, answers = dict[str, Any](), dict[str, str | None](), dict[str, Answer]()
    for part in words.replace("⏎", "\n").replace("\\|", "|").split(" ; "):
        kind, _, rest = part.partition(" ")
        if said := re.fullmatch(r"(.+?) (ends with|fails|prints)(?: (\d+))?: (.*)", part, re.DOTALL):
            answers[said[1]] = answer_of(said[3], said[2], said[4])
        elif kind == "file":
            [(name, colon, content)] = re.findall(r"^(\S+?)(:(?: (.*))?)?$", rest)
            files[name] = f"{content}\n" if colon else None
        else:
            made |= WORDS[kind](rest)
    return Room(**made, files=files, answers=answers)


ROWS = [
    re.split(r" (?<!\\)\| ", line[2:-2])
    for line in Path(__file__).with_name("machines.md").read_text().splitlines()
    if line.startswith("| ")
][1:]
CASES = {case: (words, *expected) for case, words, *expected in ROWS}


@cache
def room(case: str) -> Room:
    return room_of(CASES[case][0])


@pytest.mark.parametrize("case", CASES)
def test_a_cause_is_named_with_its_fix_and_nothing_else_is_blamed(case: str) -> None:
    _, name, verdict, found, fix, left_open = CASES[case]
    seen = outcomes(room(case).examined)
    outcome = seen[name]
    assert outcome.verdict == verdict
    assert found in outcome.found
    assert outcome.means or "read" in outcome.found
    assert fix in " ".join([outcome.fix or "", *outcome.commands])
    for sentence in filter(None, (outcome.found, outcome.means, outcome.fix)):
        assert not sentence.endswith(".")
    others = {key: each.verdict for key, each in seen.items() if key != name and each.verdict is not DoctorVerdict.OK}
    assert set(others.values()) <= {DoctorVerdict.NOT_CHECKED}
    if room(case).machine.gpus:
        assert sorted(others) == [name for name in left_open.split(", ") if name]


@pytest.mark.parametrize("case", CASES)
def test_the_exit_code_follows_from_the_checks_and_every_format_holds_them(case: str) -> None:
    found = room(case).examined
    problems = {check.name for check in found.checks if check.verdict is DoctorVerdict.PROBLEM}
    assert found.ready == (not problems and bool(found.records_with))
    has_nsys = bool(found.machine.gpus) and found.tools[0].version is not None
    assert ("nsys" in found.records_with) == (has_nsys and not {"nsys", "nsys export", "Trial capture"} & problems)
    content = json.loads(write(found.document(), "json"))
    schema_of("doctor").validate(content)
    assert (content["ready"], [each["name"] for each in content["checks"]]) == (found.ready, list(outcomes(found)))
    assert write(found.document(), "csv").count("\n") == len(found.checks) + 1
    text, markdown = write(found.document(), "text", width=None), write(found.document(), "md")
    for check in found.checks:
        assert f"| {check.name} |" in markdown
        assert [word for word in (check.name, *check.commands) if word not in text] == []
    for width in (60, 80, 132):
        lines = write(found.document(), "text", width=width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)


def test_nothing_to_record_with_is_a_problem() -> None:
    found = Room(tools=without("nsys"), packages=()).examined
    assert outcomes(found)["nsys"].verdict is DoctorVerdict.PROBLEM
    assert found.records_with == ()
    assert write(found.document(), "text", width=80).startswith("Profiles cannot be recorded here: 1 problem.\n")


def test_without_a_gpu_nothing_is_started_but_what_needs_none() -> None:
    room = Room(machine=NO_GPU, files=DRIVER_GONE, tools=without("nvidia-smi"))
    found = room.examined
    assert [check.name for check in found.checks if check.verdict is DoctorVerdict.PROBLEM] == ["GPU"]
    assert {Path(words[0]).name for words in room.started} <= {"nsys", "QdstrmImporter"}
    assert outcomes(found)["nsys export"].verdict is DoctorVerdict.OK, "reports from elsewhere can be opened"
    assert write(found.document(), "text", width=80).count("no GPU:") == 1, "said once"


def test_quick_starts_nothing_on_the_gpu() -> None:
    room = Room(is_quick=True, answers={"trial_torch.py": Ran(0, TORCH.replace("=20", "=None"))})
    found = room.examined
    trial = outcomes(found)["Trial capture"]
    assert (trial.verdict, trial.found) == (DoctorVerdict.NOT_CHECKED, "left out by --quick")
    assert found.ready
    assert found.tracing_ns_per_call is None
    asked = [words for words in room.started if not words[-1].endswith("=help")]
    assert not any("profile" in words or words[-1].endswith("trial_launches.py") for words in asked)
    [torch] = [words for words in room.started if any(word.endswith("trial_torch.py") for word in words)]
    assert torch[-1] == "--quick"


@pytest.mark.parametrize(
    ("capabilities", "driver", "allowed"),
    [
        (1 << 21, "470.57", True),
        (1 << 38, "570.133.20", True),
        (1 << 38, "550.54.15", False),  # CAP_PERFMON counts only since 565
        (1 << 20 | 1 << 22 | 1 << 37, "570.133.20", False),
        (0x1FFFFFFFFFF, "418.43", True),
    ],
)
def test_counters_are_for_those_with_the_capability(capabilities: int, driver: str, allowed: bool) -> None:
    status = {"/proc/self/status": f"CapInh:\tffffffffffffffff\nCapEff:\t{capabilities:016x}\n"}
    seen = outcomes(Room(files={**FORBIDDEN, **status}, machine=replace(HEALTHY, driver=driver)).examined)
    assert seen["Counters"].verdict is (DoctorVerdict.OK if allowed else DoctorVerdict.PROBLEM)


def test_what_the_driver_does_not_say_is_not_checked() -> None:
    silent = replace(HEALTHY, gpus=(InstalledGpu(0, "NVIDIA T4", 16 * GB, None, None, None),))
    files = dict.fromkeys((*FORBIDDEN, "/proc/sys/kernel/perf_event_paranoid"))
    seen = outcomes(Room(machine=silent, files=files, free=None).examined)
    for name in ("GPU sharing", "Clocks", "Counters", "CPU sampling", "Disk"):
        assert seen[name].verdict is DoctorVerdict.NOT_CHECKED, name


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        (ProfileWriter("run.nsys-rep", "nsys report", None), DoctorVerdict.NOT_CHECKED),
        (ProfileWriter("trace.json", "torch", "2.9.0"), DoctorVerdict.OK),
        (ProfileWriter("old.sqlite", "nsys", "2024.6.2.225"), DoctorVerdict.OK),
        (ProfileWriter("same.sqlite", "nsys", "2025.3.2.9999"), DoctorVerdict.OK),  # the build does not count
        (ProfileWriter("next.sqlite", "nsys", "2025.10.1"), DoctorVerdict.WARNING),  # 10 comes after 3
        (ProfileWriter("odd.sqlite", "nsys", None), DoctorVerdict.NOT_CHECKED),
    ],
)
def test_the_version_of_a_profile(written: ProfileWriter, verdict: DoctorVerdict) -> None:
    assert outcomes(Room(written=written).examined)["PROFILE"].verdict is verdict


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({"/.dockerenv": ""}, {}, "Docker"),
        ({"/run/.containerenv": ""}, {}, "Podman"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/pod1\n"}, {}, "Kubernetes"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "Apptainer"),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, {}, ""),
    ],
)
def test_containers_are_recognised(files: dict[str, str], environment: dict[str, str], kind: str) -> None:
    outcome = outcomes(Room(files=files, environment=environment).examined)["Container"]
    assert outcome.found.startswith(f"in a container ({kind})" if kind else "not in a container")


def test_the_library_comes_from_the_package_manager_that_is_here() -> None:
    def commands(**here: str) -> tuple[str, ...]:
        return checking.library_commands("libdw.so.1", lambda name: Path(here[name]) if name in here else None)

    assert commands(dnf="/usr/bin/dnf", sudo="/usr/bin/sudo") == ("sudo dnf install elfutils-libs",)
    assert len(commands()) == 2
    assert checking.library_commands("libodd.so.3", lambda _: None)[0] == "apt-file search libodd.so.3"


words = st.text(max_size=60) | st.sampled_from(
    ["\x1b[31mred\x1b[0m", "libdw.so.1: cannot open shared object file", "模型" * 80]
)

CONTROL = {chr(code) for code in (*range(32), *range(127, 160), *range(0xD800, 0xE000))}


@given(
    st.dictionaries(st.sampled_from(sorted(ANSWERS)), st.builds(Ran, st.integers(-1, 3), words), max_size=7),
    st.dictionaries(st.sampled_from([*FILES, "/proc/1/cgroup", "/.dockerenv"]), words, max_size=4),
    words.map(lambda reason: Machine(None, None, (), reason)) | st.just(HEALTHY),
    st.sampled_from([60, 80, 132]),
)
def test_whatever_tools_say_the_answer_can_be_shown(
    answers: dict[str, Ran], files: dict[str, str], told: Machine, width: int
) -> None:
    smi = {"nvidia-smi": next(iter(answers.values()), Ran(0, ""))}
    found = Room(
        machine=told, answers={**answers, **smi}, files=files, written=ProfileWriter("a", "nsys", "x")
    ).examined
    text = write(found.document(), "text", width=width)
    assert not CONTROL & set(text.replace("\n", ""))
    assert max(map(cell_len, text.splitlines())) <= width
    assert not CONTROL & set(
        write(found.document(), "md").replace("\n", "") + write(found.document(), "csv").replace("\n", "")
    )
    schema_of("doctor").validate(json.loads(write(found.document(), "json")))


# The machine itself, and tools that are real programs.


def tool(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for tools, the only one on the PATH but for those of the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_a_tool_that_hangs_is_stopped(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(bare, "nsys", "#!/bin/sh\nexec sleep 100\n")
    monkeypatch.setattr(checking, "SECONDS", 0.3)
    patient = ExaminedMachine(lambda _: 0)
    outcome = CHECKS["nsys"](patient)
    assert outcome.verdict is DoctorVerdict.PROBLEM
    assert "did not end within 0.3 s" in outcome.found


def test_a_tool_that_prints_ten_megabytes_is_harmless(bare: Path) -> None:
    tool(bare, "nsys", "#!/bin/sh\nhead -c 10000000 /dev/zero | tr '\\0' '\\033'\n")
    outcome = CHECKS["nsys"](ExaminedMachine(lambda _: 0))
    assert outcome.verdict is DoctorVerdict.PROBLEM
    assert len(outcome.found) < 400


@pytest.mark.parametrize(
    "script", ["", "#!/no/such/interpreter\n", "\x7fELF", "#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\necho 'Version x.y'\n"]
)
def test_a_broken_tool_is_a_problem(bare: Path, script: str) -> None:
    tool(bare, "nsys", script)
    outcome = CHECKS["nsys"](ExaminedMachine(lambda _: 0))
    assert outcome.verdict is DoctorVerdict.PROBLEM


def test_the_probe_reads_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    here = ExaminedMachine(lambda _: 0)
    (tmp_path / "long").write_bytes(b"\xff" * 10**6)
    assert here.read(str(tmp_path / "none")) is None
    assert here.read(str(tmp_path)) is None
    assert len(here.read(str(tmp_path / "long")) or "") == 1 << 16
    assert here.listed(str(tmp_path / "none")) == ()
    assert here.free_bytes(tmp_path / "none") is None
    assert here.refusal(tmp_path) == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "long"], "nothing is left behind"
    assert "no such file" in here.refusal(tmp_path / "none")
    assert here.package("no_such_package") is None
    assert here.package("hypothesis")


def test_a_driver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    released = threading.Event()
    monkeypatch.setattr(checking, "_DRIVER_SECONDS", 0.1)
    monkeypatch.setattr(checking, "machine", lambda: released.wait(60))
    told = ExaminedMachine(lambda _: 0).machine
    released.set()
    assert told == Machine(None, None, (), "the driver did not answer within 0 s")


def test_here_without_a_gpu(bare: Path, tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a GPU")
    assert bare.exists()
    for width in (60, 80, 132):
        ran = gpuledger("doctor", cwd=tmp_path, COLUMNS=str(width))
        assert (ran.exit_code, ran.stderr) == (1, "")
        assert ran.stdout.startswith("Profiles cannot be recorded here: 1 problem.\n")
        assert max(map(cell_len, ran.stdout.splitlines())) <= width
    content = json.loads(gpuledger("doctor", "--quick", "--format=json", cwd=tmp_path).stdout)
    schema_of("doctor").validate(content)
    assert [each["name"] for each in content["checks"] if each["verdict"] == "problem"] == ["GPU"]


def test_a_profile_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_text("nothing")
    for name in ("x.sqlite", "missing.sqlite"):
        ran = gpuledger("doctor", name, cwd=tmp_path)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr.startswith("error: ")


def test_the_profile_says_who_wrote_it(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("doctor", "--quick", decode, "--format=json")
    [check] = [each for each in json.loads(ran.stdout)["checks"] if each["name"] == "PROFILE"]
    assert check["found"].startswith("decode.sqlite: from nsys 2025.3.2")
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report" + b"\0" * 100)
    ran = gpuledger("doctor", "--quick", tmp_path / "run.nsys-rep", "--format=json")
    [check] = [each for each in json.loads(ran.stdout)["checks"] if each["name"] == "PROFILE"]
    assert check["verdict"] == "not checked"


DRIVER = r"""
#include <string.h>
static int begun, waiting, kernel;
static char context, module;
int cuInit(unsigned flags) { begun = 1; return flags; }
int cuDeviceGet(int *device, int index) { *device = index; return !begun; }
int cuDevicePrimaryCtxRetain(void **made, int device) { *made = &context; return device; }
int cuCtxSetCurrent(void *given) { return given != &context; }
int cuModuleLoadData(void **made, const char *text) {
    *made = &module;
    return !strstr(text, ".entry gpuledger_trial()");
}
int cuModuleGetFunction(void **made, void *from, const char *name) {
    *made = &kernel;
    return from != &module || strcmp(name, "gpuledger_trial");
}
int cuLaunchKernel(void *what, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    waiting++;
    return what != &kernel || gx * gy * gz * bx * by * bz != 1 || shared || stream || arguments || extra;
}
int cuCtxSynchronize(void) { int full = waiting > 1000; waiting = 0; return full; }
"""
"""CUDA's driver as far as the trial calls it, with its signatures: it refuses what is not called as CUDA wants it."""

FAKE_NSYS = """import pathlib, shutil, subprocess, sys
if sys.argv[1] == "--version":
    sys.exit(print("NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0"))
[output] = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--output=")]
if sys.argv[1] == "profile":
    at = next(at for at, word in enumerate(sys.argv) if at > 1 and not word.startswith("--"))
    pathlib.Path(output + ".nsys-rep").touch()
    sys.exit(subprocess.run(sys.argv[at:]).returncode)
if not pathlib.Path(sys.argv[-1]).exists():
    sys.exit("File does not exist: " + sys.argv[-1])
shutil.copy("{export}", output)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, for a driver that is made up")
def test_from_end_to_end_with_a_made_up_driver(bare: Path, tmp_path: Path, decode: Path) -> None:
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    code = tool(bare, "nsys.py", FAKE_NSYS.format(export=decode))
    tool(bare, "nsys", f'#!/bin/sh\nexec "{sys.executable}" "{code}" "$@"\n')
    row = "0, 570.133.20, 143771, 345, 1980, 700.00, Default, Disabled, NVIDIA H200"
    tool(
        bare,
        "nvidia-smi",
        f"#!/bin/sh\ncase \"$*\" in *query*) echo '{row}';; *) echo '| CUDA Version: 12.8 |';; esac\n",
    )
    ran = gpuledger_process(
        "doctor", "--format=json", cwd=tmp_path, LD_LIBRARY_PATH=str(tmp_path), TMPDIR=str(tmp_path)
    )
    content = json.loads(ran.stdout)
    schema_of("doctor").validate(content)
    seen = {each["name"]: each for each in content["checks"]}
    if content["machine"]["gpus"][0]["name"] != "NVIDIA H200":
        pytest.skip("this machine has a GPU of its own")
    assert content["machine"]["gpus"][0]["memory_bytes"] == 143771 * 2**20
    assert content["machine"]["cuda"] == "12.8"
    assert seen["nsys export"]["verdict"] == "ok"
    assert seen["Trial capture"]["found"].startswith("2,446 of 10,240 kernels recorded; tracing adds about ")
    assert seen["Trial capture"]["verdict"] == "warning", "the export that was put in holds other kernels"
    assert content["tracing_ns_per_call"] >= 0
    assert content["records_with"][0] == "nsys"
    assert not list(tmp_path.glob("gpuledger-doctor-*")), "temporary folders are removed"


# Tools and the machine, by themselves.


def test_torch_says_what_it_sees() -> None:
    pytest.importorskip("torch")
    program = ROOT / "src" / "gpuledger" / "doctor" / "trial_torch.py"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    ran = subprocess.run(
        [sys.executable, "-P", program, "--quick"], capture_output=True, text=True, env=clean, check=True, timeout=300
    )
    match = checking._TORCH.search(ran.stdout)
    assert match is not None
    assert match[4] == "None"
