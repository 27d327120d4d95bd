"""Chinese for what Nsight Compute's reports say of kernels. In the order of the modules that say it."""

from __future__ import annotations

from typing import Final

KERNELS: Final[dict[str, str]] = {
    "{first} {then}": "{first}{then}",
    "the busiest SM unit": "SM 中最忙的单元",
    "a unit of the SM": "SM 单元",
    "collect the section ComputeWorkloadAnalysis: it shows which pipeline is busy": (
        "请采集 ComputeWorkloadAnalysis 分节，以确定是哪条流水线繁忙"
    ),
    # analyse/kernels/advice
    "only fewer bytes make it faster: fuse it with its neighbors, use a smaller type, read nothing twice": (
        "只有减少访存量才能更快：与相邻 kernel 融合，改用更小的数据类型，避免重复读取"
    ),
    "coalesce its accesses: let neighboring threads touch neighboring addresses, change the "
    "layout, or go through shared memory": "合并访存：让相邻线程访问相邻地址，改变数据布局，或经由 shared memory",
    "{share} of the sectors that its global accesses move are excessive (uncoalesced): NVIDIA estimates "
    "that {saving} of the kernel's time would go": (
        "全局访存搬运的 sector 中有 {share} 是多余的（未合并访问）：NVIDIA 估计可省下该 kernel {saving} 的时间"
    ),
    "{share} of the sectors that its global accesses move are excessive (uncoalesced): up to {saving} of the "
    "kernel's time would go": (
        "全局访存搬运的 sector 中有 {share} 是多余的（未合并访问）：至多可省下该 kernel {saving} 的时间"
    ),
    "reduce L2 traffic: larger tiles, blocks ordered so that neighbors share data, TMA multicast": (
        "减少经过 L2 的数据量：加大 tile，调整 block 次序让相邻 block 共享数据，使用 TMA 多播"
    ),
    "reduce shared-memory traffic: wider accesses, no bank conflicts, more reuse in registers": (
        "减轻 shared memory 的压力：加宽每次访问，消除 bank 冲突，在寄存器中更多地复用数据"
    ),
    "it is near the tensor-core peak: only a smaller type, sparsity or less work makes it faster": (
        "已接近 Tensor Core 的极限：只有改用更小的数据类型、利用稀疏性或减少计算量才能更快"
    ),
    "use FP32, or tensor cores, where the accuracy allows": "在精度允许时改用 FP32 或 Tensor Core",
    "use tensor cores, or packed half precision, where the accuracy allows": (
        "在精度允许时改用 Tensor Core 或打包（packed）半精度运算"
    ),
    "use fewer integer instructions: simpler indexing, wider loads, more elements per thread": (
        "减少整数指令：简化索引计算，加宽加载，让每个线程处理更多元素"
    ),
    "use tensor cores where the shapes allow": "在形状允许时改用 Tensor Core",
    "replace exponentials, divisions and roots by cheaper approximations": "用开销更低的近似代替指数、除法和开方",
    "move more bytes per instruction: vectorized loads and stores, coalesced accesses": (
        "让每条指令搬运更多字节：向量化加载与存储，合并访存"
    ),
    "move work from uniform instructions into vector ones": "把 uniform 指令的工作移到普通向量指令",
    "replace texture accesses by plain loads": "用普通加载代替纹理访问",
    "use fewer instructions per element: wider loads, packed arithmetic, more elements per thread": (
        "减少每个元素耗费的指令：加宽加载，使用打包（packed）运算，让每个线程处理更多元素"
    ),
    "give it more parallel work: split the reduction, batch calls, or run other work concurrently": (
        "增加并行工作：拆分归约维，合并多次调用，或同时运行其他 kernel"
    ),
    "choose a tile or grid that fills whole waves, or a persistent kernel": (
        "选择能凑成完整 wave 的 tile 或 grid 大小，或改用常驻（persistent）kernel"
    ),
    "use fewer registers or less shared memory per block, or keep more loads in flight per warp": (
        "减少每个 block 的寄存器或 shared memory 用量，或让每个 warp 同时发出更多加载"
    ),
    "balance the work: smaller tiles, or dynamic tile scheduling": ("均匀分配工作：减小 tile，或在运行时动态分发 tile"),
    "fuse it with its neighbors: a kernel this short is mostly start-up and tear-down": (
        "与相邻 kernel 融合：这么短的 kernel，大部分时间花在启动和收尾上"
    ),
    "keep more loads in flight: prefetch, asynchronous copies, more work per thread": (
        "让更多加载同时在途：预取，异步拷贝，让每个线程做更多工作"
    ),
    "collect the sections Occupancy, LaunchStats and WarpStateStats": (
        "采集 Occupancy、LaunchStats 和 WarpStateStats 这几个 section"
    ),
    "collect the section SpeedOfLight": "采集 SpeedOfLight 这个 section",
    "NVIDIA: {title} (estimate: {share} of the kernel's time)": "NVIDIA：{title}（预计可省该 kernel 时间的 {share}）",
    "NVIDIA: {title} (estimate: {share} of the part it is about)": "NVIDIA：{title}（预计可省相关部分的 {share}）",
    # analyse/kernels/launch_figures
    "{figure} reads {value}, over 100 %: on a kernel this short the replay passes do not add up": (
        "{figure}的读数为 {value}，超过 100 %：kernel 太短，多遍重放的计数互相对不上"
    ),
    "SM throughput": "SM 吞吐量",
    "SM efficiency": "SM 效率",
    "memory throughput": "访存吞吐量",
    "DRAM throughput": "显存吞吐量",
    "L2 throughput": "L2 吞吐量",
    "L1 throughput": "L1 吞吐量",
    "L2 hit rate": "L2 命中率",
    "L1 hit rate": "L1 命中率",
    "occupancy": "占用率",
    "theoretical occupancy": "理论占用率",
    "occupancy efficiency": "占用率效率",
    "DRAM bandwidth": "显存带宽",
    # analyse/kernels/verdict
    "neither compute nor memory throughput was collected": "计算和访存的吞吐量都未采集",
    "memory": "访存",
    "compute reaches {compute} and memory {memory} of their peaks": (
        "计算达到峰值的 {compute}，访存达到峰值的 {memory}"
    ),
    "only {known} is known, at {share} of its peak": "只采集到{known}的吞吐量，为峰值的 {share}",
    "{unit} runs at {share} of its peak": "{unit}的吞吐量达到峰值的 {share}",
    "L2 hit rate {share}: data that is read once cannot hit": "L2 命中率 {share}：仅被读取一次的数据不可能命中",
    "DRAM": "显存带宽",
    "the L2 cache": "L2 缓存",
    "L1 and shared memory": "L1 与共享内存",
    "the tensor pipeline": "Tensor Core 流水线",
    "the FP64 pipeline": "FP64 流水线",
    "the FMA pipeline": "FMA 流水线",
    "the integer and logic pipeline": "整数与逻辑（ALU）流水线",
    "the FP16 pipeline": "FP16 流水线",
    "the special-function pipeline": "特殊函数（XU）流水线",
    "the load/store pipeline": "加载/存储（LSU）流水线",
    "the uniform pipeline": "uniform 流水线",
    "the texture pipeline": "纹理流水线",
    "instruction issue": "指令发射",
    "it runs for only {time}": "单次运行只有 {time}",
    "each instruction waits {cycles} cycles {reason}": "主要 stall：{reason}，平均每条指令 {cycles} 个周期",
    "the collected metrics do not show what it waits for": "已采集的指标不足以说明它在等待什么",
    "{blocks} blocks for {processors} SMs": "{processors} 个 SM 只分到 {blocks} 个 block",
    "the grid is {waves} waves": "整个 grid 只有 {waves} 个 wave，填不满 GPU",
    "{waves} waves take as long as {whole}: {share} of SM time is lost in the last one": (
        "{waves} 个 wave 要花 {whole} 个 wave 的时间：SM 有 {share} 的时间浪费在最后一个 wave"
    ),
    "occupancy is only {share}": "占用率（occupancy）只有 {share}",
    "occupancy is {share}; {resource} allow no more than {allowed}": (
        "占用率（occupancy）为 {share}；受{resource}限制，最高只能达到 {allowed}"
    ),
    "its resources": "资源用量",
    "its registers": "寄存器用量",
    "its blocks' shared memory": "block 的 shared memory 用量",
    "its blocks' size": "block 大小",
    "the blocks that fit on an SM": "每个 SM 可容纳的 block 数",
    "its barriers": "barrier 数量",
    "on average, SMs are busy for {share} of the busiest one's time": ("各 SM 的平均工作时间只有最忙的 SM 的 {share}"),
    "for data from L1, L2 or DRAM": "等待来自 L1、L2 或显存的数据",
    "for data from shared memory": "等待来自 shared memory 的数据",
    "at a barrier of the block": "在 block 的同步 barrier 处等待",
    "at a memory barrier": "在内存 barrier 处等待",
    "for a busy pipeline": "等待繁忙的流水线",
    "for a full queue of memory instructions": "访存指令队列已满",
    "for a full queue of global memory instructions": "全局内存指令队列已满",
    "for a full queue of texture instructions": "纹理指令队列已满",
    "for a fixed latency": "等待指令的固定延迟",
    "for instructions to be fetched": "等待取指",
    "for a branch to be resolved": "等待分支目标确定",
    "for the dispatcher": "等待指令派发",
    "for stores to drain at the end": "结束时等待写操作排空",
    "for constants": "等待常量缓存",
    "asleep": "线程处于休眠",
    "for the tensor cores": "等待 Tensor Core",
    # findings/kernels
    "{kernel} takes {time} and reaches {share} of its nearest roof": ("{kernel}（{time}）只达到硬件峰值的 {share}"),
    "its accesses are coalesced": "其访存已合并",
    "it reaches 90 % of that roof": "它达到该峰值的 90 %",
    # read/ncu/blocks, csv, rep_file
    "truncated": "被截断",
    "damaged": "已损坏",
    "{file}: the file ends in the middle of a row; the rest is lost": (
        "{file}：文件在一行的中间结束，此后的内容已丢失"
    ),
    "{file}: {count} rows are damaged and were left out": "{file}：{count} 行已损坏，已略去",
    "{file}: {count} values are given twice and differ; the first counts": (
        "{file}：{count} 个值重复出现且不一致；以第一个为准"
    ),
    "{file}: {count} values are not numbers and were left out": "{file}：{count} 个值不是数字，已略去",
    "{file}: {count} values are larger than any counter can be and were left out": (
        "{file}：{count} 个值超出任何计数器的可能范围，已略去"
    ),
    "{file}: 1.234 could mean a little over one or over a thousand; taken as one": (
        "{file}：无法判断 1.234 是一点几还是一千多；按一点几处理"
    ),
    "{file}: {count} values under unknown labels, such as '{label}', were left out": (
        "{file}：{count} 个值的标签未知（例如 '{label}'），已略去"
    ),
    "{file}: {count} values in '{unit}' were left out": "{file}：{count} 个以 '{unit}' 为单位的值已略去",
    "{file}: the report is {trouble}: {count} of its launches can be read, the rest is lost "
    "({whole} of {size} are intact)": (
        "{file}：报告{trouble}，只能读出 {count} 次启动，其余已丢失（{size} 中有 {whole} 完好）"
    ),
    "{file}: {lost} of {count} launches cannot be read": "{file}：{count} 次启动中有 {lost} 次无法读取",
    # present/writers/text
    "(not shown: {columns}; needs {width} columns, or a pipe such as `| less -S`)": (
        "（宽度不足，未显示的列：{columns}；{width} 列宽的终端或管道（如 `| less -S`）可全部显示）"
    ),
    # present/views/step_kernels
    "order": "顺序",
    "range": "区间",
    "shape": "形状",
    "other size": "规模不同",
    "other shape": "形状不同",
    "other variant": "变体不同",
    "none": "无",
    "name, shape and place in the sequence": "名称、形状和序列中的位置一致",
    "name, shape and NVTX range": "名称、形状和 NVTX 区间一致",
    "name and shape": "名称和形状一致",
    "name and shape, but a problem of another size": "名称和形状一致，但问题规模不同",
    "name, in another shape": "名称一致，但形状不同",
    "the function with other template arguments": "函数相同，但模板参数不同",
    "nothing like it": "没有对应的结果",
    "Times come from the timeline. Nsight Compute replays each kernel in isolation, with caches "
    "flushed and, by default, clocks locked, so only its percentages of peak are used, not its "
    "times.": (
        "时间取自时间线。Nsight Compute 单独重放每个 kernel，重放前清空缓存，且默认锁定时钟频率，"
        "因此只采用它测得的峰值占比，不采用它测得的时间。"
    ),
    "Kernels of a step, in execution order": "每步的 kernel（按执行顺序）",
    "Kernels of the window, in execution order": "时间窗口内的 kernel（按执行顺序）",
    "In each of {layers} layers (times summed over all)": "层内（共 {layers} 层，次数和时间为各层合计）",
    "Outside the layers": "层外",
    "{share} of compute is in graphs whose kernels were not recorded.": (
        "{share} 的计算时间在 CUDA graph 内，图内的 kernel 没有记录。"
    ),
    "{share} by {means}": "{share}（{means}）",
    "Nsight Compute covers {share} of the GPU's compute time: {levels}.": (
        "Nsight Compute 的结果覆盖 GPU 计算时间的 {share}。按匹配程度：{levels}。"
    ),
    "{count} profiled launches match no kernel here.": "另有 {count} 次采集到的启动与这里的 kernel 都不匹配。",
    "Kernel": "kernel 名称",
    "Calls": "次数",
    "Time": "时间",
    "Share": "占比",
    "Match": "匹配",
    "Of roof": "达峰值",
    "Range": "所在区间",
    "Kernels of a step": "每步的 kernel",
    "Kernels in depth, largest saving first": "kernel 逐个分析（提升空间大的在前）",
    "No kernel here was profiled; `gpuledger ncu-plan PROFILE` shows which are worth it.": (
        "这里的 kernel 都没有用 Nsight Compute 采集；`gpuledger ncu-plan PROFILE` 会列出值得采集的 kernel。"
    ),
    "{number}. {kernel}: {bound}, severity {severity}": "{number}. {kernel}，瓶颈：{bound}，严重程度：{severity}",
    "{time} per step in {calls}; with coalesced accesses it would save {saving}": (
        "每步调用 {calls}，共 {time}；若合并访存，可省 {saving}"
    ),
    "{time} per step in {calls}; at its nearest roof it would save {saving}": (
        "每步调用 {calls}，共 {time}；若达到硬件峰值，可省 {saving}"
    ),
    "one call": "1 次",
    "{count} calls": "{count} 次",
    "Bottlenecks by severity": "瓶颈（按严重程度排列）",
    "Severity": "严重程度",
    "Bound by": "瓶颈",
    "Saves per step": "每步可省",
    "Profiled, but not in these steps": "已采集、但不在这些步中的 kernel",
    # present/views/kernels
    "latency": "延迟",
    "L2": "L2 缓存",
    "L1": "L1 缓存",
    "tensor cores": "Tensor Core 单元",
    "FP64": "FP64 单元",
    "FMA": "FMA 单元",
    "ALU": "ALU 单元",
    "FP16": "FP16 单元",
    "special functions": "特殊函数",
    "load/store": "加载/存储",
    "uniform": "uniform 单元",
    "texture": "纹理单元",
    "issue slots": "指令发射",
    "too few blocks": "block 太少",
    "tail effect": "尾部效应",
    "load imbalance": "负载不均",
    "too short": "运行太短",
    "stalls": "stall 停顿",
    "cause not collected": "原因未采集",
    "not collected": "未采集",
    "low": "低",
    "Times here are Nsight Compute's: it replays each kernel in isolation, with caches flushed "
    "and, by default, clocks locked. Times on a timeline differ; rank by those (`gpuledger "
    "report PROFILE --ncu=FILE`).": (
        "这里的时间由 Nsight Compute 测得：它单独重放每个 kernel，重放前清空缓存，且默认锁定时钟频率，"
        "因此与时间线上的时间不同；排序请以时间线为准（`gpuledger report PROFILE --ncu=FILE`）。"
    ),
    "{files}: {gpu}, {what}, {time}": "{files}：{gpu}，{what}，{time}",
    "{launches} launches of {kernels} kernels": "{kernels} 个 kernel 共启动 {launches} 次",
    "one launch": "启动 1 次",
    "GPU not named": "GPU（名称未记录）",
    "In depth, largest saving first": "逐个分析（提升空间大的在前）",
    "The metrics that compare these kernels with the GPU's peaks were not collected.": (
        "没有采集到足以判断这些 kernel 离硬件峰值多远的指标。"
    ),
    "All these kernels are at the roof; only less work would make them faster.": (
        "这些 kernel 都已达到各自的硬件峰值；只有减少工作量才能更快。"
    ),
    "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}), and "
    "{wasted} of the sectors it moves are excessive; coalesced accesses would save {gain} of the "
    "time.": (
        "提升空间最大的是 {kernel}：占总时间的 {share}，{bound}受限（{limiter}），"
        "所搬运的 sector 中有 {wasted} 是多余的；若合并访存，可省下总时间的 {gain}。"
    ),
    "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}); at its "
    "nearest roof it would save {gain} of the time.": (
        "提升空间最大的是 {kernel}：占总时间的 {share}，{bound}受限（{limiter}）；"
        "若达到硬件峰值，可省下总时间的 {gain}。"
    ),
    "x": "次数",
    "Occupancy": "占用率",
    "Grid": "grid 大小",
    "Block": "block 大小",
    "Kernels": "各 kernel",
    "{bound}: {limiter}": "{bound}（{limiter}）",
    "{kernel}: {bound}, severity {severity}": "{kernel}，瓶颈：{bound}，严重程度：{severity}",
    "try: {advice}": "建议：{advice}",
    "{rate}, {share} of the peak": "{rate} 占峰值的 {share}",
    "{figure} {value}": "{figure} {value}",
    "{figure} {value} ({least} to {most})": "{figure} {least}～{most}（平均 {value}）",
    # present/views/kernel_counts, made_at
    "Kernels in numbers": "kernel 统计",
    "bottlenecks: {kinds}": "瓶颈类型：{kinds}",
    "severity: {kinds}": "严重程度：{kinds}",
    "{bound} {count} ({details})": "{bound} {count} 个（{details}）",
    "{what} {count}": "{what} {count} 个",
    "below {half} of the nearest roof: {count} of {kernels}": (
        "低于硬件峰值 {half} 的 kernel：{count} 个（共 {kernels} 个）"
    ),
    "below {half}: {counts}": "低于 {half}：{counts}",
    "below {half}: {counts} (data that is read once cannot hit)": "低于 {half}：{counts}（只读一次的数据不可能命中）",
    "{figure} {count} of {kernels}": "{figure} {count}/{kernels} 个",
    "Made {time} UTC.": "生成时间：{time} UTC。",
    # present/views/timeline_kernels
    "Time per step": "每步时间",
    "One call": "单次",
    "Layers": "层数",
    "(graphs whose kernels were not recorded)": "（未记录内部 kernel 的 CUDA graph）",
    "Kernels of the window in execution order, GPU {gpu} (shares of compute)": (
        "GPU {gpu} 窗口内的 kernel，按执行次序（占计算时间的比例）"
    ),
    "Kernels in execution order, GPU {gpu} (calls in all {steps} steps; shares of compute)": (
        "GPU {gpu} 的 kernel，按执行次序（次数为全部 {steps} 步合计；占计算时间的比例）"
    ),
}
