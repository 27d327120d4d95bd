"""Stands in for nsys and ncu in tests: takes their options, starts the command, writes a report, misbehaves on request.

FAKE_NSYS lists how, with commas. FAKE_EXPORT is the SQLite file that `export` copies, FAKE_LOG gets every call.
"""

# ruff: noqa: T201 - it is a program
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HOW = os.environ.get("FAKE_NSYS", "").split(",")
SESSIONS = Path(os.environ.get("FAKE_SESSIONS", "/nonexistent"))


def main(argv: list[str]) -> int:
    if "FAKE_LOG" in os.environ:
        with Path(os.environ["FAKE_LOG"]).open("a") as log:
            log.write(json.dumps(argv) + "\n")
    if argv == ["--version"]:
        print("NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0")
        return 0
    if argv == ["profile", "--gpu-metrics-devices=help"]:
        print("Insufficient privilege" if "no-counters" in HOW else "\t0: Hopper GH100 | NVIDIA H200")
        return int("no-counters" in HOW)
    if Path(sys.argv[0]).stem == "ncu":
        return profile(argv, "--export", ".ncu-rep")
    verbs = {"profile": profile, "export": export, "launch": launch, "start": start, "stop": stop}
    return verbs[argv[0]](argv[1:])


def split(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options in the form --flag=value, and the command behind them."""
    at = next((at for at, word in enumerate(argv) if not word.startswith("-")), len(argv))
    return dict(word.partition("=")[::2] for word in argv[:at]), argv[at:]


def expanded(name: str) -> str:
    """As nsys reads an output's name: %% is a percent sign, %q{NAME} a variable."""
    return re.sub(r"%(%|q\{(\w+)\})", lambda m: "%" if m[1] == "%" else os.environ[m[2]], name)


def profile(argv: list[str], output: str = "--output", ending: str = ".nsys-rep") -> int:
    options, command = split(argv)
    asked = []
    signal.signal(signal.SIGINT, lambda *_: None if "deaf" in HOW or "stubborn" in HOW else asked.append(1))
    if "stubborn" in HOW:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "full" in HOW:
        print("fatal: write failed: No space left on device", file=sys.stderr)
        return 1
    if "forbidden" in HOW:
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", file=sys.stderr)
        return 1
    if "crash" in HOW:
        print("nsys: something is wrong with me", file=sys.stderr)
        return 1
    began = time.monotonic()
    program = subprocess.Popen(command)
    if "orphan" in HOW:
        subprocess.Popen(["sleep", "1000"], start_new_session=True, stderr=subprocess.DEVNULL)
    limit = float(options["--delay"]) + float(options["--duration"]) if "--duration" in options else float("inf")
    while program.poll() is None or "hang" in HOW:
        time.sleep(0.005)
        if asked and not {"deaf", "stubborn"} & set(HOW):
            break
        if time.monotonic() - began > limit:
            program.terminate()
    program.wait()
    if "slow" in HOW:
        time.sleep(0.3)
    if "no-report" not in HOW:
        report = Path(os.environ["FAKE_REPORT"]).read_bytes() if "FAKE_REPORT" in os.environ else b"a report"
        Path(expanded(options[output]) + ending).write_bytes(os.urandom(2000) if "random" in HOW else report)
    code = program.returncode
    return 128 - code if code < 0 else code


def export(argv: list[str]) -> int:
    options, _ = split(argv)
    if "export-full" in HOW:
        print("Error: database or disk is full")
        return 1
    if "export-fails" in HOW:
        print("the importer is missing")
        return 1
    if "export-hangs" in HOW:
        time.sleep(1000)
    shutil.copyfile(os.environ["FAKE_EXPORT"], options["--output"])
    return 0


def launch(argv: list[str]) -> int:
    options, command = split(argv)
    (SESSIONS / options["--session-new"]).write_text("")
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        (SESSIONS / options["--session-new"]).unlink()


def start(argv: list[str]) -> int:
    options, _ = split(argv)
    session = SESSIONS / options["--session"]
    if not session.exists():
        print(f"Session {session.name} does not exist")
        return 1
    session.write_text(expanded(options["--output"]))
    return 0


def stop(argv: list[str]) -> int:
    options, _ = split(argv)
    Path((SESSIONS / options["--session"]).read_text() + ".nsys-rep").write_bytes(b"a report")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
