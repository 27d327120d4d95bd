"""Another user of the machine, where root runs this: while a verb works, nothing of ours can be read, written or asked.

`nobody` looks through the folders that the verb uses and through its processes, and at sockets that take connections:
there are none, but for the one of `view`, which answers nobody who does not know its address.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from support.programs.own_processes import PROBE, family, listening
from support.traces.rank_traces import generator
from torture.bench import Bench, Verdict
from torture.captures import an_export

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def can_try() -> bool:
    """Whether somebody else can be asked."""
    return os.geteuid() == 0 and shutil.which("setpriv") is not None and Path("/proc/net/tcp").exists()


def cases(bench: Bench) -> Iterator[Verdict]:
    ranks = bench.folder / "ranks"
    generator().write_job(ranks, ranks=2, events=400, steps=2, late=1, packed=True)
    book = bench.folder / "slow.yaml"
    steps = [{"command": [sys.executable, "-c", "import time; time.sleep(1)"]}]
    book.write_text(json.dumps({"runbook": 1, "name": "slow", "question": "Who reads?", "steps": steps}))
    while True:
        export = an_export(bench.folder, bench.chance)
        for words in (
            ("fleet", str(ranks), "--workers=2"),
            ("export", str(ranks), "--workers=2", "-o", "OPEN/job.pftrace", "--force"),
            ("run", str(book), "-o", "OPEN/out"),
            ("view", str(export), "--no-browser", "--quiet"),
        ):
            with tempfile.TemporaryDirectory() as name:
                Path(name).chmod(0o755)
                found = _reached(Path(name), [word.replace("OPEN", f"{name}/own") for word in words])
            yield Verdict(f"{words[0]}: another user", "wrong" if found else "equal", "; ".join(sorted(found)))


def _reached(folder: Path, words: list[str]) -> set[str]:
    """What another user reached at any moment of a call."""
    (folder / "own").mkdir(mode=0o700)  # where the user says to write is for the user to shut
    probe = folder / "probe.py"
    probe.write_text(PROBE)
    environment = os.environ | {"TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder), "GPULEDGER_CACHE": "always"}
    command = [sys.executable, "-m", "gpuledger", *words]
    found: set[str] = set()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as ours:
        address = ours.stdout.readline().strip() if words[0] == "view" and ours.stdout else ""
        ends = time.monotonic() + 3
        while ours.poll() is None and (words[0] != "view" or time.monotonic() < ends):
            pids = family(ours.pid)
            seen = subprocess.run(
                [*_NOBODY, sys.executable, "-I", "-S", probe, folder, ",".join(map(str, pids))],
                capture_output=True,
                text=True,
                check=False,
            )
            found |= {line for line in seen.stdout.splitlines() if line != "looked" and str(probe) not in line}
            sockets = listening(pids)
            found |= set() if address else sockets
            found |= {"view answers whoever asks"} if address and _answers(address) else set()
        if address:
            ours.kill()
    return found


def _answers(address: str) -> bool:
    """Whether the server gives the timeline to somebody who does not know the token in its address."""
    place = re.search(r"/([\w-]{32})/([^/&]+)", unquote(address))
    if place is None:
        return True  # there is no token
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=10)
    try:
        connection.request("GET", f"/{place[1][::-1]}/{place[2]}")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
