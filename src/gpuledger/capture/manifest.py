"""The manifest of a capture, NAME.capture.json: what was run, with what, where, and how it ended.

It is written before the program starts and again at the end, so that whatever happens in between a reader finds a whole
file that says how far the capture came. A `Witness` looks at variables where the program may have others than we have.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from gpuledger.capture.command_text import program_place
from gpuledger.capture.launchers import main_program
from gpuledger.capture.output_files import MANIFEST_SCHEMA
from gpuledger.capture.secrets import looks_secret, shown_value, without_secrets
from gpuledger.errors import GpuledgerError, OutputRefused, ToolFailed
from gpuledger.json_types import Count, builtins
from gpuledger.system.files import reason_of, whole_file
from gpuledger.system.machine import Machine
from gpuledger.system.processes import run

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


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a folder that git knows."""

    commit: str
    is_dirty: bool = msgspec.field(name="dirty")


class EnvironmentWishes(Struct, frozen=True):
    """What --env asks for."""

    noted: tuple[str, ...] = ()
    """Names for the manifest, besides those of the list; a star stands for any letters."""
    given: Mapping[str, str] = field(default_factory=dict)

    def carried(self, here: Mapping[str, str]) -> dict[str, str]:
        """What a program elsewhere is to have: what was given, and what the names that were not given have here.

        A secret goes only where it was given: on a command line, others can read it.
        """
        named = {name: here[name] for name in sorted(here) if _matches(name, self.noted) and not looks_secret(name)}
        return named | dict(self.given)

    def withheld(self, here: Mapping[str, str]) -> tuple[str, ...]:
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


def environment(variables: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The variables that may be kept, by name; the values of secrets are withheld."""
    wanted = (*KEPT, *more)
    return {name: shown_value(name, value) for name, value in sorted(variables.items()) if _matches(name, wanted)}


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


class RecordedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file that the capture made."""

    name: str
    bytes: Count


class CaptureCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the profile holds one thing that was asked for."""

    check: str
    verdict: Annotated[str, Meta(extra_json_schema={"enum": ["PASS", "WARN", "MISSING"]})]
    found: str
    advice: str


Seconds: TypeAlias = Annotated[float, Meta(ge=0)]


class PlainRun(Struct, frozen=True):
    """The program once without its profiler, before it was recorded, or why there was no such run."""

    window_ns: Annotated[tuple[Annotated[int, Meta(gt=0)], ...], Meta(min_length=1)] | None = None
    """How long what is recorded took: the first window of each process that opened one; null: not known."""
    reason: str | None = None
    """Why it is not known."""
    seconds: Seconds | None = None
    """How long that run took; null where there was none."""
    exit_code: Count | None = None
    how: str | None = None
    """What was measured, and how it was seen."""


class Manifest(Struct, frozen=True, tag_field="schema", tag=MANIFEST_SCHEMA):
    """What was captured, with what, where, and how it ended: NAME.capture.json beside the profile.

    Written when the capture begins and again when it ends.
    """

    tool: Annotated[str, Meta(extra_json_schema={"enum": ["nsys", "ncu", "torch", "rocprof"]})]
    versions: Annotated[dict[str, str | None], Meta(extra_json_schema={"required": ["gpuledger"]})]
    """Of gpuledger and of the tool; null where the tool did not say."""
    presets: tuple[str, ...]
    command: tuple[str, ...]
    """What was to be recorded."""
    commands: tuple[tuple[str, ...], ...]
    """What was run for that, in order. What looks like a secret is withheld."""
    called_as: tuple[str, ...]
    """Our own command line."""
    started_utc: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
    environment: dict[str, str] = field(default_factory=dict)
    """What the program had of the variables that change what a GPU does, by a list of names, and of those that --env
    named. Read back where the program ran; before that, and where it ran elsewhere and could not be read, nothing."""
    carried: dict[str, str] = field(default_factory=dict)
    """What --env set for the program. Where the program would not have had it, it is not started and the state is
    failed."""
    environment_of: str | None = None
    """The program right before whose start `environment` was read: elsewhere, and behind a shell. null where it is our
    own, which the program inherits."""
    machine: Machine | None = None
    """The GPUs before the command began; null where it ran elsewhere."""
    git: Commit | None = None
    """The working directory's commit; null where there is none."""
    via: tuple[str, ...] | None = None
    """The prefix that led to another machine."""
    session: str | None = None
    """The session of nsys that a piece was recorded of."""
    state: Annotated[str, Meta(extra_json_schema={"enum": [RUNNING, FINISHED, INTERRUPTED, FAILED]})] = RUNNING
    """running: not over, or killed if no process has the id `pid`. interrupted: a signal ended it; what was recorded is
    in `files`. failed: nothing was recorded, or what was set for the program did not reach it."""
    reason: str | None = None
    """What went wrong, in one sentence."""
    exit_code: Count | None = None
    """Of the command; 128 and the signal's number where one ended it."""
    seconds: Seconds | None = None
    files: tuple[RecordedFile, ...] = ()
    checks: tuple[CaptureCheck, ...] = ()
    """Whether the profile holds what was asked for."""
    plain: PlainRun | None = None
    """null where no time is compared: kernels that ncu replays, a piece of a server."""
    pid: int | None = field(default_factory=os.getpid)
    """The process that attends the capture; null where none does, as between `capture start` and `capture stop`."""


def shareable(manifest: Manifest) -> Manifest:
    """As it is written: what looks like a secret in a command is withheld, seconds have three decimals."""
    plain = manifest.plain
    return replace(
        manifest,
        command=tuple(without_secrets(manifest.command)),
        commands=tuple(tuple(without_secrets(command)) for command in manifest.commands),
        called_as=tuple(without_secrets(manifest.called_as)),
        via=None if manifest.via is None else tuple(without_secrets(manifest.via)),
        seconds=_rounded(manifest.seconds),
        plain=None if plain is None else replace(plain, seconds=_rounded(plain.seconds)),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def utc(seconds: float) -> str:
    """A time, in seconds as the system counts them, as a manifest writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest, whole or not at all."""
    text = json.dumps(builtins(shareable(manifest)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        with whole_file(path, private=True) as file:
            file.write(text.encode(errors="backslashreplace"))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full(path.parent) from None
        raise OutputRefused(
            f"{path.parent}: cannot be written to: {reason_of(error)}", hint="-o names another place for the profile"
        ) from None


def full(folder: Path) -> OutputRefused:
    """The error where a disk is full."""
    hint = "free some space, or name another place with -o; shorter captures are smaller"
    return OutputRefused(f"{folder}: the disk is full", hint=hint)


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


class SeenEnvironment(Struct, frozen=True):
    """What a program had."""

    variables: Mapping[str, str]
    lost: tuple[str, ...]  # names that were set, and had another value or none


class Witness(Struct, frozen=True):
    """Looks at the environment of one program."""

    file: str  # where it writes what it saw, on the machine where the program runs
    names: tuple[str, ...]  # what the user wants in the manifest
    wanted: Mapping[str, str]

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before the program. Secrets are not looked at: their values would stand here, too."""
        kept = [name.replace("*", "[^=]*") for name in dict.fromkeys((*KEPT, *self.names)) if not looks_secret(name)]
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

    def complaint(
        self, seen: SeenEnvironment | None, program: str, shown: Callable[[str, str], str] = shown_value
    ) -> GpuledgerError | None:
        """What the program did not have of what was asked for, with values as `shown` writes them."""
        if seen is None and self.wanted:
            return ToolFailed(
                f"whether {', '.join(self.wanted)} reached the program could not be read back",
                found=f"the program is `{program}`; its environment is looked at right before it starts",
                hint="it needs sh, tr, grep and /proc where the program runs, and that the program is reached",
            )
        if seen is None or not seen.lost:
            return None
        name = seen.lost[0]
        had = f"{name}={shown(name, seen.variables[name])}" if name in seen.variables else f"no {name}"
        more = f", and {len(seen.lost) - 1} more" if len(seen.lost) > 1 else ""
        return ToolFailed(
            f"the program was not started: it would not have had {name}={shown(name, self.wanted[name])}{more}",
            found=f"right before `{program}` there was {had}",
            hint="something on the way sets it again, e.g. a file that the login shell reads, or a line of the text "
            "before the program: take it out there, or set it behind that",
        )
