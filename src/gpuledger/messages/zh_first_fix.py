"""Chinese of what to do about a finding, in one line (`findings/first_fix`)."""

from __future__ import annotations

from typing import Final

FIRST_FIX: Final[dict[str, str]] = {
    "fix": "解决",
    "fix: {what}": "解决：{what}",
    "preallocate buffers and reuse them (`out=`, one arena sized at warm-up)": (
        "预先分配缓冲区并复用（`out=`，预热时定好大小的一块内存）"
    ),
    "keep weights and activations in one type; convert weights once, not in each step": (
        "权重与激活用同一类型；权重只转换一次，不要每步都转"
    ),
    "overlap it with compute: async collectives, prefetch, two micro-batches": (
        "与计算重叠：异步集合通信、预取、两个微批次"
    ),
    "fix the ranks that come late: `gpuledger fleet` names them": "解决迟到的 rank：`gpuledger fleet` 会指出是哪些",
    "copy fewer bytes, or from pinned memory on its own stream": "减少拷贝字节数，或用锁页内存在独立 stream 上拷贝",
    "keep data on the device, or copy one step ahead on a side stream from pinned memory": (
        "数据留在设备上，或用锁页内存在旁路 stream 上提前一步拷贝"
    ),
    "copy from and to pinned memory (`pin_memory=True`), and reuse the buffers": (
        "用锁页内存拷贝（`pin_memory=True`），并复用缓冲区"
    ),
    "record the event right after the producer, and launch that work earlier": (
        "在生产者之后立即记录事件，并更早启动该工作"
    ),
    "give the process the GPU for itself, or run both under MPS": "让该进程独占 GPU，或用多进程服务共享",
    "allocate once at start-up; no `cudaMalloc`, `empty_cache()` or pinning in the loop": (
        "启动时一次分配；循环里不要 `cudaMalloc`、`empty_cache()` 或锁页"
    ),
    "move the host's work off the launching thread, or run it while the GPU is busy": (
        "把主机工作移出启动线程，或放到 GPU 忙碌时执行"
    ),
    "replace the loop of small copies by one tensor operation, or pack them into one copy": (
        "用一次张量运算替换小拷贝的循环，或合并为一次拷贝"
    ),
    "keep shapes stable (pad to buckets), and run every shape once before the measured steps": (
        "保持形状稳定（填充到固定档位），并在测量之前把每种形状都跑一次"
    ),
    "move reads, writes and sleeps off the launching thread": "把读、写和休眠移出启动线程",
    "make what is copied to the GPU there (`device='cuda'`), or copy it once before the loop; else copy it from pinned "
    "memory with `non_blocking=True`": (
        "要拷到 GPU 的张量直接在 GPU 上生成（`device='cuda'`），或在循环之前只拷一次；"
        "否则从锁页内存以 `non_blocking=True` 拷贝"
    ),
    "do not read results back in the step: no `.item()`, `.cpu()` or `nonzero`; read one step later": (
        "步内不要读回结果：不用 `.item()`、`.cpu()` 或 `nonzero`；推迟一步再读"
    ),
    "shorten what the other thread does, or start it a step earlier": "缩短另一个线程的工作，或提前一步开始",
    "use the fused or foreach form: one kernel for all tensors": "用 fused 或 foreach 形式：所有张量一个 kernel",
    "replay the step as a CUDA graph, or compile it (`torch.compile(mode='reduce-overhead')`)": (
        "把一步作为 CUDA graph 重放，或编译它（`torch.compile(mode='reduce-overhead')`）"
    ),
    "prefetch pages before they are touched, or use plain device memory": "在访问之前预取页面，或改用普通显存",
    "see what holds it down: `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`; unlock with `nvidia-smi -rgc`": (
        "查看限制原因：`nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`；用 `nvidia-smi -rgc` 解锁"
    ),
}
