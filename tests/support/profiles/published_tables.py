"""Tables that two documents published, as text: notes on an MoE layer, and the example of a page on alignment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NOTES = (
    {
        "cuda_api_sum": {
            "cudaMemcpyAsync": (475600, 2613668540),
            "cudaStreamSynchronize": (442800, 1778504126),
            "cudaLaunchKernel": (253800, 1662288454),
        },
        "nvtx_sum": {
            ":combine_single": (200, 7024131684),
            ":dispatch_single": (200, 6526328065),
            ":compute_loop": (200, 4208569565),
        },
    },
    {
        "cuda_api_sum": {
            "cudaMemcpyAsync": (559800, 2318022480),
            "cudaStreamSynchronize": (494200, 2174905673),
            "cudaLaunchKernel": (189000, 907236987),
        },
        "nvtx_sum": {
            ":combine_single": (200, 5945415861),
            ":dispatch_single": (200, 5521849413),
            ":compute_batched_gemm": (200, 3173195501),
        },
    },
    {
        "nvtx_sum": {
            ":combine_all2all": (50, 778325358),
            ":dispatch_all2all": (50, 622989600),
            "NCCL:ncclCommDestroy": (2, 470919087),
            "NCCL:ncclCommInitRankConfig": (2, 394972986),
            ":compute_loop": (50, 255113716),
            "NCCL:ncclGroupEnd": (300, 109803916),
        }
    },
    {
        "nvtx_sum": {
            ":combine_all2all": (50, 759416437),
            ":dispatch_all2all": (50, 629181232),
            "NCCL:ncclCommDestroy": (2, 413897143),
            "NCCL:ncclCommInitRankConfig": (2, 374980291),
            ":compute_batched_gemm": (50, 321413433),
            "NCCL:ncclGroupEnd": (300, 109350991),
        }
    },
)
"""What the notes on an MoE layer published of each of their runs: calls and ranges, with instances and time."""
KERNELS = {
    "mock_kernels.txt": {"flash_fwd_kernel": (1, 420_000), "gemm_kernel": (2, 300_000)},
    "e2e_kernels.txt": {"flash_fwd_kernel": (1, 400_000), "gemm_kernel": (2, 300_000)},
}
"""The example of the page on alignment, as tables."""


def write_published_tables(folder: Path) -> None:
    """As the documents call them."""
    (folder / "notes.txt").write_text("".join(map(stats_text, NOTES)))
    for name, kernels in KERNELS.items():
        (folder / name).write_text(stats_text({"cuda_gpu_kern_sum": kernels}))


def stats_text(tables: Mapping[str, Mapping[str, tuple[int, int]]]) -> str:
    """Tables as `nsys stats` prints them, of names with their number and time; of the other figures, the mean."""
    heads = {
        "cuda_api_sum": ("CUDA API Summary", "Num Calls", "Name"),
        "cuda_gpu_kern_sum": ("CUDA GPU Kernel Summary", "Instances", "Name"),
        "nvtx_sum": ("NVTX Range Summary", "Instances", "Range"),
    }
    lines = list[str]()
    for report, entries in tables.items():
        title, count, name = heads[report]
        style = ["Style"] if report == "nvtx_sum" else []
        head = ["Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
        rows = [[*head, *style, name]]
        rows.append(["-" * max(len(cell), 30) for cell in rows[0]])
        whole = sum(total for _, total in entries.values())
        for called, (calls, total) in entries.items():
            mean = f"{total / calls:.1f}"
            figures = [f"{100 * total / whole:.1f}", str(total), str(calls), mean, mean, str(total // calls)]
            rows.append([*figures, str(total // calls), "0.0", *(["PushPop"] if style else []), called])
        lines += ["", f" ** {title} ({report}):", ""]
        lines += [" " + "  ".join(cell.ljust(30) for cell in row) for row in rows]
    return "\n".join(lines) + "\n"
