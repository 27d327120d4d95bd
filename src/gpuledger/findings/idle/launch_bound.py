"""LAUNCH-BOUND: the host cannot launch as fast as the GPU executes.

The GPU is idle in many short gaps: framework overhead, launch calls, other CUDA calls and launch latency. On the
timeline each kernel starts within microseconds of its own launch call; there is no queue. Faster kernels would not
shorten the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.idle.host_sync import wait_for_nothing, waited_ns
from gpuledger.findings.idle.launching import MIN_LAUNCHES, are_most_of_launching, free_launches, loop_evidence
from gpuledger.findings.idle.occupied import gap_time, is_worth_mentioning
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import count_words, per_step
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import say

FIX: Final = FixWords.of(
    say("capture the step in a graph and replay it, or launch fewer, larger kernels"),
    torch=say("replay the step as a CUDA graph, or compile it (`torch.compile(mode='reduce-overhead')`)"),
    compiled=say(
        "`torch.compile(mode='reduce-overhead')` replays it as a CUDA graph; `TORCH_LOGS=cudagraphs,graph_breaks` "
        "says what prevents that"
    ),
    vllm=say("leave CUDA graphs on (no `--enforce-eager`), captured for the batch sizes that occur"),
    sglang=say("leave CUDA graphs on (no `--disable-cuda-graph`), up to `--cuda-graph-max-bs`"),
    jax=say("put the whole step into one `jax.jit`, and loops into `jax.lax.scan`"),
    tensorflow=say("put the whole step into one `tf.function(jit_compile=True)`"),
    tensorrt=say("capture `enqueueV3` in a CUDA graph (`trtexec --useCudaGraph`)"),
    llama=say("build with `GGML_CUDA_GRAPHS=ON`, and decode more sequences at a time"),
    cupy=say("fuse operations with `@cupy.fuse` or an `ElementwiseKernel`, so that fewer are launched"),
    numba=say("let one kernel do the work of several: each launch from Python costs tens of microseconds"),
    julia=say("fuse broadcasts (`@.`), so that fewer kernels are launched, or replay with `CUDA.@captured`"),
    openacc=say("join loops into fewer `parallel` regions, and queue them with `async`"),
    openmp=say("join loops into fewer `target` regions, and queue them with `nowait`"),
    cuda=say(
        "capture the step (`cudaStreamBeginCapture`) and replay it as a CUDA graph, or launch fewer, larger kernels"
    ),
    hip=say("capture the step (`hipStreamBeginCapture`) and replay it as a graph, or launch fewer, larger kernels"),
)


def _host_was_behind(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Gaps in which the host was behind, and those after waits that it would be behind in if it did not wait."""
    device = subject.device
    own, _ = gap_time(device, QueueTrigger.BEHIND)
    steady_launches = len(device.steady_launches)
    if steady_launches < MIN_LAUNCHES:
        return ()
    waited = waited_ns(device)
    if is_significant(device, waited):
        waited -= subject.saved_ns(subject.fixes.once(wait_for_nothing), waited)
    lost = own + waited
    if not is_significant(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    launches = count_words(device, steady_launches, say("launch"), say("launches"))
    what = say("{launches}, {time} idle between them", launches=launches, time=per_step(device, own))
    if not own:
        what = say("{launches}, {time} idle after syncs", launches=launches, time=per_step(device, lost))
    elif is_worth_mentioning(lost - own, lost):
        what = say("{what}, and {more} more after syncs", what=what, more=per_step(device, lost - own))
    claim = say("CPU launches can't keep up with the GPU: {what}", what=what)
    assumption = say("launches become free, as in a captured graph or with far fewer, larger kernels")
    evidence = gap_evidence(subject, QueueTrigger.BEHIND if own >= waited else QueueTrigger.DRAINED)
    if are_most_of_launching(subject):
        evidence = (*loop_evidence(subject), *evidence)
    late = rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)
    return [replace(late, follows="HOST-SYNC") if own < waited else late]


RULE: Final = Rule(
    "LAUNCH-BOUND",
    _host_was_behind,
    FIX,
    edit=free_launches,
    triggers=(QueueTrigger.BEHIND,),
    is_bound=True,
    is_slowed=True,
)
