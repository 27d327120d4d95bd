"""Help and interruption come before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys

from support.command import ROOT


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "sqlite3", "platformdirs", "json", "mcp", "anyio", "pydantic"}
    code = "import sys; from gpuledger.cli.main import cli; cli.main(['--help'], standalone_mode=False); "
    code += f"sys.stderr.write(' '.join(sys.modules.keys() & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: ")
    assert done.stderr == ""


def test_importing_the_command_loads_nothing() -> None:
    """Ctrl-C while modules are loaded is caught in `main`: what is loaded before it would show a traceback."""
    code = "import sys; known = {*sys.modules}; import gpuledger.__main__; print(*sorted({*sys.modules} - known))"
    found = {"PYTHONPATH": str(ROOT / "src")}  # without site nothing else says where it is installed
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=found)
    assert {*ran.stdout.split()} <= {"__future__", "gc", "gpuledger", "gpuledger.__main__"}
