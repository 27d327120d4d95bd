"""Launchers of ranks, and commands on other machines: a command in, how it starts its ranks and what each runs out.

To know where the program begins behind torchrun, mpirun, mpiexec and srun, one must know which options take a value in
a word of its own. Those that are not listed here are read as taking none, but for torchrun's. A `Remote` runs a command
on another machine or in a pod, by the prefix that --via gives, such as `ssh HOST` or `kubectl exec POD --`.
"""

from __future__ import annotations

import base64
import gzip
import re
import secrets
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gpuledger.capture.command_text import (
    Edit,
    SimpleCommand,
    UnreadableText,
    program_place,
    simple_commands,
    text_place,
)
from gpuledger.capture.secrets import without_secrets
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import Ran, fetch_output, run

PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_MPI: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "mpiexec.openmpi", "mpirun.openmpi")
LAUNCHERS: Final = ("torchrun", *_MPI, "srun")


class Launch(Struct, frozen=True):
    """A launcher with its options, and the program of each rank."""

    command: tuple[str, ...]
    begin: int  # where the program's own words begin
    rank_variable: str
    python: tuple[str, ...] = ()  # the interpreter that the launcher would put before the program by itself
    is_module: bool = False
    said: tuple[int, ...] = ()
    """The words that tell torchrun what the program is. Before a profiler they would be about the profiler."""
    starts_python: bool = False
    """Whether the launcher puts a Python interpreter before the program unless told otherwise."""

    @property
    def head(self) -> tuple[str, ...]:
        """The launcher and its options, without what says that the program is Python."""
        return tuple(word for place, word in enumerate(self.command[: self.begin]) if place not in self.said)

    @property
    def program(self) -> tuple[str, ...]:
        """What a rank runs, as a command of its own; for Python, the interpreter comes first."""
        return (*self.python, *self.target)

    @property
    def target(self) -> tuple[str, ...]:
        """The same behind the interpreter."""
        return (*(("-m",) if self.is_module else ()), *self.command[self.begin :])

    def with_each_rank(self, before: Sequence[str], behind_python: Sequence[str] = ()) -> tuple[Edit, ...]:
        """Puts words in front of every rank's program, and some between its interpreter and its script."""
        own = ("--no-python",) if self.starts_python else ()
        module = ("-m",) if self.is_module else ()
        dropped = tuple(Edit(place, place + 1, ()) for place in self.said)
        return (*dropped, Edit(self.begin, self.begin, (*own, *before, *self.python, *behind_python, *module)))


_TORCHRUN_FLAGS: Final = frozenset(
    ("--standalone", "--no-python", "--run-path", "-m", "--module", "--use-agent-store", "--help", "-h")
)
_MPI_VALUES: Final = {
    **dict.fromkeys(("-n", "-np", "--np", "-c", "-H", "-host", "--host", "-hostfile", "--hostfile", "-f"), 1),
    **dict.fromkeys(("-machinefile", "--machinefile", "-ppn", "-perhost", "-N", "-npernode", "--npernode"), 1),
    **dict.fromkeys(("-x", "-env", "-genvlist", "-envlist", "-wdir", "--wdir", "-wd", "-path", "--path"), 1),
    **dict.fromkeys(("--map-by", "-map-by", "--bind-to", "-bind-to", "--rank-by", "-rank-by", "--prefix"), 1),
    **dict.fromkeys(("-hosts", "--hosts", "-rankfile", "--rankfile", "-rf", "--output-filename", "-iface"), 1),
    **dict.fromkeys(("-mca", "--mca", "-gmca", "--gmca", "-genv", "--genv"), 2),
}
_SRUN_VALUES: Final = frozenset(
    (
        *("-n", "-N", "-c", "-p", "-t", "-A", "-J", "-w", "-x", "-G", "-q", "-o", "-e", "-i", "-D", "-d", "-m", "-C"),
        *("--ntasks", "--nodes", "--cpus-per-task", "--partition", "--time", "--account", "--job-name", "--nodelist"),
        *("--exclude", "--gpus", "--gpus-per-node", "--gpus-per-task", "--ntasks-per-node", "--qos", "--output"),
        *("--error", "--input", "--chdir", "--mem", "--mpi", "--gres", "--constraint", "--container-image"),
        *("--container-mounts", "--container-name", "--container-workdir", "--jobid", "--reservation", "--export"),
        *("--cpu-bind", "--gpu-bind", "--distribution", "--dependency", "--mem-per-cpu", "--mem-per-gpu"),
    )
)


def launch_of(command: Sequence[str], rank_variable: str | None = None, *, is_here: bool = True) -> Launch | None:
    """How a command starts its ranks; None if it does not begin with a launcher that is known here.

    Where it is not run here, or only behind what a shell sets up, nothing is looked up on our own PATH.
    """
    command = tuple(command)
    name = Path(command[0]).name
    if name == "torchrun":
        return _torchrun(command, 1, python_beside(command[0], is_here=is_here), rank_variable)
    modules = ("torch.distributed.run", "torch.distributed.launch")
    if PYTHON.fullmatch(name) and command[1:2] == ("-m",) and "".join(command[2:3]) in modules:
        return _torchrun(command, 3, command[0], rank_variable)
    if name in _MPI:
        if ":" in command:
            raise GpuledgerError("mpirun with several programs (`:`) cannot be rewritten: put nsys before each by hand")
        variable = rank_variable or ("PMI_RANK" if "hydra" in name else "OMPI_COMM_WORLD_RANK")
        return _split(command, _MPI_VALUES, variable)
    if name == "srun":
        return _split(command, dict.fromkeys(_SRUN_VALUES, 1), rank_variable or "SLURM_PROCID")
    return None


def python_beside(script: str, *, is_here: bool) -> str:
    """The interpreter that a script of a Python package would use: the one of its own folder."""
    if not is_here:
        return str(Path(script).parent / "python") if "/" in script else "python"
    path = shutil.which(script)
    beside = Path(path or "").parent / "python"
    return str(beside) if path and beside.exists() and shutil.which("python") != str(beside) else "python"


def _torchrun(command: tuple[str, ...], place: int, python: str, rank_variable: str | None) -> Launch:
    said: list[int] = []
    is_module = is_program = False
    while place < len(command) and command[place].startswith("-") and command[place] != "--":
        name = command[place].replace("_", "-")
        if name == "--run-path":
            raise GpuledgerError("torchrun --run-path leaves no place for a profiler: take it out")
        if name in ("-m", "--module", "--no-python"):
            said.append(place)
            is_module, is_program = is_module or name != "--no-python", is_program or name == "--no-python"
        elif "=" not in name and name not in _TORCHRUN_FLAGS:
            place += 1
        place += 1
    if command[place : place + 1] == ("--",):
        said.append(place)
        place += 1
    _check_program(command, place)
    return Launch(
        command,
        place,
        rank_variable or "RANK",
        python=() if is_program else (python, "-u"),
        is_module=is_module and not is_program,
        said=tuple(said),
        starts_python=True,
    )


def _split(command: tuple[str, ...], values: Mapping[str, int], variable: str) -> Launch:
    place = 1
    while place < len(command) and command[place].startswith("-") and command[place] != "--":
        place += 1 + values.get(command[place], 0)
    if command[place : place + 1] == ("--",):
        place += 1
    _check_program(command, place)
    return Launch(command, place, variable)


def _check_program(command: tuple[str, ...], place: int) -> None:
    if place >= len(command):
        raise GpuledgerError(f"{' '.join(command)}: no program to run")
    if command[place].startswith(("$", "`")):
        raise GpuledgerError(
            f"{command[0]}: whether {command[place]} is the program or options cannot be known before the shell runs",
            hint="write the options out, and a program in a variable in quotes",
        )


class MainProgram(Struct, frozen=True):
    """Where the program stands in a command."""

    words: tuple[str, ...]  # the program and its arguments; those of a text as they are written there
    place: int  # of its first word, or of the text that starts it
    in_text: SimpleCommand | None = None


def main_program(command: Sequence[str]) -> MainProgram:
    """The program behind `env` and the like. Where a shell starts it from a text that can be read, the last in it that
    starts ranks or Python, else the last of all; where it cannot be read, the shell."""
    begin = program_place(command).begin
    place = text_place(command[begin:])
    commands = () if place is None else _commands(command[begin + place])
    known = [found for found in commands if (name := Path(found.words[0]).name) in LAUNCHERS or PYTHON.fullmatch(name)]
    for found in (known or commands)[-1:]:
        return MainProgram(found.words, begin + (place or 0), found.in_text)
    return MainProgram(tuple(command[begin:]), begin)


def is_direct(command: Sequence[str]) -> bool:
    """Whether nothing stands before the program that could change its environment."""
    return program_place(command).begin == 0 and text_place(command) is None


def _commands(text: str) -> list[MainProgram]:
    try:
        commands = simple_commands(text)
    except UnreadableText:
        return []
    programs = [(command, program_place(command.plain, in_text=True).begin) for command in commands]
    return [
        MainProgram(tuple(word.source for word in command.words[begin:]), 0, command)
        for command, begin in programs
        if begin < len(command.words)
    ]


_SSH: Final = "ssh"
_VALUE_LETTERS: Final = {
    _SSH: "BbcDEeFIiJLlmOopQRSWw",
    **dict.fromkeys(("kubectl", "oc"), "cfnsv"),
    **dict.fromkeys(("docker", "podman", "nerdctl", "crictl"), "euwr"),
}
"""The programs that are known here, with their options of one letter that take a value."""


def prefix_words(via: str) -> tuple[str, ...]:
    """The words of --via, if a command can be put behind them."""
    try:
        words = tuple(shlex.split(via))
    except ValueError as error:
        raise GpuledgerError(f"--via={via!r}: {str(error).lower()}") from None
    if not words:
        raise GpuledgerError("--via is empty", hint="e.g. --via='ssh HOST' or --via='kubectl exec POD --'")
    if Path(words[0]).name in ("kubectl", "oc") and "--" not in words:
        raise GpuledgerError(f"--via={via!r}: kubectl takes what follows for its own options", hint="end it with --")
    for program, options in _programs(words):
        if asking := [option for option in options if _asks_for_terminal(program, option)]:
            raise GpuledgerError(
                f"--via={via!r}: {asking[0]} asks {program} for a terminal",
                found="a terminal changes line ends, so what comes back is damaged, and puts errors into the output",
                hint=f"leave it out{'; -i alone may stay' if program != _SSH else ''}",
            )
    return words


def shells_behind(words: Sequence[str]) -> int:
    """How many shells take apart what is put behind the prefix: one for each ssh."""
    return sum(1 for program, _ in _programs(words) if program == _SSH)


def _programs(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The known programs of a prefix, each with its options and their values; a value or a host is no program."""
    place = 0
    while place < len(words):
        program = Path(words[place]).name
        place += 1
        if program not in _VALUE_LETTERS:
            continue
        options = list[str]()
        has_host = False
        while place < len(words) and words[place] != "--":
            word = words[place]
            if word.startswith("-"):
                taken = 1 + _takes_next(program, word)
                options.append(" ".join(words[place : place + taken]))
                place += taken
            elif program == _SSH and not has_host:
                has_host, place = True, place + 1
            elif program == _SSH or Path(word).name in _VALUE_LETTERS:
                break
            else:
                place += 1
        yield program, options


def _takes_next(program: str, option: str) -> bool:
    """Whether an option's value is the next word: its last letter takes one, and none before does."""
    if option.startswith("--"):
        return False
    valued = [letter in _VALUE_LETTERS[program] for letter in option[1:]]
    return bool(valued) and valued[-1] and not any(valued[:-1])


def _asks_for_terminal(program: str, option: str) -> bool:
    if option.startswith("--"):
        return option in ("--tty", "--tty=true")
    for place, letter in enumerate(option[1:], 1):
        if letter in _VALUE_LETTERS[program]:
            setting = option[place + 1 :].replace(" ", "").lower()
            return program == _SSH and letter == "o" and setting in ("requesttty=yes", "requesttty=force")
        if letter == "t":
            return True
    return False


_SECONDS: Final = 60.0
_START: Final = (
    'umask 077; mkdir "$1" || exit 125; echo "$$" > "$1/pid"; PATH="$PATH:/usr/local/cuda/bin"; export PATH; '
    '[ -z "$2" ] || echo "$2" | base64 -d | gzip -dc > "$1/script" || exit 125; shift 2; exec "$@"'
)
"""The folder is new, or it is somebody else's. `exec` keeps the process id that was noted.

A script of ours travels in the command: standard input is the program's, and not every prefix hands that over.
"""
_SIGNAL: Final = (
    'p=$(cat "$1/pid") && read -r stat < "/proc/$p/stat" || exit 0; s=$2; set -- ${stat##*) }; '
    'case $3 in 0|1) kill -s "$s" "$p";; *) kill -s "$s" -- "-$3";; esac'
)
"""To the process group, as a terminal does: the third word behind the name in /proc. Not to the one of init."""


class Remote(Struct, frozen=True):
    """Where a command is to run, and the folder for its files there."""

    prefix: tuple[str, ...]
    folder: str = field(default_factory=lambda: f"/tmp/gpuledger-{secrets.token_hex(6)}")  # noqa: S108 - made anew

    @property
    def script(self) -> str:
        return f"{self.folder}/script"

    @property
    def environment_file(self) -> str:
        """Where what the program's environment was is written down."""
        return f"{self.folder}/environment"

    def argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command with its prefix, quoted once for each shell on the way."""
        for _ in range(shells_behind(self.prefix)):
            command = [shlex.quote(word) for word in command]
        return (*self.prefix, *command)

    def started(
        self, command: Sequence[str], variables: Mapping[str, str] | None = None, script: Path | None = None
    ) -> tuple[str, ...]:
        """The same, with the folder made first, the process id noted in it, and the environment set."""
        packed = "" if script is None else base64.b64encode(gzip.compress(script.read_bytes(), mtime=0)).decode()
        setting = ("env", *(f"{name}={value}" for name, value in variables.items())) if variables else ()
        return self.argv(("sh", "-c", _START, "sh", self.folder, packed, *setting, *command))

    def signalled(self, which: signal.Signals) -> None:
        run(self.argv(("sh", "-c", _SIGNAL, "sh", self.folder, which.name.removeprefix("SIG"))), seconds=_SECONDS)

    def names(self) -> tuple[str, ...]:
        listed = self._asked("ls", self.folder)
        return tuple(listed.output.splitlines()) if listed.exit_code == 0 else ()

    def environment_seen(self) -> str | None:
        """What was written down about the program's environment; None where nothing was."""
        shown = self._asked("cat", self.environment_file)
        return shown.output if shown.exit_code == 0 else None

    def exported(self, report: str, target: str, *, seconds: float) -> Ran:
        options = ("--type=sqlite", "--force-overwrite=true", "--quiet=true", f"--output={self.folder}/{target}")
        path = 'PATH="$PATH:/usr/local/cuda/bin"; export PATH; exec nsys export "$@"'
        return run(self.argv(("sh", "-c", path, "sh", *options, f"{self.folder}/{report}")), seconds=seconds)

    def fetched(self, name: str, target: Path, interruption: Interruption) -> None:
        """Copy a file here, and count its bytes: connections break, and terminals change line ends."""
        there = f"{self.folder}/{name}"
        counted = self._asked("wc", "-c", there)
        size = re.search(r"(?m)^\s*(\d+)", counted.output)
        exit_code = fetch_output(self.argv(("cat", there)), target, interruption)
        got = target.stat().st_size if target.exists() else 0
        if exit_code != 0 or size is None or got != int(size[1]):
            target.unlink(missing_ok=True)
            prefix = shlex.join(without_secrets(self.prefix))
            raise ToolFailed(
                f"{name} could not be copied back whole: {got} of {size[1] if size else 'an unknown number of'} bytes",
                found=f"it is at {there} on the other side, reached with `{prefix}`",
                hint="does something there write to standard output when a shell starts, or ask for a terminal?",
            )

    def cleaned(self) -> None:
        self._asked("rm", "-rf", "--", self.folder)

    def _asked(self, *command: str) -> Ran:
        return run(self.argv(command), seconds=_SECONDS)


def remote(via: str) -> Remote:
    """The place that --via names."""
    return Remote(prefix_words(via))
