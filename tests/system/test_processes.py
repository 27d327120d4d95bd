"""Programs that we start: asked to end, then told, then made; and which processes are theirs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from gpuledger.errors import ToolFailed
from gpuledger.system.interruption import Interruption, held_interrupts
from gpuledger.system.processes import MARK, Patience, ProcessTree, group_members, marked_processes, run_attended
from support.programs.capture_tools import alive


def test_a_program_is_asked_then_told_then_made() -> None:
    stages: list[str] = []
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); time.sleep(99)"
    with Interruption() as interruption:
        interruption.count = 1
        patience = Patience(asked=0.5, told=0.2, made=5)
        done = run_attended([sys.executable, "-c", code], interruption, patience=patience, on_stage=stages.append)
    assert (done.exit_code, done.interrupted) == (137, True) or stages == ["SIGINT"]
    if stages != ["SIGINT"]:  # a signal before Python has set its handlers ends it at once
        assert stages == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_whatever_goes_wrong_with_us_the_program_does_not_run_on(tmp_path: Path) -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError

    code = f"import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(99) # {tmp_path}"
    interruption = Interruption()
    interruption.count = 1
    with pytest.raises(BrokenPipeError):
        run_attended([sys.executable, "-c", code], interruption, on_stage=broken)
    assert alive(str(tmp_path)) == []


def test_signals_are_ours_only_meanwhile() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert not interruption
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.count == 2
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGHUP])
def test_what_was_ignored_stays_ignored(which: signal.Signals) -> None:
    before = signal.signal(which, signal.SIG_IGN)
    code = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    try:
        with Interruption() as interruption, held_interrupts():
            os.kill(os.getpid(), which)
            assert run_attended([sys.executable, "-c", code], interruption).exit_code == 0
            os.kill(os.getpid(), which)
            assert interruption.count == 0
        assert signal.getsignal(which) is signal.SIG_IGN
    finally:
        signal.signal(which, before)


def test_ctrl_c_is_held_back_until_the_end() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    reached = False
    try:
        with pytest.raises(KeyboardInterrupt), held_interrupts():  # noqa: PT012 - what is raised comes at the end
            os.kill(os.getpid(), signal.SIGINT)
            reached = True
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached


def test_only_the_end_of_what_is_said_is_kept() -> None:
    code = "import sys; sys.stdout.write('x' * 300_000 + 'end')"
    with Interruption() as interruption:
        done = run_attended([sys.executable, "-c", code], interruption, quiet=True)
    assert len(done.said) == 64 * 1024
    assert done.said.endswith("xend")


def test_what_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "not-a-program").write_text("hello")
    (tmp_path / "not-a-program").chmod(0o755)
    with Interruption() as interruption, pytest.raises(ToolFailed, match="could not be started"):
        run_attended([tmp_path / "not-a-program"], interruption)


def test_marks_are_read_from_environments(tmp_path: Path) -> None:
    for pid, content in (("10", f"A=1\0{MARK}=x\0B=2"), ("11", f"{MARK}=xy\0"), ("12", f"X{MARK}=x\0"), ("13", "")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_text(content)
    (tmp_path / "14").mkdir()
    (tmp_path / "self").mkdir()
    assert marked_processes("x", tmp_path) == (10,)
    assert marked_processes("x", tmp_path / "none") == ()


def test_members_of_a_group_are_read_from_their_state(tmp_path: Path) -> None:
    for pid, stat in (("20", "20 (a) b) S 1 7 7"), ("21", "21 (x) Z 1 7 7"), ("22", "22 (x) R 1 8 8"), ("23", "")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(stat)
    assert group_members(7, tmp_path) == (20,)
    assert group_members(9, tmp_path) == ()


def test_a_tree_holds_children_and_what_carries_the_mark_and_nothing_else(tmp_path: Path) -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1, 21: 1, 22: 20}
    for pid, parent in parents.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a b) c) S {parent} 0")
        (tmp_path / str(pid) / "environ").write_bytes(f"A=1\0{MARK}={'x' if pid == 21 else 'y'}\0".encode())
    tree = ProcessTree(10, "x", tmp_path)
    assert tree.scan() == (10, 11, 12, 21)
    shutil.rmtree(tmp_path / "11")
    assert tree.scan() == (10, 12, 21)  # its parent is gone
