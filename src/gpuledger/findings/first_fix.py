"""What to do about a finding, in one line: the first step of its page's fix. `gpuledger explain CODE` has the rest."""

from __future__ import annotations

from typing import Final

from gpuledger.findings.finding import Finding
from gpuledger.messages import Message, say

FIRST_FIX: Final[dict[str, Message]] = {
    "ALLOC-CHURN": say("preallocate buffers and reuse them (`out=`, one arena sized at warm-up)"),
    "CAST": say("keep weights and activations in one type; convert weights once, not in each step"),
    "CLOCKS-LOW": say(
        "see what holds it down: `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`; unlock with `nvidia-smi -rgc`"
    ),
    "COMM-EXPOSED": say("overlap it with compute: async collectives, prefetch, two micro-batches"),
    "COMM-SKEW": say("fix the ranks that come late: `gpuledger fleet` names them"),
    "COPY-BOUND": say("copy fewer bytes, or from pinned memory on its own stream"),
    "COPY-EXPOSED": say("keep data on the device, or copy one step ahead on a side stream from pinned memory"),
    "COPY-PAGEABLE": say("copy from and to pinned memory (`pin_memory=True`), and reuse the buffers"),
    "DEVICE-WAIT": say("record the event right after the producer, and launch that work earlier"),
    "GPU-SHARED": say("give the process the GPU for itself, or run both under MPS"),
    "HOST-ALLOC": say("allocate once at start-up; no `cudaMalloc`, `empty_cache()` or pinning in the loop"),
    "HOST-CODE": say("move the host's work off the launching thread, or run it while the GPU is busy"),
    "HOST-COPY": say("replace the loop of small copies by one tensor operation, or pack them into one copy"),
    "HOST-LOAD": say("keep shapes stable (pad to buckets), and run every shape once before the measured steps"),
    "HOST-OS": say("move reads, writes and sleeps off the launching thread"),
    "HOST-SYNC": say("do not read results back in the step: no `.item()`, `.cpu()` or `nonzero`; read one step later"),
    "HOST-THREAD": say("shorten what the other thread does, or start it a step earlier"),
    "KERNEL-LOOP": say("use the fused or foreach form: one kernel for all tensors"),
    "LAUNCH-BOUND": say("replay the step as a CUDA graph, or compile it (`torch.compile(mode='reduce-overhead')`)"),
    "TINY-KERNELS": say("fuse them, batch them, or capture the step in a CUDA graph"),
    "UNIFIED-MEMORY": say("prefetch pages before they are touched, or use plain device memory"),
}
"""By code. Findings about a capture, or that only say when time is lost, have none: their claim is what to do."""


def first_fix(found: Finding) -> Message | None:
    """Of one finding: its own where it has one, in the words of the framework."""
    return found.fix or FIRST_FIX.get(found.code)
