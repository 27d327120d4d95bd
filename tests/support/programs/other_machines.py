"""Other machines to record on: a real sshd on this one, and a stand-in for kubectl that forwards nothing.

Both start programs with an environment of their own, in which the programs of one folder are found: Python, a stand-in
for nsys, one for torchrun, and a module that stands in for torch where a program asks for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command import PATIENCE_S
from support.programs.capture_tools import FAKE

TORCHRUN = """\
import os, subprocess, sys
program = sys.argv[sys.argv.index("--no-python") + 1 :]
ranks = [subprocess.Popen(program, env=dict(os.environ, RANK=str(rank))) for rank in (0, 1)]
sys.exit(max(rank.wait() for rank in ranks))
"""

TORCH = """\
import contextlib, shutil
from types import SimpleNamespace as Space

class profile:
    def __init__(self, on_trace_ready, **_):
        self.on_trace_ready = on_trace_ready
    def start(self):
        pass
    def stop(self):
        self.on_trace_ready and self.on_trace_ready(self)
    def export_chrome_trace(self, path):
        shutil.copyfile({trace!r}, path)

profiler = Space(
    profile=profile, ProfilerActivity=Space(CPU=0, CUDA=1), record_function=lambda name: contextlib.nullcontext()
)
cuda = Space(
    is_available=lambda: False, nvtx=Space(range_push=lambda name: 0, range_pop=lambda: 0),
    profiler=Space(start=lambda: None, stop=lambda: None),
)
"""

KUBECTL = """\
#!/bin/sh
# kubectl exec [options] POD -- COMMAND...
printf '%s\\n' "$@" >> "{folder}/asked"; printf '\\0' >> "{folder}/asked"
for word in "$@"; do
    case $word in
        --) break;;
        -t|-it|-ti|--tty) [ -t 0 ] || {{ echo 'Unable to use a TTY - input is not a terminal' >&2; exit 1; }};;
    esac
done
while [ "$1" != -- ]; do shift; done
shift
cd "{folder}" && exec env -i HOME="{folder}" PATH="{path}" "$@"
"""


@dataclass(frozen=True)
class OtherMachine:
    """What --via says to get there, and the folder of its programs."""

    via: str
    folder: Path


def furnished(folder: Path, export: Path, trace: Path) -> str:
    """Puts the programs there; the PATH on which they are found."""
    programs = folder / "bin"
    programs.mkdir()
    (folder / "torch.py").write_text(TORCH.format(trace=str(trace)))
    (folder / "torchrun.py").write_text(TORCHRUN)
    starts = f'exec "{sys.executable}"'
    for name, line in {
        "python": f'PYTHONPATH="{folder}:{os.environ.get("PYTHONPATH", "")}" {starts} "$@"',
        "nsys": f'FAKE_EXPORT="{export}" {starts} "{FAKE}" "$@"',
        "torchrun": f'{starts} "{folder / "torchrun.py"}" "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    (folder / ".profile").write_text(f'export PATH="{path}"\n')  # a login shell sets its own before that
    return path


def pod(folder: Path, path: str) -> OtherMachine:
    """A pod, through a stand-in for kubectl."""
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL.format(folder=folder, path=path))
    kubectl.chmod(0o755)
    return OtherMachine(f"'{kubectl}' exec POD --", folder)


@contextlib.contextmanager
def ssh_host(folder: Path, path: str) -> Iterator[OtherMachine]:
    """This machine through a real sshd with keys of its own; skips where there is none, or it lets no one in."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("no sshd here: install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # as root it insists on that folder
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "sshd_config").write_text(
        f'Port {port}\nListenAddress 127.0.0.1\nHostKey "{folder}/host"\nAuthorizedKeysFile "{folder}/user.pub"\n'
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f'PermitRootLogin yes\nMaxSessions 50\nSetEnv "PATH={path}" "HOME={folder}"\n'
    )
    with tempfile.TemporaryDirectory(prefix="ssh-") as short:  # a socket's path must be
        (folder / "config").write_text(
            f'Host there\n HostName 127.0.0.1\n Port {port}\n IdentityFile "{folder}/user"\n IdentitiesOnly yes\n'
            f" StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n BatchMode yes\n"
            f" ControlPath {short}/one\n"
        )
        ssh = ["ssh", "-F", str(folder / "config")]
        with (folder / "sshd.log").open("wb") as log:
            server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        try:
            _connected(
                [*ssh, "-MNf", "there"], folder / "sshd.log", server
            )  # one connection for all: the rest is quick
            yield OtherMachine(f"ssh -F '{folder}/config' there", folder)
        finally:
            subprocess.run([*ssh, "-O", "exit", "there"], check=False, capture_output=True)
            server.terminate()
            server.wait()


def _connected(connect: list[str], log: Path, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    while subprocess.run(connect, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        said = log.read_text(errors="replace")
        if server.poll() is not None or "Failed publickey" in said or "not allowed" in said:
            pytest.skip(f"sshd lets no one in here: {said.strip().splitlines()[-1:]}")
        if time.monotonic() > until:
            raise TimeoutError(said)
        time.sleep(0.02)
