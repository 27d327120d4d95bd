"""Chinese for what a memory snapshot of PyTorch says."""

from __future__ import annotations

from typing import Final

MEMORY: Final[dict[str, str]] = {
    # findings/memory_snapshot
    "{function}, called from {callers}": "{function}（调用者：{callers}）",
    "no recorded stack": "没有记录调用栈",
    "allocated before the history began": "历史开始之前分配",
    "no recorded stack (autograd's threads have none)": "没有记录调用栈（autograd 的线程没有）",
    "all others": "其余",
    "{size} ({share}): {place}": "{size}（{share}）：{place}",
    "GPU {gpu} ran out of memory: {request} asked for by {place}, with {held} held and {free} free in pieces of at "
    "most {largest}": (
        "GPU {gpu} 显存不足：{place} 申请 {request}，当时占用 {held}，空闲 {free} 但每块不超过 {largest}"
    ),
    "GPU {gpu} ran out of memory: {request} asked for by {place}, with {held} held and nothing free": (
        "GPU {gpu} 显存不足：{place} 申请 {request}，当时占用 {held}，没有空闲"
    ),
    "the GPU had {free} left": "GPU 还剩 {free}",
    "how much the GPU had left was not recorded": "没有记录 GPU 还剩多少",
    "the GPU had {free} left: a limit of this process was reached (set_per_process_memory_fraction)": (
        "GPU 还剩 {free}：到达的是本进程的上限（set_per_process_memory_fraction）"
    ),
    "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {free} was free, more than was asked for": (
        "设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True：当时空闲 {free}，多于申请的大小"
    ),
    "stop the leak first: {size} of what was held is never freed (MEM-LEAK)": (
        "先解决泄漏：占用中有 {size} 从不释放（MEM-LEAK）"
    ),
    "hold at least {short} less at that moment: free the largest of what is listed earlier, recompute it, or use "
    "smaller batches": "那一刻至少少占 {short}：更早释放所列最大的部分，改为重算，或用更小的 batch",
    "hold up to {short} less at that moment (free the largest of what is listed earlier, recompute it, smaller "
    "batches), or raise the limit": (
        "那一刻少占至多 {short}（更早释放所列最大的部分、重算、更小的 batch），或提高上限"
    ),
    "{size} allocated by {place} in the second half of the history is never freed": (
        "历史的后一半里，{place} 分配的 {size} 从未释放"
    ),
    "memory grows by {step} per step: {size} allocated in {steps} steps by {place} is never freed": (
        "内存每步增长 {step}：{steps} 步中 {place} 分配的 {size} 从未释放"
    ),
    "{size} in {count} allocations, in {steps} of {whole} steps: {place}": (
        "{count} 次分配共 {size}，出现在 {whole} 步中的 {steps} 步：{place}"
    ),
    "{size} in {count} allocations, in {steps} of {whole} parts of the history: {place}": (
        "{count} 次分配共 {size}，出现在历史 {whole} 段中的 {steps} 段：{place}"
    ),
    "memory grows by {step} per step: {size} allocated in {steps} steps is never freed, {most} of it by {place}": (
        "内存每步增长 {step}：{steps} 步中分配的 {size} 从未释放，其中 {most} 来自 {place}"
    ),
    "{size} allocated in the second half of the history is never freed, {most} of it by {place}": (
        "历史的后一半里分配的 {size} 从未释放，其中 {most} 来自 {place}"
    ),
    "find who keeps these tensors (a list, a cache, a loss with its graph) and drop, detach or `.item()` them": (
        "找出谁留住了这些张量（列表、缓存、带着计算图的 loss），丢弃、detach 或改用 `.item()`"
    ),
    "{free} of {reserved} reserved ({share}) is free but stranded: in segments that still hold something, in pieces "
    "of at most {largest}": (
        "预留的 {reserved} 中有 {free}（{share}）空闲却被困：位于仍有内容的 segment 里，每块不超过 {largest}"
    ),
    "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what stays before what comes and goes": (
        "设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True，或先分配长期存在的、再分配来去的"
    ),
    "{used} in use keeps a segment of {size}; {free} of it is free": (
        "使用中的 {used} 留住了 {size} 的 segment，其中空闲 {free}"
    ),
    "at the end of the history": "在历史结束时",
    "{time} after the history began": "历史开始后 {time}",
    "the peak is {peak}; its largest part, {share}: {place}": "峰值 {peak}，最大的一部分（{share}）：{place}",
    "the peak is {peak}; the largest part of it that has a stack, {share}: {place}": (
        "峰值 {peak}，有调用栈的部分中最大的（{share}）：{place}"
    ),
    "{size} of what has no stack may be gradients: of the size of what {place} allocates, and nothing else": (
        "没有调用栈的部分中有 {size} 可能是梯度：大小与 {place} 分配的相同，而别处没有这种大小"
    ),
    "torch gives memory back to CUDA and takes it again: {count} segments of {size} together in the second half of "
    "the history": "torch 把内存还给 CUDA 又重新申请：历史的后一半里有 {count} 个 segment，共 {size}",
    "given back by {place}": "归还者：{place}",
    "leave out `torch.cuda.empty_cache()` in the loop; near the limit, hold less or use expandable segments": (
        "循环里不要 `torch.cuda.empty_cache()`；接近上限时少占用，或使用可扩展 segment"
    ),
    # present/views/memory_snapshot
    "Allocated by": "分配者",
    "Allocations": "分配次数",
    "Moment": "时刻",
    "Reserved": "预留",
    "Reserved, MB": "预留，MB",
    "Allocated": "已分配",
    "Allocated, MB": "已分配，MB",
    "Awaiting free": "等待释放",
    "Awaiting free, MB": "等待释放，MB",
    "Stranded": "被困",
    "Stranded, MB": "被困，MB",
    "Can be given back": "可归还",
    "Can be given back, MB": "可归还，MB",
    "Largest stranded": "最大的被困块",
    "Largest stranded, MB": "最大的被困块，MB",
    "Segment": "内存段（segment）",
    "In use": "使用中",
    "In use, MB": "使用中，MB",
    "Free": "空闲",
    "Free, MB": "空闲，MB",
    "Largest free": "最大空闲块",
    "Largest free, MB": "最大空闲块，MB",
    "Blocks": "块数",
    "In steps": "出现的步数",
    "Lives (median)": "存活时间（中位）",
    "Claim": "结论",
    "Fix": "解决",
    "Confidence": "可信度",
    "out of memory": "显存不足",
    "end": "结束",
    "{code}: {claim}": "{code}：{claim}",
    "{name}: the allocator held nothing, and no event was recorded.": "{name}：分配器没有占用内存，也没有记录事件。",
    "GPU {gpu}: {size} allocated of {reserved} reserved when the snapshot was taken; no history was recorded.": (
        "GPU {gpu}：快照时已分配 {size}，预留 {reserved}；没有记录历史。"
    ),
    "Fix: record one with `gpuledger capture torch --memory`, to see the peak and who held it.": (
        "解决：用 `gpuledger capture torch --memory` 记录历史，才能看到峰值和占用者。"
    ),
    "GPU {gpu}: peak {peak} allocated, {when}; {reserved} reserved at most.": (
        "GPU {gpu}：峰值已分配 {peak}，{when}；最多预留 {reserved}。"
    ),
    "time not recorded": "时间未记录",
    "{time} into the history": "历史开始后 {time}",
    "Most of the peak, of what has a stack: {size} ({share}), {place}.": (
        "峰值中有调用栈的部分，最多的是：{size}（{share}），{place}。"
    ),
    "Most of the peak: {size} ({share}), {place}.": "峰值中最多的是：{size}（{share}），{place}。",
    "{size} was allocated before the history began; record from the start to see by whom.": (
        "有 {size} 在历史开始之前分配；从一开始就记录才能看到由谁分配。"
    ),
    "GPU {gpu}: out of memory: {request} did not fit, asked for by {place}.": (
        "GPU {gpu}：显存不足：{place} 申请的 {request} 放不下。"
    ),
    "Reserved memory and its parts, GPU {gpu}": "预留内存及其组成，GPU {gpu}",
    "Peak by line, GPU {gpu}": "峰值，按代码行，GPU {gpu}",
    "Peak by stack, GPU {gpu}": "峰值，按调用栈，GPU {gpu}",
    "Held when memory ran out, GPU {gpu}": "显存不足时的占用，GPU {gpu}",
    "Never freed, step after step, GPU {gpu}": "逐步增长、从不释放，GPU {gpu}",
    "Segments with stranded memory, GPU {gpu}": "有被困内存的 segment，GPU {gpu}",
    "Allocated and freed again, GPU {gpu}": "分配后又释放，GPU {gpu}",
    "Memory over time, GPU {gpu}": "内存随时间的变化，GPU {gpu}",
    "Memory event by event, GPU {gpu}": "内存逐事件的变化，GPU {gpu}",
    "{count} events": "{count} 个事件",
    "Peak {peak} allocated, {reserved} reserved": "峰值已分配 {peak}，预留 {reserved}",
    "Device memory: allocated (area) and reserved (line)": "显存：已分配（面积）与预留（线）",
    "Who holds the memory": "内存在谁手里",
    "Memory over the report's window, GPU {gpu}": "报告时间窗内的内存，GPU {gpu}",
    "The memory events of the trace count from its first one: what was allocated before is in the snapshot alone.": (
        "trace 里的内存事件从第一个开始计；之前分配的只在快照里。"
    ),
    "The profile does not say when it was on the wall clock, so the two are not on one time.": (
        "profile 没有记录墙上时钟，两者不在同一时间轴上。"
    ),
    "GPU {gpu}: the peak is at {time} of this timeline.": "GPU {gpu}：峰值在本时间轴的 {time}。",
    "GPU {gpu}: the peak is at {time}, outside of what is shown here.": (
        "GPU {gpu}：峰值在 {time}，不在这里显示的范围内。"
    ),
    "GPU {gpu}: {count} events of the allocator fit to no other; sums may be off by their bytes.": (
        "GPU {gpu}：有 {count} 个分配器事件无法配对，合计可能相差它们的字节。"
    ),
    # read/snapshot
    "{count} events of the allocator are of a kind that is not known, or have no size": (
        "{count} 个分配器事件的种类未知，或没有大小"
    ),
    "{count} segments have no size or address": "{count} 个 segment 没有大小或地址",
}
