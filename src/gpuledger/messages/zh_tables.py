"""Chinese of the verbs that answer with tables: titles, headings, cells. In the order of the modules that say them."""

from __future__ import annotations

from typing import Final

TABLES: Final[dict[str, str]] = {
    # trace/tables: what a row is
    "one kernel execution": "一次 kernel 执行",
    "one memory copy or memset on the GPU": "GPU 上的一次拷贝或 memset",
    "one execution of a whole CUDA graph whose nodes were not traced": "一次整体记录（未展开节点）的 CUDA graph 执行",
    "one call on the host: CUDA runtime, CUDA driver, a CUDA library, or the operating system": (
        "主机上的一次调用：CUDA runtime、CUDA driver、CUDA 库或操作系统"
    ),
    "one annotation on the host's timeline": "主机时间线上的一个标注（NVTX 等）",
    "one synchronization, as CUPTI reports it; incomplete by nature, so count calls instead": (
        "CUPTI 报告的一次同步；本身不完整，请改为统计调用"
    ),
    "one allocation or release of GPU memory; start_ns equals end_ns": "一次显存分配或释放；start_ns 等于 end_ns",
    "a span in which the profiler itself held a thread": "profiler 自身占住线程的一段时间",
    "one sample of what a thread was running; start_ns equals end_ns": "对线程的一次采样；start_ns 等于 end_ns",
    "one collective as the framework or NCCL described it: on its kernel, or on what launched the kernel": (
        "框架或 NCCL 所描述的一次集合通信：记在其 kernel 上，或记在启动该 kernel 的算子或调用上"
    ),
    # analyse/operators; read/nsys/reader, read/torch/reader
    "no matrix multiplication with recorded shapes was launched; graphs are not counted": (
        "没有带形状记录的矩阵乘；graph 内的不计"
    ),
    "the type of the inputs was not recorded": "没有记录输入的数据类型",
    "no operators were recorded": "没有记录到算子",
    "no annotations were recorded": "没有记录到标注区间",
    "nothing ran on the GPU": "GPU 上没有运行任何工作",
    "no {table} were recorded (looked for {names})": "没有记录到 {table}（查找了 {names}）",
    "{tool} records no OS calls": "{tool} 不记录操作系统调用",
    "no call of NCCL was recorded with a payload in its NVTX range": "未记录到在 NVTX 区间中带有 payload 的 NCCL 调用",
    "the export has no values of NCCL's NVTX payloads; `nsys export --include-json=true` writes them": (
        "导出中没有 NCCL 的 NVTX payload 的值；`nsys export --include-json=true` 会写入它们"
    ),
    "no {table} were recorded": "没有记录到 {table}",
    # present/writers
    "{table}: {reason}": "{table}：{reason}",
    "{reason}.": "{reason}。",
    "{term}: {sentence}": "{term}：{sentence}",
    "Commands": "命令",
    # present/views: headings that several tables have
    "Thread": "线程",
    "Unit": "单位",
    "Role": "角色",
    "Largest line": "最大的一项",
    "{title}, steady steps, GPU {gpu}": "{title}（稳定步），GPU {gpu}",
    # present/views/gaps
    "Idle time by cause, GPU {gpu}": "空闲时间（按原因），GPU {gpu}",
    "Idle time by trigger, steady steps, GPU {gpu}": "空闲时间（按触发原因，稳定步），GPU {gpu}",
    "Gaps by length, GPU {gpu}": "间隙按长度分桶，GPU {gpu}",
    "The {count} longest gaps, GPU {gpu}": "最长的 {count} 个间隙，GPU {gpu}",
    "{count} of {gaps} gaps are {time} or longer, {share} of the idle time, GPU {gpu}": (
        "不短于 {time} 的间隙：{count} 个（共 {gaps} 个），占空闲时间的 {share}，GPU {gpu}"
    ),
    # present/views/steps
    "Steps, GPU {gpu}": "各步概况，GPU {gpu}",
    "What repeats, GPU {gpu}": "重复出现的层级，GPU {gpu}",
    "Prefill and decode, GPU {gpu}": "prefill 与 decode（阶段），GPU {gpu}",
    "Unusual steps, GPU {gpu}": "异常的步，GPU {gpu}",
    "Every step, GPU {gpu}": "每一步，GPU {gpu}",
    "not told": "无法区分",
    # present/views/books, overlap, memory, launches, ranges
    "Ledger, GPU {gpu}": "账目，GPU {gpu}",
    "Overlap, GPU {gpu}": "重叠情况，GPU {gpu}",
    "Copies, steady steps, GPU {gpu}": "拷贝（稳定步），GPU {gpu}",
    "Allocation calls, steady steps, GPU {gpu}": "显存分配调用（稳定步），GPU {gpu}",
    "Device memory, GPU {gpu}": "显存，GPU {gpu}",
    "Launch calls": "launch 调用",
    "Calls that wait for the GPU": "等待设备的调用",
    "How far the host runs ahead, steady steps, GPU {gpu}": "主机提前多少提交（稳定步），GPU {gpu}",
    "Launches by range, steady steps, GPU {gpu}": "各区间的 launch（稳定步），GPU {gpu}",
    "Ranges, GPU {gpu}": "区间，GPU {gpu}",
    "Ranges, as `nsys stats` printed them (shares of the program's own, setup left out)": (
        "区间，取自 `nsys stats` 的输出（占程序自身区间的比例，不含初始化）"
    ),
    "whole": "整体",
    "part of the whole": "整体的一部分",
    "holds the others": "包含其他区间",
    "a library's": "库自带",
    "set-up": "初始化",
    # whatif; present/views/whatif
    "{what} {factor} x as fast": "{what} 快到 {factor}x",
    "no {cause}": "消除 {cause}",
    "{kind} hidden": "{kind} 被掩盖",
    "range '{pattern}' in a graph": "区间 '{pattern}' 改用 graph",
    "{code} fixed": "修好 {code}",
    "a host {factor} x as fast": "主机快到 {factor}x",
    "launch calls of {time}": "每次 launch 调用 {time}",
    "the report has no such finding": "报告里没有这条结论",
    "it runs on a stream of its own: only what needs its result waits for it, and compute is not slowed": (
        "放到单独的 stream 上：只有用到其结果的工作才等待它，且计算不因此变慢"
    ),
    "shapes are static, launching costs nothing, and kernels follow each other 0.5 us apart; waits stay": (
        "形状固定，launch 不花时间，kernel 之间只隔 0.5 us；其中的等待保留"
    ),
    "all code and CUDA calls of all threads, but not what they wait for": (
        "所有线程的代码和 CUDA 调用都变快，但它们等待的工作不变"
    ),
    "the code before each call takes as long as it does now; a launch usually takes {time}": (
        "每次调用之前的代码耗时不变；目前一次 launch 通常用 {time}"
    ),
    "the host code and calls inside it, and everything launched there, speed up by that factor": (
        "区间内主机的代码、调用以及在其中启动的所有工作都同样变快"
    ),
    "what the host or the GPU did meanwhile speeds up by that factor": "这段空闲期间主机或 GPU 所做的事同样变快",
    "each of these takes that much less time; nothing else changes": "其中每个都相应变短，其余不变",
    "none of it runs, on the host or on the GPU": "其中的内容在主机和 GPU 上都不再运行",
    "it does not run, and is not launched": "不再运行，也不再启动",
    "the code that the host runs meanwhile takes no time": "期间主机运行的代码不花时间",
    "calls that wait return at once, and nothing needs what they waited for": (
        "等待的调用立即返回，也没有工作需要其等待的结果"
    ),
    "these calls take no time; what they put on the GPU stays": "这些调用不花时间；它们提交给 GPU 的工作不变",
    "work starts as soon as the call that launches it has returned": "启动它的调用一返回，工作就开始",
    "queued work starts as soon as its stream gets to it": "排队的工作在所属 stream 轮到时立即开始",
    "the GPU is busy {less} less per step, and idle {more} longer": "GPU 每步少工作 {less}，却多等 {more}",
    "the GPU is busy for {share} of the step already": "GPU 已有 {share} 的时间在工作",
    "an upper bound that no program reaches": "这是上限，实际程序达不到",
    "upper bound": "上限",
    "{change}: {assumption}": "{change}：{assumption}",
    "What if, per step, GPU {gpu}": "假设分析（每步），GPU {gpu}",
    "What if, per step, GPU {gpu}: each change alone": "假设分析（每步），GPU {gpu}：各项改动单独计算",
    "One after the other, in the order given": "按给出的顺序依次改动",
    "The step and its parts, before and after": "每步的组成：当前与改后",
    "Left to fix afterwards, each alone": "改后仍可修的问题（各自单独计算）",
    "No other fix would save {least} of the new step.": "其余结论修好后，都省不到改后每步时间的 {least}。",
    "Separately they would add up to {time} per step more: their savings overlap.": (
        "单独计算之和每步多出 {time}：有一部分时间修其中任何一项都能省下。"
    ),
    "Together they save {time} per step more than separately: some time goes away only with several.": (
        "一起改比单独计算之和每步多省 {time}：有一部分时间要几项一起改才能省下。"
    ),
    "reports claim no more than the {time} per step lost to it": "报告只计入它造成的损失，即每步 {time}",
    "Without the profiler a step takes {step}; there it saves {low} to {high}.": (
        "不带 profiler 时一步 {step}，其中可省 {low} 至 {high}。"
    ),
    "Saves unprofiled": "不带 profiler 可省",
    "Unprofiled, low": "不带 profiler 至少省",
    "Unprofiled, high": "不带 profiler 最多省",
    "all together": "全部一起",
    "{what}: {step} per step becomes {new}.": "{what}：每步 {step} 变为 {new}。",
    "{what}: {step} per step becomes {new}, which {told}.": "{what}：每步 {step} 变为 {new}，{told}。",
    "saves {saves} ({share})": "可省 {saves}（{share}）",
    "saves at most {saves} ({share})": "最多可省 {saves}（{share}）",
    "others": "其他",
    "The critical path, before and after": "关键路径的组成：当前与改后",
    "What if, of the time in the program's ranges, setup left out": "假设分析（程序区间的时间，不含初始化）",
    "Whole": "整体",
    "If": "假设",
    "Now": "当前",
    "In order": "依次",
    "Now, share": "当前占比",
    "Then": "改后",
    "New step": "改后每步",
    "New {whole}": "改后{whole}",
    "Saves": "可省",
    "Saves extra": "再省",
    "Of the new step": "占改后每步",
    "Speed-up": "加速比",
    "Limit": "加速上限",
    "Bound": "界限",
    "Assumes": "前提",
    "Note": "说明",
    "Finding": "结论",
    # present/views/operators
    "Coverage and GPU utilization": "覆盖率与 GPU 利用情况",
    "Operators": "算子",
    "Operators by inputs, top {count} by GPU time": "按输入统计的算子（GPU 时间最多的 {count} 种）",
    "Host vs device": "主机与设备对照",
    "Work inside graphs": "CUDA graph 内的工作",
    "Operator": "算子",
    "Host, self": "主机（自身）",
    "GPU, self": "GPU（自身）",
    "Inputs": "输入形状",
    "Types": "数据类型",
    "Computed in": "计算精度",
    "Of peak": "占峰值算力",
    "Host per step": "主机（每步）",
    "GPU per step": "GPU（每步）",
    "Place": "位置",
    "How known": "依据",
    "Executions": "执行次数",
    "GPU time launched in an operator": "由算子启动的 GPU 时间",
    "GPU time launched in an annotation": "由标注区间启动的 GPU 时间",
    "GPU time inside graphs": "CUDA graph 内的 GPU 时间",
    "of which with a place in the program": "其中能定位到程序位置的",
    "FLOPs counted per step": "每步的计算量",
    "matrix kernels' time in counted operators": "矩阵类 kernel 的时间中已计入计算量的",
    "MFU: time at peak / time taken": "MFU：按峰值算力所需时间 / 实际时间",
    "work left out, peak unknown": "因峰值未知而未计入的计算量",
    "upper bound: attention counted in full, or a convolution's stride unknown": (
        "上限：attention 按完整计算，或卷积步长未知"
    ),
    "at most; dense peak of {gpu}": "上限；{gpu} 的稠密峰值算力",
    "dense peak of {gpu}": "{gpu} 的稠密峰值算力",
    "at most": "上限",
    "; ": "；",
    "(in no operator)": "（不在任何算子内）",
    "(unknown)": "（未知）",
    "({count} more)": "（另有 {count} 处）",
    # present/views/info
    "Recorded": "已记录",
    "One row is": "每行是",
    "Rows": "行数",
    "GPUs": "各 GPU",
    "SMs": "SM 数",
    "Streams": "stream 数",
    "Graphs": "graph 数",
    "Memory": "显存",
    "Processes": "进程",
    "Process": "进程",
    "Threads": "线程数",
    "GPU work": "GPU 工作",
    "Table of the profile": "profile 自身的表",
    "Tables of the profile": "profile 自身的表",
    "asked to trace {what}": "采集时要求 trace：{what}",
    "export schema {version}": "导出 schema 版本 {version}",
    "export without a schema version": "导出文件没有 schema 版本",
    "{schema} ({container})": "{schema}，容器 {container}",
    "captured {time} UTC": "采集于 {time} UTC",
    "driver {version}": "驱动 {version}",
    "CUDA {version}": "CUDA 版本 {version}",
    "command": "命令",
    "host": "主机",
    "environment": "环境变量",
    "Private (shown by --verbose)": "私有信息（仅 --verbose 显示）",
}
