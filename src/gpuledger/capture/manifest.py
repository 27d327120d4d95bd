"""The manifest of a capture, NAME.capture.json: what was run, with what, where, and how it ended.

It is written before the program starts and again at the end, each time beside and then renamed, so that whatever
happens in between a reader finds a whole file that says how far the capture came. The document is gpuledger.capture/1.

What a run depended on besides its command: environment variables and the commit.

What the environment of a program really is: a command in, the same command with a look at it out.
"""

from __future__ import annotations

import dataclasses
import errno
import fnmatch
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gpuledger.capture.command_text import program_place
from gpuledger.capture.launchers import main_program
from gpuledger.capture.output_files import MANIFEST_SCHEMA
from gpuledger.capture.secrets import looks_secret, shown_value, without_secrets
from gpuledger.errors import GpuledgerError, OutputRefused, ToolFailed
from gpuledger.system.files import whole_file
from gpuledger.system.machine import Machine
from gpuledger.system.processes import run
from gpuledger.version import own_version

KEPT: Final = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_ORDER"),
    *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_CACHE_DISABLE"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "NVIDIA_TF32_OVERRIDE", "CUDNN_*"),
    *("NCCL_*", "GLOO_SOCKET_IFNAME", "NVSHMEM_*", "UCX_*"),
    *("TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TRITON_*"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("VLLM_ATTENTION_BACKEND", "VLLM_USE_V1", "SGLANG_*", "XLA_FLAGS", "JAX_PLATFORMS"),
)
"""Names of variables that change what a GPU does; a star stands for any letters."""

_NAME: Final = re.compile(r"[A-Za-z_*][\w*]*", re.ASCII)
_GIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder that git knows."""

    commit: str
    is_dirty: bool
    """Whether files differ from it."""


@dataclass(frozen=True, slots=True)
class EnvironmentWishes:
    """What --env asks for."""

    noted: tuple[str, ...] = ()
    """Names for the manifest, besides those of the list; a star stands for any letters."""
    given: Mapping[str, str] = field(default_factory=dict)
    """What the program is to have."""

    def carried(self, here: Mapping[str, str]) -> dict[str, str]:
        """What a program elsewhere is to have: what was given, and what the names that were not given have here.

        A secret goes only where it was given: on a command line, others can read it.
        """
        named = {name: here[name] for name in sorted(here) if _matches(name, self.noted) and not looks_secret(name)}
        return named | dict(self.given)

    def withheld(self, here: Mapping[str, str]) -> tuple[str, ...]:
        """The secrets that are named, and not carried."""
        return tuple(name for name in self.noted if name in here and looks_secret(name) and name not in self.given)


def environment_wishes(words: Iterable[str]) -> EnvironmentWishes:
    """NAME or NAME=VALUE, each as --env was given."""
    noted, given = list[str](), dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        if _NAME.fullmatch(name) is None or (equals and not name.isidentifier()):
            raise GpuledgerError(f"--env={word}: expected NAME or NAME=VALUE, e.g. --env=NCCL_DEBUG=INFO")
        noted.append(name)
        if equals:
            given[name] = value
    return EnvironmentWishes(tuple(noted), given)


def kept_names(more: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of variables that may be kept, with those that the user adds."""
    return tuple(dict.fromkeys((*KEPT, *more)))


def environment(variables: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The variables that may be kept, by name; the values of secrets are withheld."""
    wanted = kept_names(more)
    kept = {name: value for name, value in variables.items() if _matches(name, wanted)}
    return {name: shown_value(name, value) for name, value in sorted(kept.items())}


def _matches(name: str, wanted: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)


def commit_of(folder: Path) -> Commit | None:
    """The commit that a folder is at; None where git or a repository is missing."""
    try:
        head = run(["git", "-C", folder, "rev-parse", "--verify", "HEAD"], seconds=_GIT_S)
        if head.exit_code != 0:
            return None
        changes = run(["git", "-C", folder, "status", "--porcelain"], seconds=_GIT_S)
    except ToolFailed:
        return None  # it is a remark about the run, not a condition of it
    if not re.fullmatch(r"[0-9a-f]{40,64}", head.last_line):
        return None
    return Commit(head.last_line, changes.exit_code == 0 and bool(changes.output.strip()))


RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states: not over yet (or killed, if `pid` is gone), over, ended by a signal to us, or nothing was recorded.

`failed` is also where what was set for the program did not reach it.
"""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """One file that the capture made."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordedCheck:
    """Whether the profile holds one thing that was asked for."""

    check: str
    verdict: str
    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class PlainRun:
    """The program once without its profiler, or why there was no such run."""

    window_ns: tuple[int, ...] | None = None
    """How long what is recorded took, once per process that has a window; None where that is not known."""
    reason: str | None = None
    """Why it is not known."""
    seconds: float | None = None
    """How long the run took; None where there was none."""
    exit_code: int | None = None
    how: str | None = None
    """What was measured, and how it was seen."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is written down about one capture."""

    tool: str
    tool_version: str | None
    presets: tuple[str, ...]
    command: tuple[str, ...]
    """What the user wants recorded."""
    commands: tuple[tuple[str, ...], ...]
    """What is run for that, in order."""
    called_as: tuple[str, ...]
    started_utc: str
    environment: dict[str, str] = field(default_factory=dict)
    """What the program had, of the variables that are kept."""
    carried: dict[str, str] = field(default_factory=dict)
    """What was set for the program with --env."""
    environment_of: str | None = None
    """The program that was seen to have `environment`; None where it is ours, which the program inherits."""
    machine: Machine | None = None
    git: Commit | None = None
    via: tuple[str, ...] | None = None
    session: str | None = None
    state: str = RUNNING
    reason: str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    files: tuple[RecordedFile, ...] = ()
    checks: tuple[RecordedCheck, ...] = ()
    plain: PlainRun | None = None
    """None where no time is compared: kernels that ncu replays, a piece of a server."""
    pid: int | None = field(default_factory=os.getpid)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": MANIFEST_SCHEMA,
            "state": self.state,
            "reason": self.reason,
            "tool": self.tool,
            "versions": {"gpuledger": own_version(), self.tool: self.tool_version},
            "presets": list(self.presets),
            "command": without_secrets(self.command),
            "commands": [without_secrets(each) for each in self.commands],
            "called_as": without_secrets(self.called_as),
            "via": None if self.via is None else without_secrets(self.via),
            "session": self.session,
            "started_utc": self.started_utc,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "exit_code": self.exit_code,
            "plain": None if self.plain is None else _plain(self.plain),
            "pid": self.pid,
            "environment": self.environment,
            "environment_of": self.environment_of,
            "carried": self.carried,
            "git": None if self.git is None else {"commit": self.git.commit, "dirty": self.git.is_dirty},
            "machine": None if self.machine is None else _machine(self.machine),
            "files": [dataclasses.asdict(each) for each in self.files],
            "checks": [dataclasses.asdict(each) for each in self.checks],
        }


def _plain(plain: PlainRun) -> dict[str, Any]:
    return dataclasses.asdict(plain) | {
        "window_ns": None if plain.window_ns is None else list(plain.window_ns),
        "seconds": None if plain.seconds is None else round(plain.seconds, 3),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    keys = ("index", "name", "memory_bytes", "sm_mhz", "highest_sm_mhz", "power_limit_mw")
    return {
        "driver": machine.driver,
        "gpus": [{key: getattr(gpu, key) for key in keys} for gpu in machine.gpus],
        "reason": machine.reason or None,
    }


def utc(seconds: float) -> str:
    """A time, in seconds as the system counts them, as a manifest writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def written(manifest: Manifest, path: Path) -> None:
    """Write the manifest, whole or not at all."""
    text = json.dumps(manifest.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        with whole_file(path, private=True) as file:
            file.write(text.encode(errors="backslashreplace"))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full(path.parent) from None
        raise OutputRefused(
            f"{path.parent}: cannot be written to: {(error.strerror or str(error)).lower()}",
            hint="-o names another place for the profile",
        ) from None


def full(folder: Path) -> OutputRefused:
    """The error where a disk is full."""
    return OutputRefused(
        f"{folder}: the disk is full",
        hint="free some space, or name another place with -o; shorter captures are smaller",
    )


_SCRIPT: Final = (
    "gpuledger_file=$1 gpuledger_names=$2 gpuledger_lost=; shift 2; "
    'while [ "$1" != -- ]; do '
    'eval "gpuledger_value=\\${${1%%=*}+is}\\${${1%%=*}-}"; '
    '[ "$gpuledger_value" = "is${1#*=}" ] || gpuledger_lost="$gpuledger_lost ${1%%=*}"; shift; done; shift; '
    "(umask 077; command -v tr && command -v grep && [ -r /proc/$$/environ ] || exit; "
    "{ tr '\\000\\012' '\\012\\001' < /proc/$$/environ | LC_ALL=C grep -E \"$gpuledger_names\"; "
    'for gpuledger_value in $gpuledger_lost; do echo "?$gpuledger_value"; done; } > "$gpuledger_file.part"; '
    'mv "$gpuledger_file.part" "$gpuledger_file") > /dev/null 2>&1; '
    '[ -z "$gpuledger_lost" ] || { echo "gpuledger: the program is not started, as it would not have had what '
    'was set:$gpuledger_lost" >&2; exit 1; }; [ $# -eq 0 ] || exec "$@"'
)
"""For any shell of POSIX. In the file a line is a variable, line ends in values as byte 1, or ? and what was lost.

Names of variables are checked before they get here, so `eval` sees nothing else. Ours are long: a short one may be the
program's own, and would be changed in its environment.
"""


@dataclass(frozen=True, slots=True)
class SeenEnvironment:
    """What a program had."""

    variables: Mapping[str, str]
    lost: tuple[str, ...]
    """Names that were set, and had another value or none."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Looks at the environment of one program."""

    file: str
    """Where it writes what it saw, on the machine where the program runs."""
    names: tuple[str, ...]
    """What the user wants in the manifest."""
    wanted: Mapping[str, str]
    """What the program is to have."""

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before the program. Secrets are not looked at: their values would stand here, too."""
        kept = [name.replace("*", "[^=]*") for name in kept_names(self.names) if not looks_secret(name)]
        settings = (f"{name}={value}" for name, value in self.wanted.items() if not looks_secret(name))
        return ("sh", "-c", _SCRIPT, "gpuledger", self.file, f"^({'|'.join(kept)})=", *settings, "--")

    def before(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command with the look before its program; in a text for a shell, before the program in it."""
        main = main_program(command)
        if main.in_text is None:
            return (*command[: main.place], *self.words, *command[main.place :])
        text, begin, end = command[main.place], main.in_text.words[0].begin, main.in_text.end
        sets = program_place(main.in_text.plain, in_text=True).environment
        look = " ".join((*(main.in_text.words[place].source for place in sets), shlex.join(self.words)))
        changed = f"{text[:begin]}{{ {look} || exit; {text[begin:end]}; }}{text[end:]}"
        return (*command[: main.place], changed, *command[main.place + 1 :])

    def read(self, text: str) -> SeenEnvironment:
        """What the file says; lines of others, such as a connection's, are left out."""
        lines = [line for line in text.split("\n") if re.match(r"\??[A-Za-z_]\w*(=|$)", line, re.ASCII)]
        seen = dict(
            line.replace("\1", "\n").split("=", 1) for line in lines if not line.startswith("?") and "=" in line
        )
        lost = tuple(line[1:] for line in lines if line.startswith("?"))
        return SeenEnvironment(environment(seen, self.names), lost)

    def complaint(self, seen: SeenEnvironment | None, program: str) -> GpuledgerError | None:
        """What is wrong with what was seen."""
        if seen is None and self.wanted:
            return ToolFailed(
                f"whether {', '.join(self.wanted)} reached the program could not be read back",
                found=f"the program is `{program}`; its environment is looked at right before it starts",
                hint="it needs sh, tr, grep and /proc where the program runs, and that the program is reached",
            )
        if seen is None or not seen.lost:
            return None
        name = seen.lost[0]
        had = f"{name}={seen.variables[name]}" if name in seen.variables else f"no {name}"
        more = f", and {len(seen.lost) - 1} more" if len(seen.lost) > 1 else ""
        return ToolFailed(
            f"the program was not started: it would not have had {name}={shown_value(name, self.wanted[name])}{more}",
            found=f"right before `{program}` there was {had}",
            hint="something on the way sets it again, e.g. a file that the login shell reads, or a line of the text "
            "before the program: take it out there, or set it behind that",
        )
