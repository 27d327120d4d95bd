"""Says what torch sees of the GPUs, and how many kernels its profiler records: nothing in, one line out.

`gpuledger doctor` runs it in a process of its own, as importing torch takes seconds. `--quick` leaves the profiler out.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def recorded(torch: Any) -> int:
    """Kernels that torch.profiler records of a few products of matrices."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    matrix = torch.ones(256, 256, device="cuda")
    for _ in range(2):  # the first time, the profiler itself starts
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(20):
                torch.mm(matrix, matrix)
            torch.cuda.synchronize()
    on_gpu = torch.autograd.DeviceType.CUDA
    return sum(event.device_type == on_gpu for event in profiler.events())


def main() -> None:
    """Print torch's version, the CUDA that it was built for, the GPUs that it sees, and the kernels recorded."""
    torch: Any = import_module("torch")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kernels = recorded(torch) if gpus and "--quick" not in sys.argv[1:] else None
    found = f"version={torch.__version__} cuda={torch.version.cuda} gpus={gpus} kernels={kernels}"
    sys.stdout.write(f"gpuledger-torch {found}\n")


if __name__ == "__main__":
    main()
