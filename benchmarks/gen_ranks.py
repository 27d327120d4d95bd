"""Write the torch.profiler traces of a job that never ran: `gen_ranks.py OUT --ranks 64 --events 100000`.

Data-parallel training: every rank computes on stream 7, all-reduces gradients on stream 20 under it, and waits for the
last all-reduce before its step ends. An all-reduce ends on all ranks at once, when the last one has come; rank LATE
computes more slowly and is the one the others wait for. Each rank has a clock of its own, up to a millisecond off. Six
events per launch, of an all-reduce eight, laid out as Kineto prints them. Equal arguments give equal bytes. For tests
more may be wrong: a rank's host that is slow or collects garbage, a slow all-reduce. The same job without that says
what fixing it saves.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]

PID = 4242
EVENTS_PER_LAUNCH = 6
REDUCE_EVERY = 24
"""Every so many launches there is an all-reduce; a step ends with one."""
CLOCK_ERROR_NS = 1_000_000
BYTES_PER_NS = 200
CHUNK = 2000
"""Launches that are formatted together."""

OPS = (
    ("aten::linear", "aten::addmm", "cudaLaunchKernel"),
    ("aten::matmul", "aten::mm", "cudaLaunchKernel"),
    ("aten::add", "aten::add_", "cudaLaunchKernel"),
    ("aten::layer_norm", "aten::native_layer_norm", "cudaLaunchKernel"),
    ("aten::softmax", "aten::_softmax", "cudaLaunchKernel"),
    ("aten::to", "aten::copy_", "cudaLaunchKernel"),
)
KERNELS = tuple(
    [f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{64 << at % 3}x128x64_{at}_cublas" for at in range(20)]
    + [
        f"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_{at}<c10::BFloat16>, "
        f"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_{at}<c10::BFloat16>, std::array<char*, 3ul>)"
        for at in range(20)
    ]
)
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = ("c10d::allreduce_", "record_param_comms", "cudaLaunchKernelExC", NCCL, 20)

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 132
    }
  ],
  "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": %d, "pg_count": 1},
  "record_shapes": 1, "with_stack": 0,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1700000000000000000,
  "traceEvents": ["""
OP = """
  {
    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d,"Record function id": 0, "Input Dims": [[%d, 4096], [4096, 4096]], "Ev Idx": %d%s
    }
  },"""
CALL = """
  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d, "cbid": 211, "correlation": %d
    }
  },
  {
    "ph": "s", "id": %d, "pid": 4242, "tid": 4242, "ts": %d.%03d,
    "cat": "ac2g", "name": "ac2g"
  },"""
KERNEL = """
  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d, "queued": 0, "device": 0, "context": 1, "stream": %d, "correlation": %d, "registers per thread": 96, "shared memory": 0, "grid": [%d, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 25%s
    }
  },
  {
    "ph": "f", "id": %d, "pid": 0, "tid": %d, "ts": %d.%03d,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },"""  # noqa: E501
LAUNCH = OP + OP + CALL + KERNEL
EVENT = """
  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": 0.300,
    "args": {
      "cbid": 135, "correlation": %d
    }
  },"""
WAITS = (("cudaEventRecord", 600), ("cudaStreamWaitEvent", 1000))
"""What makes an all-reduce wait for the compute before it, and when after its operator began."""
STEP = """
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  },
  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "cbid": 165, "correlation": %d
    }
  },"""
GARBAGE = """
  {
    "ph": "X", "cat": "python_function", "name": "Python GC", "pid": 4242, "tid": 4242,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "Python id": 1, "Python parent id": null, "Ev Idx": 0
    }
  },"""
COLLECTIVE = (
    ', "Collective name": "allreduce", "In msg nelems": %d, "Out msg nelems": %d, "Group size": %d, '
    '"dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", '
    '"Process Group Description": "default_pg", "Process Group Ranks": "%s"'
)
TAIL = """
  {
    "name": "process_name", "ph": "M", "ts": 0.000, "pid": 4242, "tid": 0,
    "args": {
      "name": "python"
    }
  },
  {
    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": %d.%03d
  }
  ],
  "traceName": "rank%d.json"
}
"""


@dataclass(frozen=True)
class Faults:
    """What is wrong with a job."""

    slow_compute: tuple[int, float] | None = None
    """A rank, and how many times as long its kernels take."""
    slow_host: tuple[int, float] | None = None
    """A rank, and how many times as long its host takes for everything."""
    garbage: tuple[int, int] | None = None
    """A rank, and for how long its host collects garbage in the middle of every step, in nanoseconds."""
    slow_reduce: tuple[int, float] | None = None
    """The how-manieth all-reduce of the step, from 0, and how many times as long its transfer takes."""


@dataclass(frozen=True)
class Job:
    """What every rank did, in true nanoseconds: one row per rank, one column per launch."""

    op: Ints
    kernel: Ints
    kernel_end: Ints
    step_start: Ints
    step_end: Ints
    """One row per step, the same on all ranks."""
    elements: Ints
    """Of each launch's all-reduce; 0 where it is none."""
    clock: Ints
    """What each rank's clock is ahead of the true time."""
    garbage: tuple[int, Ints, Ints] | None
    """The rank that collects garbage, and when it begins and ends to, a row per step."""

    @property
    def per_step(self) -> int:
        return int(self.op.shape[1]) // len(self.step_start)


def queue(ready: Ints, length: Ints) -> Ints:
    """Start times on in-order streams, one per row: each starts when ready and the former has ended."""
    spent = np.cumsum(length, axis=1) - length
    start: Ints = np.maximum.accumulate(ready - spent, axis=1) + spent
    return start


def simulate(ranks: int, launches: int, steps: int, faults: Faults, seed: int) -> Job:
    """Let the job run. Equal seeds give equal jobs, but for what is wrong with them."""
    rng = np.random.default_rng(seed)
    each = max(-(-launches // (steps * REDUCE_EVERY)), 1) * REDUCE_EVERY
    is_reduce = np.arange(each) % REDUCE_EVERY == REDUCE_EVERY - 1
    elements = np.where(is_reduce, 1 << rng.integers(16, 22, each), 0)
    usual = (rng.gamma(2.0, 5000, each) + 1500).astype(np.int64)
    slower, slower_host = (_factors(ranks, fault)[:, None] for fault in (faults.slow_compute, faults.slow_host))
    slower_moving = _factors(int(is_reduce.sum()), faults.slow_reduce)
    collector, pause = faults.garbage or (-1, 0)
    collections: list[int] = []
    parts: dict[str, list[Ints]] = {"op": [], "kernel": [], "kernel_end": []}
    starts, ends, now = [], [], 7_000_000_000_000_000
    for _ in range(steps):
        noise = rng.normal(1.0, 0.02, (ranks, each)).clip(0.9, 1.1)
        length = np.where(is_reduce, 0, (usual * noise * slower).astype(np.int64))
        op = now + np.cumsum(((4500 + rng.gamma(2.0, 600, (ranks, each))) * slower_host).astype(np.int64), axis=1)
        if collector >= 0:
            collections.append(int(op[collector, each // 2]) - 500)
            op[collector, each // 2 :] += pause
        start = queue(op + 5000, length)
        end = start + length
        came = end[:, is_reduce]  # an all-reduce waits for the compute before it
        moving = ((elements[is_reduce] * 2 // BYTES_PER_NS + 8000) * slower_moving).astype(np.int64)
        reduced = queue(came.max(axis=0)[None], moving[None])[0] + moving
        before = np.append(0, reduced[:-1])
        start[:, is_reduce] = np.maximum(came, before + 900)
        end[:, is_reduce] = reduced + rng.integers(0, 800, (ranks, is_reduce.sum()))
        starts.append(now)
        now = int(end.max()) + 20_000
        ends.append(now)
        for name, rows in (("op", op), ("kernel", start), ("kernel_end", end)):
            parts[name].append(rows)
    together = {name: np.concatenate(rows, axis=1) for name, rows in parts.items()}
    clock = rng.integers(-CLOCK_ERROR_NS, CLOCK_ERROR_NS, ranks)
    begins = np.array(collections, np.int64)
    garbage = (collector, begins, begins + pause) if collector >= 0 else None
    start, end = np.array(starts), np.array(ends)
    return Job(**together, step_start=start, step_end=end, elements=elements, clock=clock, garbage=garbage)


def _factors(count: int, fault: tuple[int, float] | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """1, but for the one that is slow."""
    slow, factor = fault or (-1, 1.0)
    return np.where(np.arange(count) == slow, factor, 1.0)


def rank_text(job: Job, rank: int, seed: int) -> str:
    """One rank's trace."""
    ranks, launches = job.op.shape
    rng = np.random.default_rng(seed + 1)  # the same kernels on every rank
    ops = np.tile(rng.integers(0, len(OPS), job.per_step), len(job.step_start)).tolist()
    names = np.tile(rng.integers(0, len(KERNELS), job.per_step), len(job.step_start)).tolist()
    grids = np.tile(rng.integers(1, 4096, job.per_step), len(job.step_start)).tolist()
    sizes = np.tile(job.elements, len(job.step_start)).tolist()
    group = str(list(range(ranks))) if ranks <= 12 else f"[{', '.join(map(str, range(5)))}, ..., {ranks - 1}]"
    told = {size: COLLECTIVE % (size, size, ranks, group) if size else "" for size in set(sizes)}
    own = int(job.clock[rank])
    op, kernel, kernel_end = (each[rank] + own for each in (job.op, job.kernel, job.kernel_end))
    call = op + 1500
    moments = [each.tolist() for each in chain.from_iterable(map(_split, (op, op + 500, call, kernel)))]
    lengths = [each.tolist() for each in _split(kernel_end - kernel)]

    fields: list[Any] = []
    for at, (o1, o2, i1, i2, c1, c2, k1, k2, d1, d2) in enumerate(zip(*moments, *lengths, strict=True)):
        external, correlation, grid, size = 2 * at + 1, 100 + at, grids[at], sizes[at]
        outer, inner, call_name, name, stream = REDUCE if size else (*OPS[ops[at]], KERNELS[names[at]], 7)
        fields += (outer, o1, o2, 4, 200, external, grid, external, "")
        fields += (inner, i1, i2, 3, 600, external + 1, grid, external + 1, told[size])
        fields += (call_name, c1, c2, 2, 100, external + 1, correlation, correlation, c1, c2)
        fields += (name, stream, k1, k2, d1, d2, external + 1, stream, correlation, grid, told[size])
        fields += (correlation, stream, k1, k2)
    each = len(fields) // launches
    text = [HEAD % (rank, ranks)]
    for at in range(0, len(fields), CHUNK * each):
        some = fields[at : at + CHUNK * each]
        text.append(LAUNCH * (len(some) // each) % tuple(some))
    for at in np.flatnonzero(np.array(sizes)).tolist():
        for place, (name, after) in enumerate(WAITS):
            text.append(EVENT % (name, *divmod(int(op[at]) + after, 1000), 10**8 + 2 * at + place))
    text += [_step(job, at, rank) for at in range(len(job.step_start))]
    if job.garbage is not None and job.garbage[0] == rank:
        for begin, end in zip(*(each.tolist() for each in job.garbage[1:]), strict=True):
            text.append(GARBAGE % (*divmod(begin + own, 1000), *divmod(end - begin, 1000)))
    return "".join([*text, TAIL % (*divmod(int(job.step_end[-1]) + own, 1000), rank)])


def _split(ns: Ints) -> tuple[Ints, Ints]:
    """Whole microseconds and the three decimals after them."""
    return ns // 1000, ns % 1000


def _step(job: Job, at: int, rank: int) -> str:
    clock = int(job.clock[rank])
    start, end = int(job.step_start[at]) + clock, int(job.step_end[at]) + clock
    waits = int(job.op[rank, (at + 1) * job.per_step - 1]) + clock + 5000
    numbers = (*divmod(start, 1000), *divmod(end - start - 2000, 1000), 10**7 + at, 10**7 + at)
    return STEP % (at, *numbers, *divmod(waits, 1000), *divmod(max(end - 8000 - waits, 1000), 1000), 10**7 + at)


def write_job(
    folder: Path,
    *,
    ranks: int,
    events: int,
    steps: int = 10,
    late: int | None = None,
    seed: int = 0,
    packed: bool = False,
    faults: Faults | None = None,
) -> list[Path]:
    """Write one file per rank into `folder`, and say which."""
    folder.mkdir(parents=True, exist_ok=True)
    faults = faults or Faults(slow_compute=(ranks // 3 if late is None else late, 1.15))
    job = simulate(ranks, events // EVENTS_PER_LAUNCH, steps, faults, seed)
    paths = []
    for rank in range(ranks):
        content = rank_text(job, rank, seed).encode()
        path = folder / f"rank{rank:04d}.pt.trace.json{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content, 1, mtime=0) if packed else content)
        paths.append(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--events", type=int, default=100_000, help="per rank")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--late", type=int, help="the rank the others wait for; default: a third into the job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gz", action="store_true")
    given = parser.parse_args()
    paths = write_job(
        given.out,
        ranks=given.ranks,
        events=given.events,
        steps=given.steps,
        late=given.late,
        seed=given.seed,
        packed=given.gz,
    )
    print(f"{len(paths)} ranks, {sum(path.stat().st_size for path in paths) / 1e6:.0f} MB in {given.out}")


if __name__ == "__main__":
    main()
