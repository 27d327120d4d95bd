"""Who does the work: Dask workers on this machine, or those of a cluster that runs already. The only module with Dask.

A worker has one thread, because reading a profile is Python and numpy under one lock. Its memory is a fair share of
what is free; Dask kills a worker that takes more, and gives its task to another, `ATTEMPTS` times in all. Results are
fetched as they come, so that a worker that dies later takes none of them with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any, Final, TypeVar

from gpuledger.errors import MissingPackage, ToolFailed

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKER_BYTES: Final = 2 << 30
"""What one worker should have at least."""
ATTEMPTS: Final = 4
_LOOK_EVERY_S: Final = 0.05
_CONNECT_S: Final = 10

_CONFIG: Final = {
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    # a worker holds the one task it works on, so that a profile that kills workers takes no other with it
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.work-stealing": False,
    # results are small: there is nothing to spill, and a paused worker would have nothing to wait for
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.worker.profile.enabled": False,
    # Dask's default has malloc give memory back at once, which makes reading up to ten times slower
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1},
}


def are_possible() -> bool:
    """Whether Dask is installed."""
    try:
        return importlib.util.find_spec("distributed") is not None
    except ValueError:  # a module without a description, as a test puts in its place
        return False


def worker_count(profiles: int, largest_bytes: int) -> int:
    """How many workers this machine has cores and memory for, if reading one profile takes up to `largest_bytes`."""
    _distributed()
    cores = int(importlib.import_module("dask.system").CPU_COUNT)
    return max(min(cores, profiles, _free_bytes() // max(largest_bytes, WORKER_BYTES)), 1)


@contextlib.contextmanager
def local_workers(count: int) -> Iterator[Any]:
    """A client of `count` processes on this machine, which end with it."""
    distributed = _distributed()
    config = importlib.import_module("dask.config")
    stack = contextlib.ExitStack()
    try:
        with _interrupts_wait():
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-", ignore_cleanup_errors=True))
            stack.enter_context(config.set(_CONFIG | {"temporary-directory": scratch}))
            cluster = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit=max(_free_bytes() // count, WORKER_BYTES // 4),
                dashboard_address="127.0.0.1:0",  # its server runs with or without pages, and 8787 may be taken
                scheduler_kwargs={"dashboard": False},
                local_directory=scratch,
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        yield client
    finally:
        with _interrupts_wait():
            stack.close()


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits until this has ended, and never reaches the threads and processes that are started here.

    It is for the program, which then ends its workers; Dask leaves tracebacks when it is interrupted half-way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # left to multiprocessing, this would let signals through again
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def workers_of(scheduler: str) -> Iterator[Any]:
    """A client of a cluster that runs already."""
    distributed = _distributed()
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        raise ToolFailed(
            f"{scheduler}: no Dask scheduler answers there",
            found=reason,
            hint="start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads=1`",
        ) from None
    with client:
        yield client


def spread(
    client: Any,
    task: Callable[[Item], Result],
    items: Sequence[Item],
    lost: Callable[[Item, Exception], Result],
    tell: Callable[[int], None],
) -> list[Result]:
    """What `task` gives for each item, in their order; `lost` says what to give where no worker survived the task."""
    futures = client.map(task, items, pure=False)
    number = {future.key: at for at, future in enumerate(futures)}
    results: dict[int, Result] = {}
    ready = _distributed().as_completed(futures, loop=client.loop)
    while len(results) < len(items):
        for future in ready.next_batch(block=False):
            at = number[future.key]
            if future.cancelled():
                raise ToolFailed("the Dask scheduler went away", found=f"{len(results)} of {len(items)} profiles done")
            try:
                results[at] = future.result()
            except Exception as error:  # whatever a worker or its network says; the task itself raises nothing
                results[at] = lost(items[at], error)
            future.release()
        tell(len(results))
        time.sleep(_LOOK_EVERY_S)
    return [results[at] for at in range(len(items))]


def died(error: Exception) -> str:
    """Why a task has no result, in words."""
    if type(error).__name__ == "KilledWorker":
        return f"{ATTEMPTS} workers died over it, most likely for want of memory"
    return " ".join(f"no worker could take it: {type(error).__name__}: {error}".split())


def _free_bytes() -> int:
    """Memory that is free now, inside the limits that the system or a container sets."""
    _distributed()
    limit = int(importlib.import_module("distributed.system").MEMORY_LIMIT)
    return min(int(importlib.import_module("psutil").virtual_memory().available), limit)


def _distributed() -> Any:
    """The package, loaded when it is first needed: it takes a second."""
    try:
        package = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingPackage(
            "reading several profiles at once needs Dask, which is not installed",
            found=str(error),
            hint="`pip install 'gpuledger[fleet]'`, or read them one after another with `--workers=0`",
        ) from error
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return package
