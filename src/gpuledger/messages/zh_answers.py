"""Chinese of the first sentences of the verbs that ask one question (`present/views/answers`)."""

from __future__ import annotations

from typing import Final

ANSWERS: Final[dict[str, str]] = {
    # steps
    "GPU {gpu}: no steps found in {window}.": "GPU {gpu}：{window} 内没有找到步。",
    "Fix: define the step with --step-range=REGEX or --step-kernel=REGEX.": (
        "解决：用 --step-range=REGEX 或 --step-kernel=REGEX 指明什么是一步。"
    ),
    "GPU {gpu}: one step of {median}, GPU busy {busy} ({source}).": (
        "GPU {gpu}：一步 {median}，GPU 忙碌 {busy}，{source}。"
    ),
    "GPU {gpu}: {count} steps of {median} (median; P10 {low}, P90 {high}), GPU busy {busy} ({source}).": (
        "GPU {gpu}：{count} 步，每步 {median}（中位数；P10 {low}，P90 {high}），GPU 忙碌 {busy}，{source}。"
    ),
    "Unusual steps: {count}. The longest, step {step}, takes {length}: {excess} more {line} than usual.": (
        "异常步：{count} 个。最长的是第 {step} 步，用时 {length}：{line} 比平常多 {excess}。"
    ),
    "Steps drift: {early} in the first third, {late} in the last, most of it {line}.": (
        "步长漂移：前三分之一为 {early}，后三分之一为 {late}，主要来自 {line}。"
    ),
    "Largest line: {line}, {share}; for details run `gpuledger {verb}`.": (
        "时间最多的部分：{line}，{share}；用 `gpuledger {verb}` 细看。"
    ),
    # gaps
    "GPU {gpu}: never idle in {window}.": "GPU {gpu}：{window} 内从不空闲。",
    "GPU {gpu}: idle {share} of the window ({idle} of {window}), in {count} gaps; {part} of the idle time is "
    "{cause}.": (
        "GPU {gpu}：窗口内空闲 {share}（{window} 中的 {idle}），共 {count} 段间隙；空闲时间的 {part} 是{cause}。"
    ),
    "Most of it in the steady steps: {trigger}, {share} ({count} gaps, {time}).": (
        "稳定步内最多的是：{trigger}，{share}（{count} 段间隙，{time}）。"
    ),
    "Most of it in the steady steps: {trigger}, {share} ({count} gaps, {time}): `gpuledger explain {code}`; "
    "`gpuledger report` ranks fixes by what they save.": (
        "稳定步内最多的是：{trigger}，{share}（{count} 段间隙，{time}）：`gpuledger explain {code}`；"
        "`gpuledger report` 按节省排列各项优化。"
    ),
    # launches
    "GPU {gpu}: no launch call was recorded in the steady steps.": "GPU {gpu}：稳定步内没有记录到启动调用。",
    "GPU {gpu}: launch calls take {time} on the CPU ({share} of the time): {count}; {ahead}.": (
        "GPU {gpu}：启动调用占用 CPU：{time}（占时间的 {share}）：{count}；{ahead}。"
    ),
    "The CPU waits {time} for the GPU: {count}.": "CPU 等待 GPU：{time}，{count}。",
    "Fix: {share} of the GPU work takes under 5 us, less than launching it: fuse it, or capture "
    "the step in a CUDA graph (`gpuledger explain TINY-KERNELS`).": (
        "解决：{share} 的 GPU 工作不到 5 us，比一次启动还短：融合它们，或把一步捕获为 CUDA graph"
        "（`gpuledger explain TINY-KERNELS`）。"
    ),
    "how far the CPU runs ahead was not recorded": "没有记录 CPU 领先多少",
    "the CPU runs ahead: work waits {median} in the queue (median), {share} of it for over 10 us": (
        "CPU 领先：工作排队 {median}（中位数），其中 {share} 超过 10 us"
    ),
    "the CPU does not run ahead: work waits {median} in the queue (median), {share} of it for over 10 us": (
        "CPU 没有领先：工作排队 {median}（中位数），其中 {share} 超过 10 us"
    ),
    # memory
    "GPU {gpu}: no copies in the steady steps.": "GPU {gpu}：稳定步内没有拷贝。",
    "GPU {gpu}: copies and memsets take {time} ({share} of the time) and move {size}: {count}.": (
        "GPU {gpu}：拷贝和 memset：{time}（占时间的 {share}），搬运 {size}：{count}。"
    ),
    "Peak device memory: {size}.": "显存峰值：{size}。",
    "Fix: {count} of {whole} copies use pageable host memory, which blocks the CPU; pin it (`gpuledger explain "
    "COPY-PAGEABLE`).": (
        "解决：{whole} 次拷贝中有 {count} 次使用可换页的主机内存，会阻塞 CPU；请锁页"
        "（`gpuledger explain COPY-PAGEABLE`）。"
    ),
    "{count} of {whole} copies use pageable host memory, which blocks the CPU.": (
        "{whole} 次拷贝中有 {count} 次使用可换页的主机内存，会阻塞 CPU。"
    ),
    "Fix: allocating and freeing device memory takes {time}: {count}; allocate once, before the steps (`gpuledger "
    "explain HOST-ALLOC`).": (
        "解决：分配和释放显存用时 {time}：{count}；请在各步之前一次分配（`gpuledger explain HOST-ALLOC`）。"
    ),
    # ranges
    "GPU {gpu}: no ranges were recorded.": "GPU {gpu}：没有记录到区间。",
    "Fix: mark the program with NVTX, e.g. `with torch.cuda.nvtx.range('decode'):`, and record again.": (
        "解决：用 NVTX 标注程序，例如 `with torch.cuda.nvtx.range('decode'):`，再重新采集。"
    ),
    "GPU {gpu}: no GPU work in the window.": "GPU {gpu}：窗口内没有 GPU 工作。",
    "GPU {gpu}: no GPU work was launched in a range.": "GPU {gpu}：没有在区间内启动的 GPU 工作。",
    "{name} {share}": "{name} {share}",
    "GPU {gpu}: {share} of {time} of GPU time was launched inside ranges, most of it in "
    "{largest} (excluding nested ranges).": (
        "GPU {gpu}：{time} GPU 时间中有 {share} 在区间内启动；最多的是 {largest}（不含内层区间）。"
    ),
    # overlap
    "GPU {gpu}: busy {busy} of the window: compute {compute}, exposed communication {communication}, exposed copies "
    "{copies}.": "GPU {gpu}：窗口内忙碌 {busy}：计算 {compute}，未掩盖的通信 {communication}，未掩盖的拷贝 {copies}。",
    "Of {time} of {what}, {share} is not overlapped with compute.": "{time} 的{what}中，{share} 没有与计算重叠。",
    "Fix: of {time} of {what}, {share} is not overlapped with compute (`gpuledger explain {code}`).": (
        "解决：{time} 的{what}中，{share} 没有与计算重叠（`gpuledger explain {code}`）。"
    ),
    # ops
    "GPU {gpu}: no operators were recorded.": "GPU {gpu}：没有记录到算子。",
    "Fix: record with `gpuledger capture torch`; `gpuledger ranges` has what NVTX marks.": (
        "解决：用 `gpuledger capture torch` 采集；NVTX 标注的内容见 `gpuledger ranges`。"
    ),
    "GPU {gpu}: no GPU work in the steady steps.": "GPU {gpu}：稳定步内没有 GPU 工作。",
    "GPU {gpu}: operators with the most GPU self time: {largest}, of {time}.": (
        "GPU {gpu}：自身 GPU 时间最多的算子：{largest}，总时间：{time}。"
    ),
    "MFU at most {share} of the dense peak of {gpu}.": "MFU 至多为 {gpu} 稠密峰值的 {share}。",
    "MFU {share} of the dense peak of {gpu}.": "MFU 为 {gpu} 稠密峰值的 {share}。",
    # present/views/report
    "perhaps nothing without the profiler, which slows the host down": (
        "不用 profiler 时也许省不了什么：profiler 会拖慢主机"
    ),
    "perhaps only {low} without the profiler, which slows the host down": (
        "不用 profiler 时也许只能省 {low}：profiler 会拖慢主机"
    ),
    "perhaps only {low} per step without the profiler, which slows the host down": (
        "不用 profiler 时也许每步只能省 {low}：profiler 会拖慢主机"
    ),
    # kernels
    "GPU {gpu}: no kernels in the steady steps.": "GPU {gpu}：稳定步内没有 kernel。",
    "GPU {gpu}: kernels take {time} ({share} of the time): {count}; {part} of that in {kernel}.": (
        "GPU {gpu}：kernel 用时 {time}（占时间的 {share}）：{count}；最多的是 {kernel}，占其中的 {part}。"
    ),
    # info
    "No GPU work was recorded: there is nothing to report on (`gpuledger explain CAPTURE-EMPTY`).": (
        "没有记录到 GPU 工作：没有可报告的内容（`gpuledger explain CAPTURE-EMPTY`）。"
    ),
    "Incomplete: {sentence}.": "不完整：{sentence}。",
    "Good for a report: nothing was lost, and everything it needs was recorded.": (
        "可用于报告：没有丢失，所需内容都已记录。"
    ),
    "Good for a report: nothing was lost. Not recorded: {names}.": "可用于报告：没有丢失。未记录：{names}。",
    # counts
    "{told} in {steps} steps": "{steps} 步共 {told}",
    "{count} {what} per step": "每步 {count} {what}",
    "transfer": "次传输",
    "transfers": "次传输",
}
