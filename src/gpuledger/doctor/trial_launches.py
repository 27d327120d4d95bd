"""Launches empty kernels and says what one launch takes on the host: nothing in, one line out.

`gpuledger doctor` runs it plain and under nsys; the difference is what tracing adds to a CUDA call. It needs the driver
and nothing else: the kernel is text that the driver compiles. Launches come in bursts that are shorter than the GPU's
queue, so that no launch ever waits for the GPU.
"""

from __future__ import annotations

import ctypes
import sys
import time
from statistics import median
from typing import Final

BURSTS: Final = 40
BURST: Final = 256

_PTX: Final = b"""
.version 6.0
.target sm_52
.address_size 64
.visible .entry gpuledger_trial() { ret; }
"""


def launched(cuda: ctypes.CDLL) -> float:
    """Nanoseconds of one launch: the median over the bursts."""
    device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    _asked(cuda, "cuInit", 0)
    _asked(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    _asked(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _asked(cuda, "cuCtxSetCurrent", context)
    _asked(cuda, "cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
    _asked(cuda, "cuModuleGetFunction", ctypes.byref(kernel), module, b"gpuledger_trial")
    launch = cuda.cuLaunchKernel
    one, zero, nothing = ctypes.c_uint(1), ctypes.c_uint(0), ctypes.c_void_p(None)
    arguments = (kernel, *[one] * 6, zero, nothing, nothing, nothing)
    times = []
    for _ in range(BURSTS):
        began = time.perf_counter_ns()
        for _ in range(BURST):
            code = launch(*arguments)
        times.append((time.perf_counter_ns() - began) / BURST)
        if code:
            raise OSError(f"cuLaunchKernel gave error {code}")
        _asked(cuda, "cuCtxSynchronize")
    return median(times)


def _asked(cuda: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        raise OSError(f"{name} gave error {code}")


def main() -> None:
    """Print what a launch took, and how many there were; one sentence and exit code 1 if there was none."""
    try:
        ns = launched(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        sys.exit(str(error))
    sys.stdout.write(f"gpuledger-trial launches={BURSTS * BURST} ns_per_launch={ns:.0f}\n")


if __name__ == "__main__":
    main()
