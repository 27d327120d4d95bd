"""How long `gpuledger --help` takes, as a ratio to `import click` alone. Min of several runs."""

from __future__ import annotations

import subprocess
import sys
import time

RUNS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import click'": [sys.executable, "-c", "import click"],
    "gpuledger --help": [sys.executable, "-m", "gpuledger", "--help"],
    "gpuledger stats --help": [sys.executable, "-m", "gpuledger", "stats", "--help"],
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
}


def best(command: list[str]) -> float:
    found = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    times = {name: best(command) for name, command in COMMANDS.items()}
    base = times["python -c 'import click'"]
    for name, seconds in times.items():
        print(f"{name:28} {1e3 * seconds:7.1f} ms  {seconds / base:5.2f} x import click")


if __name__ == "__main__":
    main()
