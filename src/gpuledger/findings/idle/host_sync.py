"""HOST-SYNC: the host waits for the GPU, and the GPU then waits for the host.

The gap follows a blocking call: "the queue ran dry", after `cudaStreamSynchronize` for example. On the timeline the
host blocks until the queue is empty, wakes up, and only then starts to prepare and launch the next work; the GPU is
idle for that whole time. `idle: sync` itself may be small: most of the loss is framework overhead and host code after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.memory.figures import TO_DEVICE
from gpuledger.attribution.lost_time import waits_behind
from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.idle.occupied import (
    behind_ns,
    gap_time,
    is_worth_mentioning,
    saved_with_backlog_ns,
    with_what_follows,
)
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.single_gap import OCCUPATIONS
from gpuledger.findings.words import occurrences_text, per_step
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit, without_waits
from gpuledger.trace.keys import Positions, distinct, is_among

FIX: Final = FixWords.of(
    say("do not read results back or wait for the GPU in the step; read one step later"),
    torch=say("do not read results back in the step: no `.item()`, `.cpu()` or `nonzero`; read one step later"),
    vllm=say("schedule the next step while this one runs: `--async-scheduling`"),
    sglang=say("leave the overlap scheduler on (no `--disable-overlap-schedule`)"),
    jax=say("no `float(x)`, `np.asarray(x)` or `block_until_ready()` in the step; read one step later"),
    tensorflow=say("no `.numpy()` in the step, which belongs into one `tf.function`"),
    tensorrt=say("queue the next `enqueueV3` before waiting for this one: two contexts, two streams"),
    cupy=say("no `.get()`, `cupy.asnumpy` or `float(x)` in the step; read one step later"),
    numba=say("no `copy_to_host()` or `cuda.synchronize()` in the step; read one step later"),
    julia=say("no `Array(x)`, `CUDA.@sync` or scalar indexing in the step; read one step later"),
    openacc=say("`async` on regions and updates, with one `acc wait` at the end: without it each waits"),
    openmp=say("`nowait` on target regions, with `depend` between them: without it each waits"),
    cuda=say("no `cudaDeviceSynchronize` or blocking `cudaMemcpy` in the step; wait for an event one step later"),
    hip=say("no `hipDeviceSynchronize` or blocking `hipMemcpy` in the step; wait for an event one step later"),
)

_FIX_OF_UPLOADS: Final = FixWords.of(
    say(
        "make what is copied to the GPU there, or copy it once before the loop; else from pinned memory, asynchronously"
    ),
    torch=say(
        "make what is copied to the GPU there (`device='cuda'`), or copy it once before the loop; else copy it "
        "from pinned memory with `non_blocking=True`"
    ),
    jax=say("make inputs inside the jitted step, or `jax.device_put` them one step ahead"),
    tensorflow=say("`prefetch_to_device` at the end of the `tf.data` pipeline"),
    cupy=say("make arrays with CuPy, or copy them once before the loop; else `set` them from pinned memory"),
    numba=say("`cuda.to_device` once before the loop: a NumPy argument is copied there and back each time"),
    julia=say("make arrays with `CUDA.zeros` or `CuArray` once before the loop"),
    openacc=say("put one `acc data` region around the loop, and `present` on the loops in it"),
    openmp=say("put one `target data` region around the loop, so that arrays stay on the device"),
    cuda=say("copy it once before the loop; else `cudaMemcpyAsync` from `cudaMallocHost` memory"),
    hip=say("copy it once before the loop; else `hipMemcpyAsync` from `hipHostMalloc` memory"),
)
"""Where the host waits for copies to the device."""

SMALL_COPY_NS: Final = 20_000
"""A shorter copy costs the host more than the device: it goes with the wait for it, or is packed with others."""

WAITED: Final = (QueueTrigger.DRAINED, Cause.SYNC)  # triggers of gaps that a wait of the host leaves behind


def waited_ns(device: Device) -> int:
    """The gaps that waits leave behind, with what is read for them."""
    time, count = gap_time(device, *WAITED)
    return time + _read_ns(device) if count else 0


def _read_ns(device: Device) -> int:
    """What small copies that the host waits for take of the device's time, with the gaps before them."""
    gaps, work, chosen = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    read = distinct(gaps.before[chosen])
    read = read[(read >= 0) & (work.state[read] == State.COPY)]
    length = work.end_ns[read] - work.start_ns[read]
    small, launched_late = length < SMALL_COPY_NS, gaps.trigger == TRIGGERS.index(QueueTrigger.BEHIND)
    before_ns = device.steady_gap_ns[is_among(gaps.after, read[small]) & launched_late]
    return int(length[small].sum() + before_ns.sum())


def rounds_text(device: Device, time: int) -> Message:
    """How many calls waited so that the queue ran dry, and what that costs; one wait may leave many gaps behind."""
    waits = len(waits_behind(device, device.gaps_of(QueueTrigger.DRAINED)))
    return say("{often}, {time}", often=occurrences_text(device, waits), time=per_step(device, time))


def time_between_copies_ns(device: Device) -> int:
    """The time of drained gaps that lie between one small copy and the next."""
    gaps, drained, work = device.ledger.gaps, device.gaps_of(QueueTrigger.DRAINED), device.work
    drained = drained[(gaps.before[drained] >= 0) & (gaps.after[drained] >= 0)]
    before, after = gaps.before[drained], gaps.after[drained]
    small = (work.state == State.COPY) & (work.end_ns - work.start_ns < SMALL_COPY_NS)
    same_way = work.name[before] == work.name[after]  # not there and back
    return int(device.steady_gap_ns[drained][small[before] & small[after] & same_way].sum())


MAX_SERVING_CALLS: Final = 4
"""So many calls on each side of a wait may serve it: an event is made, recorded, waited for and destroyed."""


def _host_waited(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host waits, the queue runs dry, and the device then waits for the host."""
    device = subject.device
    idle, time = gap_time(device, *WAITED)[0], waited_ns(device)
    if 2 * time_between_copies_ns(device) > time or not is_significant(device, time):
        return ()
    edit = rule.edit_of(subject)
    saving = saved_with_backlog_ns(subject, edit, time, behind_ns(device) + _longer_waited_ns(device))
    claim = say("syncs drain the queue, and the GPU idles after them: {rounds}", rounds=rounds_text(device, idle))
    if is_worth_mentioning(time - idle, time):
        claim = say("{claim}, and {more} more for what they read", claim=claim, more=per_step(device, time - idle))
    claim = with_what_follows(device, claim, time, saving)
    assumption = say("no syncs: they go away, with the small copies and the code around them")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    sync = rule.finding(device, claim, evidence, saving, assumption, explains=max(time, saving), edit=edit)
    return [replace(sync, fix=_FIX_OF_UPLOADS) if _waits_for_uploads(subject) else sync]


def _waits_for_uploads(subject: OneGpu) -> bool:
    """Whether most of the time is lost after copies to the device: then nothing is read back."""
    device = subject.device
    gaps, work, drained = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    before = gaps.before[drained]
    upload = [subject.trace.strings.code(label) for label in TO_DEVICE]
    is_upload = (before >= 0) & (work.state[before] == State.COPY) & is_among(work.name[before], upload)
    lost_ns = device.steady_gap_ns[drained]
    return bool(2 * lost_ns[is_upload].sum() > lost_ns.sum())


def _longer_waited_ns(device: Device) -> int:
    """Gaps that begin with a wait, though what the host did then set them off: without the wait it was done before."""
    gaps = device.ledger.gaps
    occupied = is_among(gaps.trigger, [TRIGGERS.index(cause) for cause in OCCUPATIONS])
    return int(device.steady_gap_ns[occupied & (gaps.by_cause.of(Cause.SYNC) > 0)].sum())


def wait_for_nothing(fixes: Fixes) -> Edit:
    """Nothing waits for the device in order to look at a result: the waits go, and the small reads before them."""
    calls = np.flatnonzero(fixes.steady & (fixes.graph.calls.blocks > 0) & (fixes.kinds == CallKind.SYNC.number))
    long = fixes.graph.launched_by(calls) & (fixes.work.end_ns - fixes.work.start_ns >= SMALL_COPY_NS)
    is_kept = is_among(calls, fixes.graph.operations.call[long])
    gone, kept = calls[~is_kept], calls[is_kept]
    remove = fixes.drop_calls(distinct(np.concatenate((gone, _serving(fixes, gone)))))
    return lambda graph: without_waits(remove(graph), kept)


def _serving(fixes: Fixes, waits: Positions) -> Positions:
    """What is called right around these waits, and for nothing else: small copies before, events on both sides."""
    serving = np.zeros(len(fixes.graph.calls) + 1, np.bool_)
    serving[waits] = True
    handles_event, previous = _handles_event(fixes), fixes.previous_call
    serves_before = _copies_little(fixes) | handles_event
    for _ in range(MAX_SERVING_CALLS):
        before = np.append(previous[serving[:-1]], -1)
        serving[before[serves_before[before]]] = True
        serving[:-1] |= handles_event & (previous >= 0) & serving[previous]
        serving[-1] = False  # before a thread's first call
    serving[waits] = False
    return np.flatnonzero(serving)


def _copies_little(fixes: Fixes) -> NDArray[np.bool_]:
    work, call = fixes.work, fixes.graph.operations.call
    large = np.zeros(len(fixes.graph.calls) + 1, np.bool_)
    large[call[work.end_ns - work.start_ns >= SMALL_COPY_NS]] = True
    little: NDArray[np.bool_] = (fixes.kinds == CallKind.COPY_CALL.number) & ~large[:-1]
    return little


def _handles_event(fixes: Fixes) -> NDArray[np.bool_]:
    """Which calls make, record, look at or destroy an event; none that others wait for it."""
    calls = fixes.host.calls
    handles = calls.strings.each(
        calls.codes("name"), lambda name: "Event" in name and "WaitEvent" not in name, np.bool_
    )
    return handles[fixes.graph.call_row]


RULE: Final = Rule("HOST-SYNC", _host_waited, FIX, edit=wait_for_nothing, triggers=WAITED)
