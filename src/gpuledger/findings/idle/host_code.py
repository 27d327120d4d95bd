"""The host runs code, or waits for the system, instead of launching.

HOST-CODE: the GPU waits for a long stretch of the program's own code.

The time breakdown has `idle: host code`. On the timeline the launching thread spends a long time between two CUDA
calls, in no call that was traced, and the GPU has nothing to run.

HOST-OS: the GPU waits while the host is in the operating system.

The time breakdown has `idle: OS calls`. On the timeline the launching thread sits in an operating-system call such as
`read`, `write`, `mmap`, `munmap`, `ioctl`, `fsync` or `nanosleep`, outside any CUDA call, and the GPU has nothing to
run until it returns and launches.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gpuledger.findings.idle.occupied import host_is_occupied, without_code_of
from gpuledger.findings.rule import Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say

HOST_CODE: Final = Rule(
    "HOST-CODE",
    partial(host_is_occupied, doing=say("the host runs its own code")),
    say("move the host's work off the launching thread, or run it while the GPU is busy"),
    edit=partial(without_code_of, cause=Cause.HOST_CODE),
    triggers=(Cause.HOST_CODE,),
    is_slowed=True,
)

HOST_OS: Final = Rule(
    "HOST-OS",
    partial(host_is_occupied, doing=say("the host is in OS calls")),
    say("move reads, writes and sleeps off the launching thread"),
    edit=partial(without_code_of, cause=Cause.OS),
    triggers=(Cause.OS,),
)
