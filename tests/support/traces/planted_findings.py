"""Which finding each planted program is to be told."""

from __future__ import annotations

EXPECTED = {
    "host_read": "HOST-SYNC",
    "numpy_between": "HOST-CODE",
    "sleep": "HOST-OS",
    "alloc": "HOST-ALLOC",
    "pageable_copy": "COPY-PAGEABLE",
    "tiny_kernels": "LAUNCH-BOUND",
    "device_sync": "HOST-SYNC",
    "host_function": "DEVICE-WAIT",
    "exposed_copy": "COPY-EXPOSED",
    "small_copies": "HOST-COPY",
    "casts": "CAST",
}


HELD_OUT = {
    "nonzero": "HOST-SYNC",
    "sample_loop": "HOST-SYNC",
    "python_between": "HOST-CODE",
    "file_wait": "HOST-OS",
    "thread_wait": "HOST-THREAD",
    "growing_alloc": "HOST-ALLOC",
    "pinned_alloc": "HOST-ALLOC",
    "pageable_out": "COPY-PAGEABLE",
    "event_wait": "HOST-SYNC",
    "stream_chain": "DEVICE-WAIT",
    "exposed_out": "COPY-EXPOSED",
    "small_reads": "HOST-COPY",
    "mixed_types": "CAST",
}
"""Written by somebody else, to see how the rules do on programs that they were not made for."""
