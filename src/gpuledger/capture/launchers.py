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

from gpuledger.errors import GpuledgerError

PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launcher with its options, and the program of each rank."""

    head: tuple[str, ...]
    """The launcher and its options, without what says that the program is Python."""
    program: tuple[str, ...]
    """What a rank runs, as a command of its own; for Python, the interpreter comes first."""
    rank_variable: str
    """The variable that says which rank a process is."""
    starts_python: bool = False
    """Whether the launcher puts a Python interpreter before the program by itself."""

    def with_each_rank(self, before: Sequence[str]) -> tuple[str, ...]:
        """The command in which `before` stands in front of every rank's program."""
        own = ("--no-python",) if self.starts_python else ()
        return (*self.head, *own, *before, *self.program)


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


def launched(command: Sequence[str], rank_variable: str | None = None) -> Launch | None:
    """How a command starts its ranks; None if it does not begin with a launcher that is known here."""
    command = tuple(command)
    name = Path(command[0]).name
    if name == "torchrun":
        return _torchrun(command[:1], command[1:], _python_beside(command[0]), rank_variable)
    if PYTHON.fullmatch(name) and tuple(command[1:2]) == ("-m",) and command[2:3]:
        if command[2] in ("torch.distributed.run", "torch.distributed.launch"):
            return _torchrun(command[:3], command[3:], command[0], rank_variable)
        return None
    if name in ("mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "mpiexec.openmpi", "mpirun.openmpi"):
        if ":" in command:
            raise GpuledgerError("mpirun with several programs (`:`) cannot be rewritten: put nsys before each by hand")
        variable = rank_variable or ("PMI_RANK" if "hydra" in name else "OMPI_COMM_WORLD_RANK")
        return _split(command, {**_MPI_VALUES}, variable)
    if name == "srun":
        return _split(command, dict.fromkeys(_SRUN_VALUES, 1), rank_variable or "SLURM_PROCID")
    return None


def _torchrun(head: Sequence[str], rest: Sequence[str], python: str, rank_variable: str | None) -> Launch:
    options: list[str] = []
    is_module = is_program = False
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        word = rest[at]
        name = word.replace("_", "-")
        if name == "--run-path":
            raise GpuledgerError("torchrun --run-path leaves no place for a profiler: take it out")
        if name in ("-m", "--module"):
            is_module = True
        elif name == "--no-python":
            is_program = True
        elif "=" in word or name in _TORCHRUN_FLAGS:
            options.append(word)
        else:
            options += rest[at : at + 2]
            at += 1
        at += 1
    program = tuple(rest[at + 1 :] if rest[at : at + 1] == ("--",) else rest[at:])
    if not program:
        raise GpuledgerError(f"{' '.join(head)}: no program to run")
    if not is_program:
        program = (python, "-u", *(("-m",) if is_module else ()), *program)
    return Launch((*head, *options), program, rank_variable or "RANK", starts_python=True)


def _python_beside(torchrun: str) -> str:
    """The interpreter that torchrun would use: the one of its own folder."""
    found = shutil.which(torchrun)
    beside = Path(found).parent / "python" if found else None
    if beside is None or not beside.exists() or shutil.which("python") == str(beside):
        return "python"
    return str(beside)


def _split(command: Sequence[str], values: dict[str, int], variable: str) -> Launch:
    at = 1
    while at < len(command) and command[at].startswith("-") and command[at] != "--":
        at += 1 + values.get(command[at], 0)
    if command[at : at + 1] == ("--",):
        at += 1
    program = tuple(command[at:])
    if not program:
        raise GpuledgerError(f"{command[0]}: no program to run")
    return Launch(tuple(command[:at]), program, variable)
