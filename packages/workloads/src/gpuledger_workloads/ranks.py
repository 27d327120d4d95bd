"""One program on many ranks: a function and its options in, what each rank found out, in the order of ranks.

Under torchrun (RANK and WORLD_SIZE are set) each process is a rank already, and rank 0 alone gets the answers.
Otherwise the processes are started here, joined over the loopback interface, and ended together: a rank that fails,
or Ctrl-C, ends all of them. A single rank needs no second process, so that a profiler sees it where it looks.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
import torch.multiprocessing as mp  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.program import Result, is_under_torchrun, refuse

_END_S = 10
_ECHO_S = 5


@dataclass(frozen=True, slots=True)
class Rank:
    """Who runs: one of `count` ranks, which talk through `backend`; `device` is where its tensors live."""

    index: int
    count: int
    backend: str
    device: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a rank could not; an echo if it only heard another one fall silent."""

    sentence: str
    hint: str = ""
    is_echo: bool = False


Work = Callable[[Rank, argparse.Namespace], Result]
"""A function at the top of a module: other processes import it."""


def over_ranks(work: Work, options: argparse.Namespace) -> list[Result] | None:
    """Do `work` on every rank. None on ranks of torchrun other than 0."""
    options.backend = options.backend or ("nccl" if options.device == "cuda" else "gloo")
    if is_under_torchrun():
        index, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        _check(options.backend, options.device, int(os.environ.get("LOCAL_WORLD_SIZE", count)))
        options.world_size = count
        return _joined(work, options, index, count, int(os.environ.get("LOCAL_RANK", index)), "env://")
    count = options.world_size
    _check(options.backend, options.device, count)
    port = options.master_port or _free_port()
    if count == 1:
        try:
            return _joined(work, options, 0, 1, 0, f"tcp://127.0.0.1:{port}")
        finally:
            if dist.is_initialized():  # after a fault; nobody else is waited for
                dist.destroy_process_group()
    return _started(work, options, count, f"tcp://127.0.0.1:{port}")


def _check(backend: str, device: str, here: int) -> None:
    if backend == "gloo":
        return
    if device != "cuda":
        refuse("nccl moves memory of GPUs only", hint="--backend=gloo runs on the host")
    gpus = torch.cuda.device_count()
    if here > gpus:
        refuse(f"nccl needs a GPU for each rank: {here} ranks, {gpus} GPUs", hint="--backend=gloo lets ranks share one")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _joined(
    work: Work, options: argparse.Namespace, index: int, count: int, local: int, address: str
) -> list[Result] | None:
    """As one rank: join the others, work, and bring the answers to rank 0."""
    device = options.device
    if device == "cuda":
        device = f"cuda:{local % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    dist.init_process_group(
        options.backend,
        init_method=address,
        rank=index,
        world_size=count,
        timeout=timedelta(seconds=options.timeout),
        **({"device_id": torch.device(device)} if options.backend == "nccl" else {}),
    )
    answer = work(Rank(index, count, options.backend, device), options)
    answers: list[Any] | None = [None] * count if index == 0 else None
    dist.gather_object(answer, answers)
    gc.collect()  # nccl waits for ever for a CUDA graph that still holds its kernels
    dist.destroy_process_group()  # not after a fault: it would wait for the others, or break their talk first
    return answers


def _started(work: Work, options: argparse.Namespace, count: int, address: str) -> list[Result]:
    """Start the ranks as processes, and wait for rank 0's answer, or for the first that fails."""
    context: Any = mp.get_context("spawn")  # a forked process cannot use CUDA
    ears: dict[Connection, int] = {}
    processes = []
    try:
        for index in range(count):
            ear, mouth = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(work, options, index, count, address, mouth), daemon=True)
            process.start()
            mouth.close()
            processes.append(process)
            ears[ear] = index
        return _heard(ears)
    finally:
        for process in processes:
            process.join(0 if sys.exc_info()[0] else _END_S)
            if process.is_alive():
                process.kill()
                process.join()


def _heard(ears: dict[Connection, int]) -> list[Result]:
    """What rank 0 gathered, once every rank has said that it is done.

    A rank that fails breaks the others' talk, and they may complain first: theirs is told only if no other is heard.
    """
    answers: list[Result] = []
    waiting: dict[Any, int] = dict(ears)
    echo: Fault | None = None
    while waiting:
        ready: list[Any] = wait(list(waiting), None if echo is None else _ECHO_S)
        for ear in ready:
            index, fault, gathered = waiting.pop(ear), None, None
            try:
                fault, gathered = ear.recv()
            except EOFError:
                hint = "its own messages stand above; was memory short?"
                fault = Fault(f"rank {index} ended without a word", hint)
            if fault is not None and not fault.is_echo:
                refuse(fault.sentence, fault.hint)
            echo = echo or fault
            answers = gathered or answers
        if echo and not ready:
            break
    if echo:
        refuse(echo.sentence, echo.hint)
    return answers


def _rank(work: Work, options: argparse.Namespace, index: int, count: int, address: str, mouth: Connection) -> None:
    """The body of a started process: what it found, or why it could not, goes back to its parent."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    try:
        mouth.send((None, _joined(work, options, index, count, index, address)))
    except SystemExit as end:
        sentence, _, hint = str(end.code).removeprefix("error: ").partition("\n\nhint: ")
        mouth.send((Fault(f"rank {index}: {sentence}", hint), None))
    except KeyboardInterrupt:
        mouth.close()  # the parent was interrupted too
    except Exception as error:
        is_echo = isinstance(error, dist.DistError) or "gloo" in str(error).lower()
        if not is_echo:
            traceback.print_exc()
        first_line = next(iter(str(error).strip().splitlines()), "it gave no reason")
        sentence = f"rank {index}: {type(error).__name__}: {first_line}"
        mouth.send((Fault(sentence, is_echo=is_echo), None))


def slowest(results: Sequence[Result], key: str) -> tuple[int, float]:
    """The rank where `key` is largest, and how large."""
    index = max(range(len(results)), key=lambda rank: float(results[rank][key]))
    return index, float(results[index][key])
