"""Chinese for use of the GPU from samples."""

from __future__ import annotations

from typing import Final

USE: Final[dict[str, str]] = {
    # trace/tables
    "one value of one counter of a GPU, sampled; start_ns and end_ns are its timestamp": (
        "GPU 某个计数器的一次采样值；start_ns 与 end_ns 均为其时间戳"
    ),
    # analyse/use
    "no known counter of GPU {gpu} was sampled": "GPU {gpu} 上没有采样到已知的计数器",
    "GPU {gpu} was sampled less than twice": "GPU {gpu} 的采样不足两次",
    "no kernel of GPU {gpu} was sampled": "GPU {gpu} 上没有采样到任何 kernel",
    "GPU {gpu} was sampled {count} times while its kernels ran": "GPU {gpu} 的 kernel 运行期间只采样了 {count} 次",
    # present/views/operators, present/views/answers: matrix products against their roofs
    "Roof": "屋顶线",
    "Of its roof": "占屋顶线",
    "partly from the caches": "部分数据来自缓存",
    "{share} of the GPU time is in matrix products of few rows ({rows} in the largest), bound by reading their "
    "weights: they run at {roof} of the memory bandwidth. Up to about {free} rows take hardly longer, so a larger "
    "batch gives more tokens per second; quantized weights are fewer bytes to read.": (
        "GPU 时间的 {share} 用于行数很少的矩阵乘（耗时最多者为 {rows} 行），受限于读取权重：达到显存带宽的 {roof}。"
        "约 {free} 行以内耗时几乎不变，因此增大 batch 可提高每秒 token 数；量化权重可减少读取的字节数。"
    ),
    "{name} with {rows} rows is far from it, at {share}: split-K, stream-K or a smaller tile keeps more reads "
    "in flight.": "{rows} 行的 {name} 离该上限较远，仅 {share}：split-K、stream-K 或更小的 tile 可使更多读取同时进行。",
    "Occupancy limit": "占用率上限",
    "{share} by {resource}": "{share}（受限于{resource}）",
    "registers": "寄存器",
    "shared memory": "共享内存",
    "block size": "block 大小",
    "blocks per SM": "每 SM 的 block 数",
    "{kernel} ({share} of kernel time) is at no roof with an occupancy of {occupancy}; what more warps would save is "
    "not known.": (
        "{kernel}（占 kernel 时间 {share}）未达到任何屋顶线，占用率为 {occupancy}；增加 warp 能节省多少未知。"
    ),
    "{kernel} ({share} of kernel time) is at no roof with an occupancy of {occupancy}, of {limit} allowed by "
    "{resource}; what more warps would save is not known.": (
        "{kernel}（占 kernel 时间 {share}）未达到任何屋顶线，占用率为 {occupancy}，{resource}允许的上限为 {limit}；"
        "增加 warp 能节省多少未知。"
    ),
    "{share} of kernel time is in matrix kernels bound by DRAM, at {dram} of its bandwidth: products of few rows read "
    "all their weights. More rows (a larger batch) take hardly longer and give more tokens per second; quantized "
    "weights are fewer bytes to read.": (
        "kernel 时间的 {share} 用于受显存限制的矩阵 kernel，达到显存带宽的 {dram}：行数很少的矩阵乘需读取全部权重。"
        "增加行数（更大的 batch）耗时几乎不变，可提高每秒 token 数；量化权重可减少读取的字节数。"
    ),
    # present/views/kernel_use
    "SMs active": "SM 活跃",
    "Issue": "发射",
    "Tensor": "Tensor Core 单元",
    "Warps": "warp 驻留",
    "DRAM read": "显存读",
    "DRAM write": "显存写",
    "warps": "warp 驻留",
    "{counter} {share}": "{counter} {share}",
    "{counter} {share} ({low} to {high})": "{counter} {share}（{low} 至 {high}）",
    "{low} to {high} %": "{low} 至 {high} %",
    "{percent} %": "{percent} %",
    "({count} more kernels)": "（另有 {count} 个 kernel）",
    "GPU {gpu} utilization by kernel, from {count} samples every {period} (shares of kernel "
    "time; percent of peak while the kernel ran)": (
        "各 kernel 对 GPU {gpu} 的利用率，来自每 {period} 一次的 {count} 个采样"
        "（占 kernel 时间的比例；百分比以 kernel 运行期间 GPU 的能力为 100 %）"
    ),
    "GPU {gpu}, percent of peak while kernels ran: {figures}.": ("GPU {gpu} 在 kernel 运行期间的利用率：{figures}。"),
    "Most time: {kernel}, {share} of kernel time: {figures}.": (
        "耗时最多：{kernel}，占 kernel 时间 {share}：{figures}。"
    ),
    "The clock stayed below its maximum: {mean} MHz on average while kernels ran, {lowest} MHz "
    "at the lowest, of {highest} MHz.": (
        "时钟受限：kernel 运行期间平均 {mean} MHz，最低 {lowest} MHz，最高可达 {highest} MHz。"
    ),
    "at the compute roof": "计算接近上限",
    "at the memory roof": "显存带宽接近上限",
    "under-filled: SMs idle": "未填满：SM 空闲",
    "stalled: SMs waiting": "停滞：SM 在等待",
    "SMs idle": "SM 空闲",
    "stalled": "停滞",
    "PCIe in": "PCIe 入",
    "PCIe out": "PCIe 出",
    "the GPU samples were not read": "未读取 GPU 的采样",
    # present/views/use_split
    "Utilization": "利用情况",
    "of compute": "占计算时间",
    "mostly": "主要是",
    "GPU utilization during compute": "计算时间如何利用 GPU",
    "GPU utilization during compute, per step": "计算时间如何利用 GPU（每步）",
    "GPU {gpu} utilization during compute": "计算时间如何利用 GPU {gpu}",
    "{roof} of compute time is at a roof (compute {compute}, memory {memory}); {under_filled} "
    "leaves SMs idle, {stalled} is stalled, {unknown} is unknown.": (
        "计算时间的 {roof} 接近硬件上限（计算 {compute}，显存 {memory}）；{under_filled} 有 SM 空闲，"
        "{stalled} 停滞，{unknown} 未知。"
    ),
    "{family} {percent} %": "{family} {percent} %",
    "clock {megahertz} MHz": "时钟 {megahertz} MHz",
    "On average over the window, idle time included: {figures}.": "整个窗口的平均值（含空闲时间）：{figures}。",
    "On average over the steady steps, idle time included: {figures}.": "稳定步的平均值（含空闲时间）：{figures}。",
    "The kernels with the most time, from {count} samples every {period}, in percent of peak while they ran:": (
        "耗时最多的 kernel，来自每 {period} 一次的 {count} 个采样，以其运行期间 GPU 的能力为 100 %："
    ),
    "Kernels with the most time": "耗时最多的 kernel",
    # present/views/step_use
    "Clock (MHz)": "时钟 (MHz)",
    "GPU {gpu} utilization by step, from samples every {period}, idle time included": (
        "各步对 GPU {gpu} 的利用率，来自每 {period} 一次的采样（含空闲时间）"
    ),
    # findings/clocks
    "compute time": "计算时间",
    "under load the SM clock drops to {mean} MHz on average, {share} of the {highest} MHz maximum": (
        "负载下 SM 时钟平均降至 {mean} MHz，为 GPU 最高 {highest} MHz 的 {share}"
    ),
    "power, temperature or a set limit holds it down; the cost is unknown": "受功耗、温度或上限限制；代价无法得知",
    "the SM clock stays at {mean} MHz, {share} of the {highest} MHz maximum": (
        "SM 时钟固定在 {mean} MHz，为 GPU 最高 {highest} MHz 的 {share}"
    ),
    "compute-bound kernels run at the maximum clock": "计算接近上限的 kernel 以最高时钟运行",
    "{share} of compute time is at the compute roof, which scales with the clock": (
        "计算时间的 {share} 接近计算上限，该上限随时钟提高"
    ),
    "{lowest} to {most} MHz in {count} samples while kernels ran": (
        "在有 kernel 运行的 {count} 个采样中为 {lowest} 至 {most} MHz"
    ),
    # present/views/held_against
    "Samples vs Nsight Compute": "采样与 Nsight Compute 的对比",
    "For the {kernels} kernels in both (by name, grid and block), the intervals from samples "
    "contain {share} of the {count} values that Nsight Compute measured.": (
        "两者都有的 {kernels} 个 kernel（按名称、grid 与 block）中，"
        "采样的区间包含 Nsight Compute 所测 {count} 个数值的 {share}。"
    ),
    "Counter": "计数器",
    "Mean error by time": "按时间的平均误差",
    "In interval": "区间包含",
    "Samples": "采样",
    "Interval": "区间",
    "{points} points": "{points} 个百分点",
    # analyse/diff, present/views/diff
    "The SM clock while kernels ran differs: {before} MHz before, {after} MHz after (from samples).": (
        "kernel 运行期间的 SM 时钟不同：之前 {before} MHz，之后 {after} MHz（来自采样）。"
    ),
    "GPU utilization": "GPU 利用率",
    "GPU utilization of matched kernels": "相同 kernel 的 GPU 利用率",
    "GPU utilization of matched kernels, from samples: changes beyond both intervals": (
        "相同 kernel 的 GPU 利用率（来自采样，只列出超出两侧区间的变化）"
    ),
    # analyse/use/sampled_roofline, present/views/page/kernels
    "the profile does not describe the GPU": "profile 没有描述该 GPU",
    "no kernel has both its arithmetic and its DRAM traffic sampled": "没有 kernel 同时采样到算术与显存流量",
    "Roofline, from samples": "kernel 与其上限（来自采样）",
    "Kernels in depth (samples)": "kernel 详情（采样）",
    "Each dot is a kernel, sized by its share of the time, from samples of the GPU's counters: "
    "tensor-core cycles at the peak rate of its type; for kernels that hardly use them, issue "
    "slots counted as FP32 multiply-adds, an upper bound. Roofs are at the mean clock.": (
        "一个点是一个 kernel，大小为其时间占比，来自 GPU 计数器的采样：Tensor Core 的周期按其类型的峰值计；"
        "很少使用 Tensor Core 的 kernel，把每个发射槽都当作 FP32 乘加，因此是上界。上限按平均时钟计。"
    ),
    # present/views/ranges
    "Ranges, GPU {gpu} (percent of peak while their kernels ran, from samples)": (
        "区间，GPU {gpu}（百分比以其 kernel 运行期间 GPU 的能力为 100 %：采样）"
    ),
}
