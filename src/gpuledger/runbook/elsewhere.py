"""A command of a step on another machine or in a pod: its environment goes with it and is looked at where it starts,
and what it leaves in its folder there is copied into the cell's."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from gpuledger.capture.launchers import Remote
from gpuledger.capture.manifest import Witness
from gpuledger.capture.secrets import shown_value, without_secrets
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.runbook.plan import CellJob
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import LoggedRun, Patience, run_logged

_CONNECTION_LOST: Final = 255
_NOT_FOUND: Final = 127
_DONE: Final = (0, 3)  # 3: a target was missed, and the figures that say so are there


def run_elsewhere(
    job: CellJob,
    command: Sequence[str],
    folder: Path,
    interruption: Interruption,
    *,
    log: IO[bytes],
    environment: Mapping[str, str],
    patience: Patience,
) -> LoggedRun:
    """Run it to its end; an error where it did not have its environment, or something did not come back."""
    remote = job.remote
    assert remote is not None  # noqa: S101 - who calls has looked
    witness = Witness(remote.environment_file, tuple(environment), environment)
    ended = run_logged(
        remote.started(witness.before(command), environment),
        interruption,
        log=log,
        environment={},
        seconds=job.timeout_s,
        patience=patience,
        signaller=remote.signalled,
    )
    prefix = shlex.join(without_secrets(remote.prefix))
    if ended.exit_code == _CONNECTION_LOST:
        log.write(f"error: {_without_connection(remote)}\n".encode())
        return ended
    problem = None
    if ended.exit_code == _NOT_FOUND:
        log.write(f"error: not found by `{prefix}`: programs are looked for on the PATH there\n".encode())
    elif not ended.interrupted and not ended.out_of_time:
        problem = _lost_variable(remote, witness, command, log, ended.exit_code)
        if problem is None and ended.exit_code in _DONE:
            problem = _lost_file(remote, job.left)
            for name in job.left if problem is None else ():
                remote.fetched(name, folder / name, interruption)  # where that fails, it stays there
    with suppress(ToolFailed):  # nothing depends on it, and what matters is here
        remote.cleaned()
    if problem is not None:
        raise ToolFailed(f"{problem.claim}; {problem.found}")
    return ended


def _without_connection(remote: Remote) -> str:
    """Why ssh ended as it does where a connection fails and where a signal ended the program; nothing is left there."""
    with suppress(ToolFailed):
        if remote.names():
            remote.signalled(signal.SIGKILL)  # a connection that breaks off does not end what it began
            remote.cleaned()
            return "the connection broke off, or a signal ended the program there"
    return f"there is no connection; what was begun there, if anything, is in {remote.folder}"


def _lost_variable(
    remote: Remote, witness: Witness, command: Sequence[str], log: IO[bytes], exit_code: int
) -> GpuledgerError | None:
    text = remote.environment_seen()
    seen = None if text is None else witness.read(text)
    if seen is None and exit_code != 0:
        return None  # its own end says more
    if seen is not None and exit_code in _DONE:  # else the program's last line is the last of the log
        had = " ".join(f"{name}={shlex.quote(value)}" for name, value in seen.variables.items())
        log.write(f"# right before the program there was: {had or 'nothing that was set'}\n".encode())
    return witness.complaint(seen, shlex.join(without_secrets(command)), shown_value)


def _lost_file(remote: Remote, left: Sequence[str]) -> GpuledgerError | None:
    there = remote.names() if left else ()
    absent = [name for name in left if name not in there]
    if not absent:
        return None
    others = sorted(set(there) - {"pid", "script", "environment"})
    found = f"in its folder there are: {', '.join(others)}" if others else "its folder there is empty"
    return ToolFailed(f"it left no {absent[0]}", found=found)
