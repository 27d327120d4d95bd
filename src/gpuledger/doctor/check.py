"""What a check of `doctor` gives, and what all checks know of the machine, each answer asked for once.

No answer takes long, none is large, and nothing is changed but for a file that is written into a folder and removed
again, to see that it can be.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct

from gpuledger.errors import ToolFailed
from gpuledger.rows import Label, Row
from gpuledger.system.files import reason_of
from gpuledger.system.machine import Machine, find_importer, find_ncu, find_nsys, machine, version_in
from gpuledger.system.processes import Ran, run
from gpuledger.version import own_version

_MOST_BYTES: Final = 1 << 16  # of a file in /proc or /sys; they are all shorter
_MOST_NAMES: Final = 1 << 17
_DRIVER_SECONDS: Final = 90.0  # after that the driver hangs, which happens when a GPU has failed


SECONDS: Final = 20.0  # what a tool may take for a question about itself

NOT_RUN: Final = -1000  # stands for the exit code of a tool that did not start or did not end

_MOST_WORDS: Final = 200


class DoctorVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"


class DoctorCheck(Row, frozen=True, kw_only=True):
    """One question about the machine, answered. None of the sentences ends in a full stop."""

    name: Annotated[str, Label("Check")] = ""
    """Given by `examine`."""
    verdict: Annotated[DoctorVerdict, Label("Verdict")]
    found: Annotated[str, Label("Found", meaning="what was seen; of a check that was not made, why")]
    means: Annotated[str | None, Label("Means", meaning="what that means for profiles")] = None
    fix: Annotated[str | None, Label("Fix", meaning="what to do")] = None
    commands: Annotated[
        tuple[str, ...],
        Label("Commands", meaning="lines for a shell or a file, as the fix says; words in capitals are to be replaced"),
    ] = ()


def ok(found: str, means: str = "") -> DoctorCheck:
    """Nothing to do."""
    return DoctorCheck(verdict=DoctorVerdict.OK, found=found, means=means or None)


def warning(found: str, means: str, fix: str, *commands: str) -> DoctorCheck:
    """Something works less well than it could."""
    return DoctorCheck(
        verdict=DoctorVerdict.WARNING, found=found, means=means or None, fix=fix or None, commands=commands
    )


def problem(found: str, means: str, fix: str, *commands: str) -> DoctorCheck:
    """Something does not work."""
    return DoctorCheck(
        verdict=DoctorVerdict.PROBLEM, found=found, means=means or None, fix=fix or None, commands=commands
    )


def not_checked(why: str, means: str = "") -> DoctorCheck:
    """The question stays open, and why."""
    return DoctorCheck(verdict=DoctorVerdict.NOT_CHECKED, found=why, means=means or None)


NO_GPU: Final = not_checked("no GPU")


class ProfileWriter(Struct, frozen=True):
    """A profile that the user asked about: which tool wrote it, in which version, as far as it says."""

    name: str
    tool: str
    version: str | None


class TorchInstallation(Struct, frozen=True):
    """What torch said of itself, in a process of its own."""

    version: str
    cuda: str | None  # what it was built for
    gpus: int
    kernels: int | None  # how many kernels its profiler recorded; None if it was not tried
    said: str  # its complaint, if it did not get that far


_TORCH: Final = re.compile(r"gpuledger-torch version=(\S+) cuda=(\S+) gpus=(\d+) kernels=(\d+|None)")
_TORCH_SECONDS: Final = 90.0
_TORCH_TOO_NEW: Final = "driver on your system is too old"  # what torch says then, in a warning


_PROGRAMS: Final = Path(__file__).parent
_DISTRIBUTIONS: Final = {"pynvml": "nvidia-ml-py", "ncu_report": "ncu-report", "vl_convert": "vl-convert-python"}


class ExaminedMachine:
    """This machine as the checks see it. A question is asked when first needed, and once."""

    launches: Path = _PROGRAMS / "trial_launches.py"
    """A program that launches empty kernels and says what a launch took."""
    trial_torch: Path = _PROGRAMS / "trial_torch.py"
    """A program that says what torch sees and what its profiler records."""
    python: Path = Path(sys.executable)
    environment: Mapping[str, str] = os.environ

    def __init__(
        self, kernels_in: Callable[[Path], int], *, is_quick: bool = False, written: ProfileWriter | None = None
    ) -> None:
        self.kernels_in, self.is_quick, self.written = kernels_in, is_quick, written  # kernels of an export
        self.versions = {"Python": platform.python_version(), "gpuledger": own_version()}
        self.folders = {"this folder": Path.cwd(), "the temporary folder": Path(tempfile.gettempdir())}
        """Where profiles and temporary files would go."""
        self.tracing_ns_per_call: float | None = None
        """What tracing adds to a CUDA call; the trial measures it."""
        self.outcomes: dict[str, DoctorCheck] = {}
        """Of the checks so far, for those that build on them."""

    def find(self, name: str) -> Path | None:
        """A program."""
        if name in ("nsys", "ncu"):
            return find_nsys() if name == "nsys" else find_ncu()
        path = shutil.which(name)
        return Path(path) if path else None

    def importer(self, nsys: Path) -> Path | None:
        return find_importer(nsys)

    def start(self, argv: Sequence[str | Path], seconds: float) -> Ran:
        """Run a program to its end, within so many seconds, or ToolFailed."""
        return run(argv, seconds=seconds)

    def read(self, path: str) -> str | None:
        """A small file of the system; None if there is none, or it is not ours to read."""
        try:
            with Path(path).open("rb") as file:
                return file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            return None

    def listed(self, path: str) -> tuple[str, ...]:
        """The names in a folder of the system."""
        try:
            return tuple(sorted(os.listdir(path)[:_MOST_NAMES]))
        except OSError:
            return ()

    def package(self, name: str) -> str | None:
        """The version of a package of Python, by the name it is imported by; None if it is not installed."""
        if find_spec(name) is None:
            return None
        try:
            return version(_DISTRIBUTIONS.get(name, name))
        except PackageNotFoundError:
            return "of unknown version"  # on the path, but not installed by pip

    def free_bytes(self, folder: Path) -> int | None:
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            return None

    def refusal(self, folder: Path) -> str:
        """Why nothing can be written into a folder; empty if it can."""
        try:
            with tempfile.NamedTemporaryFile(prefix=".gpuledger-doctor-", dir=folder) as file:
                file.write(b"\0" * 4096)
                file.flush()
        except OSError as error:
            return reason_of(error)
        return ""

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder."""
        with tempfile.TemporaryDirectory(prefix="gpuledger-doctor-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    @cached_property
    def machine(self) -> Machine:
        """NVML is a library and cannot be stopped; a thread that waits for it can be left behind."""
        answers: list[Machine] = []
        thread = threading.Thread(target=lambda: answers.append(machine()), name="gpuledger driver", daemon=True)
        thread.start()
        thread.join(_DRIVER_SECONDS)
        late = f"the driver did not answer within {_DRIVER_SECONDS:.0f} s"
        return answers[0] if answers else Machine(None, None, (), late)

    @property
    def has_gpu(self) -> bool:
        return bool(self.machine.gpus)

    @cached_property
    def nsys(self) -> Path | None:
        return self.find("nsys")

    @cached_property
    def ncu(self) -> Path | None:
        return self.find("ncu")

    @cached_property
    def nsys_says(self) -> Ran:
        return self.ask([self.nsys or "", "--version"], SECONDS)

    @cached_property
    def ncu_says(self) -> Ran:
        return self.ask([self.ncu or "", "--version"], SECONDS)

    @property
    def nsys_version(self) -> str | None:
        return version_in(self.nsys_says.output) if self.nsys else None

    @property
    def ncu_version(self) -> str | None:
        return version_in(self.ncu_says.output) if self.ncu else None

    @cached_property
    def torch(self) -> TorchInstallation | None:
        """None if it is not in this Python, or not worth starting, as there is no GPU."""
        version = self.package("torch") if self.has_gpu else None
        if version is None:
            return None
        # its folder is not put on the path, and its warnings are only printed
        program = (self.python, "-P", "-Wdefault", self.trial_torch)
        ran = self.ask([*program, *(("--quick",) if self.is_quick else ())], _TORCH_SECONDS)
        match = _TORCH.search(ran.output)
        if match is None:
            said = ran.output if ran.exit_code == NOT_RUN else last_words(ran)
            return TorchInstallation(version, None, 0, None, said)
        cuda = None if match[2] == "None" else match[2]
        kernels = None if match[4] == "None" else int(match[4])
        said = next((line.strip() for line in ran.output.splitlines() if _TORCH_TOO_NEW in line), "")
        return TorchInstallation(match[1], cuda, int(match[3]), kernels, clip(said))

    @property
    def torch_records(self) -> bool:
        return self.torch is not None and self.torch.gpus > 0 and self.torch.kernels != 0

    @cached_property
    def container(self) -> str:
        """What kind of container this is; empty if none was recognised."""
        environment, groups = self.environment, self.read("/proc/1/cgroup") or ""
        kinds = {"kubepods": "Kubernetes", "docker": "Docker", "containerd": "containerd", "lxc": "LXC"}
        signs = (
            ("Kubernetes", environment.get("KUBERNETES_SERVICE_HOST")),
            ("Docker", self.read("/.dockerenv") is not None),
            ("Podman", self.read("/run/.containerenv") is not None),
            *((kind, word in groups) for word, kind in kinds.items()),
            ("Apptainer", environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER")),
        )
        return next((kind for kind, is_seen in signs if is_seen), "")

    @cached_property
    def capabilities(self) -> int | None:
        """What this process may do, as Linux's bits; None where it is not told."""
        match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", self.read("/proc/self/status") or "", re.MULTILINE)
        return int(match[1], 16) if match else None

    def ask(self, argv: Sequence[str | Path], seconds: float) -> Ran:
        """What a program says, or the system of it where it does not start or end."""
        try:
            return self.start(argv, seconds)
        except ToolFailed as error:
            return Ran(NOT_RUN, error.claim)


def clip(text: str) -> str:
    """Somebody else's words, as far as they are worth repeating."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST_WORDS else text[: _MOST_WORDS - 1] + "…"


def last_words(ran: Ran) -> str:
    """The last line that a program printed, without its full stop."""
    return clip(ran.last_line[-4 * _MOST_WORDS :]).rstrip(".")


_LIBRARY: Final = re.compile(r"(lib[\w+.-]+\.so[\w.]*): cannot open shared object file")


def missing_library(output: str) -> str | None:
    """The library that the system's loader did not find."""
    match = _LIBRARY.search(output)
    return match[1] if match else None


_PACKAGES: Final = {
    "libdw.so.1": ("libdw1", "elfutils-libs"),
    "libelf.so.1": ("libelf1", "elfutils-libelf"),
    "libbz2.so.1.0": ("libbz2-1.0", "bzip2-libs"),
    "liblzma.so.5": ("liblzma5", "xz-libs"),
    "libz.so.1": ("zlib1g", "zlib"),
}
"""Which package holds a library: on Debian and Ubuntu, on Red Hat and its kin."""


def library_commands(library: str, find: Callable[[str], Path | None]) -> tuple[str, ...]:
    """How to install it: as this system does, or both ways where it is not known."""
    debian, red_hat = _PACKAGES.get(library, (None, None))
    ways: Sequence[tuple[str, str | None, str]] = (
        ("apt-get", debian, f"apt-file search {library}"),
        ("dnf", red_hat, f"dnf provides '*/{library}'"),
    )
    present = [way for way in ways if find(way[0])] or ways
    sudo = "sudo " if find("sudo") else ""  # images of containers seldom have it, and need it as seldom
    return tuple(f"{sudo}{tool} install {package}" if package else search for tool, package, search in present)
