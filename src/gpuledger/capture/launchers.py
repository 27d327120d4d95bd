"""Launchers of ranks: a command in, how it starts its ranks and what each of them runs out.

torchrun, mpirun, mpiexec and srun take options of their own before the program. To know where the program begins, one
must know which options take a value in a word of its own; those that are not listed here are read as taking none when
they are short or long flags of MPI and Slurm, and as taking one when they are torchrun's.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.capture.program_place import Edit
from gpuledger.errors import GpuledgerError

PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_MPI: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "mpiexec.openmpi", "mpirun.openmpi")
LAUNCHERS: Final = ("torchrun", *_MPI, "srun")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launcher with its options, and the program of each rank."""

    command: tuple[str, ...]
    begin: int
    """Where the program's own words begin."""
    rank_variable: str
    """The variable that says which rank a process is."""
    python: tuple[str, ...] = ()
    """The interpreter that the launcher would put before the program by itself."""
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


def launched(command: Sequence[str], rank_variable: str | None = None, *, is_here: bool = True) -> Launch | None:
    """How a command starts its ranks; None if it does not begin with a launcher that is known here.

    Where it is not run here, or only behind what a shell sets up, nothing is looked up on our own PATH.
    """
    command = tuple(command)
    name = Path(command[0]).name
    if name == "torchrun":
        return _torchrun(command, 1, python_beside(command[0], is_here=is_here), rank_variable)
    if PYTHON.fullmatch(name) and tuple(command[1:2]) == ("-m",) and command[2:3]:
        if command[2] in ("torch.distributed.run", "torch.distributed.launch"):
            return _torchrun(command, 3, command[0], rank_variable)
        return None
    if name in _MPI:
        if ":" in command:
            raise GpuledgerError("mpirun with several programs (`:`) cannot be rewritten: put nsys before each by hand")
        variable = rank_variable or ("PMI_RANK" if "hydra" in name else "OMPI_COMM_WORLD_RANK")
        return _split(command, {**_MPI_VALUES}, variable)
    if name == "srun":
        return _split(command, dict.fromkeys(_SRUN_VALUES, 1), rank_variable or "SLURM_PROCID")
    return None


def python_beside(script: str, *, is_here: bool) -> str:
    """The interpreter that a script of a Python package would use: the one of its own folder."""
    if not is_here:
        return str(Path(script).parent / "python") if "/" in script else "python"
    found = shutil.which(script)
    beside = Path(found).parent / "python" if found else None
    if beside is None or not beside.exists() or shutil.which("python") == str(beside):
        return "python"
    return str(beside)


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


def _split(command: tuple[str, ...], values: dict[str, int], variable: str) -> Launch:
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
