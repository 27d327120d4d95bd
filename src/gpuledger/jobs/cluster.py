"""Work by a Dask cluster that runs already: its address, a task and items in, results out. The only module with Dask.

A result is fetched as soon as there is one. If its worker dies before that, Dask does the task again on another one;
so no fetch is waited for longer than a moment, and a cluster that has lost all its workers is given up.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from gpuledger.errors import MissingPackage, ToolFailed

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOOK_EVERY_S: Final = 0.05
_CONNECT_S: Final = 10
_FETCH_S: Final = 5
_FETCHES: Final = 12  # so often a result that is there is asked for before it is given up
_WITHOUT_WORKERS_S: Final = 300
"""So long may a cluster that had workers be without any: a batch system may start others."""


@contextlib.contextmanager
def cluster_at(scheduler: str) -> Iterator[Any]:
    """A client of a cluster. Certificates for one with TLS, and whether others are refused, is Dask's configuration."""
    distributed = _distributed()
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join((str(error) or type(error).__name__).split())
        encrypted = scheduler.startswith("tls://") or "encryption" in reason
        raise ToolFailed(
            f"{scheduler}: no Dask scheduler answers there",
            found=reason,
            hint="a cluster with TLS has an address that begins with tls://, and Dask's configuration names your "
            "certificates: distributed.comm.tls.ca-file, .client.cert and .client.key"
            if encrypted
            else "start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads=1`",
        ) from None
    with client:
        yield client


def spread(
    client: Any,
    task: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Result],
    tell: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """What `task` gives for each item, in their order; `lost` says what to give where no worker survived the task.

    Waits as long as it takes for the first worker, which may stand in a queue.
    """
    pending = dict(enumerate(client.map(task, items, pure=False)))
    results: dict[int, Result] = {}
    fetches: Counter[int] = Counter()
    deserted = _Deserted(client)
    while pending:
        for number, future in list(pending.items()):
            if future.status == "pending":
                continue
            if future.cancelled() or client.status != "running":
                raise ToolFailed("the Dask scheduler went away", found=f"{len(results)} of {len(items)} profiles done")
            try:
                results[number] = future.result(timeout=_FETCH_S)
            except TimeoutError as error:  # its worker died with it, and it is done again: else it is out of reach
                fetches[number] += 1
                if fetches[number] < _FETCHES:
                    continue
                results[number] = lost(items[number], _reason(error))
            except Exception as error:  # whatever a worker or its network says; the task itself raises nothing
                results[number] = lost(items[number], _reason(error))
            pending.pop(number).release()
        tell(len(results))
        if pending and deserted.for_too_long():
            raise ToolFailed(
                "the Dask cluster has lost its workers", found=f"{len(results)} of {len(items)} profiles done"
            )
        time.sleep(_LOOK_EVERY_S)
    return [results[number] for number in range(len(items))]


class _Deserted:
    """Whether a cluster that had workers has been without any for longer than it may be."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._had_workers = False
        self._last_seen_s = time.monotonic()
        self._last_asked_s = 0.0

    def for_too_long(self) -> bool:
        now = time.monotonic()
        if now - self._last_asked_s > 1:
            self._last_asked_s = now
            if self._client.scheduler_info()["workers"]:
                self._had_workers, self._last_seen_s = True, now
        return self._had_workers and now - self._last_seen_s > _WITHOUT_WORKERS_S


def _reason(error: Exception) -> str:
    if type(error).__name__ == "KilledWorker":
        deaths = getattr(error, "allowed_failures", 3) + 1
        return f"{deaths} workers died over it, most likely for want of memory"
    return " ".join(f"no worker could take it: {type(error).__name__}: {error}".split())


def _distributed() -> Any:
    """The package, loaded when it is first needed: it takes a second."""
    try:
        package = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingPackage(
            "a cluster needs Dask, which is not installed",
            found=str(error),
            hint="`pip install 'gpuledger[fleet]'`, or let processes of this machine read them: without `--scheduler`",
        ) from error
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return package
