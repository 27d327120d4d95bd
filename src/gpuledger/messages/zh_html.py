"""Chinese of the HTML pages. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

HTML: Final[dict[str, str]] = {
    # ledger/lines
    "compute: {family}": "计算：{family}",
    # present/writers/html/page
    "Skip to content": "跳到正文",
    "Sections": "章节",
    "Theme": "浅色/深色",
    "Filter": "筛选",
    "Copy": "复制",
    "Copied": "已复制",
    "Why, how it was detected, how to fix it": "原因、判断依据与修复方法",
    "Explained above": "上文已有说明",
    "At a glance": "概览",
    "Evidence": "依据",
    "made by gpuledger {version}; self-contained, nothing is loaded from the network": (
        "由 gpuledger {version} 生成；本页不加载任何外部内容"
    ),
    # present/views/page/report_page
    "of {time}": "共 {time}",
    "P10 {low}, P90 {high}": "八成的步在 {low} 到 {high} 之间",
    "Median step": "单步中位数",
    "{count} unusual": "{count} 步异常",
    "Fix first": "优先解决",
    # present/views/page/time_breakdown
    "GPU {gpu}": "{gpu} 号 GPU",
    "The busy {share}, full width": "工作的 {share}，放大到整个宽度",
    "Time breakdown, GPU {gpu}": "时间明细，GPU {gpu}",
    # present/views/page/what_to_do
    "nothing that repeats covers the window, so it is shown as a whole; --level=NAME makes one level the step": (
        "没有哪个重复的层级覆盖整个窗口，因此按整个窗口给出；可用 --level=NAME 指定步"
    ),
    "What repeats": "重复出现的层级",
    "No fix stands out; look at the kernels themselves.": ("没有发现明显的提速空间；请从 kernel 本身入手。"),
    "in order": "按顺序",
    "without the profiler": "不带分析器",
    "{low} to {high} per step (no unprofiled run to compare with)": "每步 {low} 到 {high}，因为没有不带分析器的运行",
    "{time} per step ({low} to {high})": "每步 {time}（{low} 到 {high}）",
    "confidence": "可信度",
    "on": "位于",
    "if": "前提",
    # present/views/page/steps; present/views/steps
    "Steps": "步",
    "Step": "步",
    "Steps, GPU {gpu}": "各步概况，GPU {gpu}",
    "Steps, one column each": "各步，每步一柱",
    "{count} steps: median {median}, P10 {low}, P90 {high}; {odd} unusual": (
        "共 {count} 步，中位数 {median}，八成在 {low} 到 {high} 之间；{odd} 步异常"
    ),
    "step {step}": "第 {step} 步",
    "nothing repeats in this profile, so no steps were found; --step-range=REGEX defines them": (
        "profile 中没有重复出现的内容，无法划分步；可用 --step-range=REGEX 指定"
    ),
    "Prefill and decode": "prefill 与 decode（阶段）",
    "Unusual steps, the longest first": "异常的步（长的在前）",
    "No step is unusual for its phase.": "没有异常的步。",
    "One column per step; a dot marks an unusual one. Pick one to see its time breakdown.": (
        "每柱为一步，上方圆点表示异常的步。点选一步可查看其时间明细。"
    ),
    "{count} steps; each column is the longest of {each} neighbors, and a dot marks an unusual "
    "one. Pick one to see its time breakdown.": (
        "共 {count} 步，每柱为相邻 {each} 步中最长的一步，上方圆点表示异常的步。点选一步可查看其时间明细。"
    ),
    "everything else": "其余各项",
    "The median step, number {step}: {time}": "中位数的一步（第 {step} 步）：{time}",
    "unusual": "异常",
    "warm-up": "预热",
    "vs the median step": "（与中位数相比）",
    "vs median": "与中位数相比",
    # present/views/page/over_time
    "during the call": "调用期间",
    "over 1 ms": "1 ms 以上",
    "under 1 us": "1 us 以下",
    "GPU {gpu}, stream {stream}": "GPU {gpu}，stream {stream}",
    "GPU {gpu}, stream {stream} of process {pid}": "GPU {gpu}，进程 {pid} 的 stream {stream}",
    "busy": "忙碌",
    "{share} busy": "忙碌 {share}",
    "How busy each stream was": "各 stream 的忙碌程度",
    "The window in {bins} bins of {time}; the stronger the color, the busier the stream.": (
        "把窗口分成 {bins} 段，每段 {time}；颜色越深，该 stream 在这一段中忙碌的时间越长。"
    ),
    "{count} streams with less work are not shown.": "另有 {count} 个工作较少的 stream 未显示。",
    "Streams over time": "各 stream 随时间的忙碌程度",
    "Queue time: from the launch call's return to the start on the GPU": "从 launch 调用返回到 GPU 开始执行",
    "Work that queues for long was launched well ahead: the host keeps up. Where work starts at "
    "once, the GPU was waiting for it.": "等待久的工作是提前启动的：主机跟得上。立即开始的工作说明 GPU 在等它。",
    "Launch calls, steady steps": "launch 调用（稳定的步）",
    "Calls that wait for the GPU, steady steps": "等待设备的调用（稳定的步）",
    "How far the host runs ahead, steady steps": "主机领先多少（稳定的步）",
    "Launches by range, steady steps": "各区间的启动（稳定的步）",
    "Launches and the queue": "launch 与排队",
    "Peak: {size} in use": "最多使用 {size}",
    "Device memory in use": "显存占用",
    "Copies, steady steps": "拷贝（稳定的步）",
    "Allocation calls, steady steps": "内存分配调用（稳定的步）",
    "Device memory": "显存",
    "Nothing was copied.": "没有拷贝。",
    "Memory and copies": "内存与拷贝",
    # present/views/page/gaps
    "Gaps by length: share of their number and of their time": "按长度统计的间隙：数量占比与时间占比",
    "Why the GPU was idle": "GPU 为何空闲",
    "The GPU was never idle in this window.": "在此窗口内 GPU 从未空闲。",
    "{count} gaps, {time} in total, {share} of the window. Causes show where the host was; the "
    "trigger shows what to fix.": (
        "共 {count} 个间隙，合计 {time}，占窗口的 {share}。成因说明主机当时在做什么，触发原因说明该修什么。"
    ),
    "share of the gaps": "占间隙数量",
    "share of the idle time": "占空闲时间",
    "The {count} longest gaps": "最长的 {count} 个间隙",
    "Gaps by length": "按长度统计的间隙",
    "Idle time by cause": "按成因统计的空闲时间",
    "Idle time by trigger, steady steps": "按触发原因统计的空闲时间（稳定的步）",
    "Idle time": "空闲时间",
    # present/views/page/kernels
    "no kernel was recorded": "没有记录到 kernel",
    "The whole profile, all GPUs and processes together, as `gpuledger stats` prints it. Times overlap where kernels "
    "do.": ("整个 profile，所有 GPU 和进程合计，与 `gpuledger stats` 的输出一致。kernel 重叠时，时间也重叠。"),
    "Kernels by name, most time first": "按名称统计的 kernel（耗时长的在前）",
    "{count} other kernels": "其余 {count} 个 kernel",
    "operations per byte of DRAM traffic": "每字节 DRAM 流量的运算次数",
    "Roofline": "roofline：kernel 离硬件上限还有多远",
    "Kernels in depth (Nsight Compute)": "kernel 深入分析（Nsight Compute）",
    "Kernels in depth": "kernel 深入分析",
    "no Nsight Compute report was given; `gpuledger ncu-plan` shows which kernels are worth one": (
        "没有提供 Nsight Compute 报告；`gpuledger ncu-plan` 会说明哪些 kernel 值得分析"
    ),
    "operations and DRAM traffic were not collected together; collect the roofline sections": (
        "没有同时采集运算次数和 DRAM 流量；请采集 roofline 相关的 section"
    ),
    "Each dot is a profiled launch, sized by its share of the time; the further below the roof, the more to gain.": (
        "每个圆点是一次被分析的 launch，面积为其时间占比；离上限（roofline）越远，可提速越多。"
    ),
    "Each dot is a profiled launch, sized by its share of the time; the further below the roof, "
    "the more to gain. Hollow dots are kernels outside the steady steps.": (
        "每个圆点是一次被分析的 launch，面积为其时间占比；离上限（roofline）越远，可提速越多。"
        "空心的点不属于这里的稳定步。"
    ),
    # present/views/page/ranges
    "Ranges": "区间",
    "no range was recorded": "没有记录到区间",
    "no launch call is in the profile": "profile 中没有 launch 调用",
    "GPU time by the range that launched it, nested, largest first. Work belongs to the range "
    "around its launch call.": (
        "按启动工作的区间统计 GPU 时间，子区间在父区间之下，多的在前。工作通过 launch 调用归属区间。"
    ),
    "GPU time by range": "各区间的 GPU 时间",
    "Ranges of the whole window, GPU {gpu}": "整个窗口的区间，GPU {gpu}",
    "Ranges of the whole window, GPU {gpu} (the {shown} with the most GPU time, of {count})": (
        "整个窗口的区间，GPU {gpu}（共 {count} 个，显示 GPU 时间最多的 {shown} 个）"
    ),
    "(in no range)": "（不在任何区间内）",
    # present/views/page/provenance
    "Overlap over the whole window, GPU {gpu}": "整个窗口的重叠情况，GPU {gpu}",
    "No communication ran on a GPU here.": "这里没有在 GPU 上运行的通信。",
    "One profile cannot tell which rank the others wait for: `gpuledger fleet DIR -o job.html` "
    "combines the profiles of all ranks.": (
        "单个 profile 无法说明其他 rank 在等谁：`gpuledger fleet DIR -o job.html` 会汇总所有 rank。"
    ),
    "Communication and overlap": "通信与重叠",
    "Communication": "通信",
    "Source": "来源",
    "Not in this profile": "此 profile 中没有的内容",
    "Health": "健康状况",
    "Nothing was lost while reading.": "读取时没有丢失内容。",
    "Reproduce": "重新生成此页",
    "Health and provenance": "健康状况与来源",
    "not recorded": "未记录",
    "profile: {profile}": "profile 文件：{profile}",
    "recorded by: {tool}, export schema {schema}": "采集工具：{tool}，导出 schema {schema}",
    "recorded at: {time} UTC": "采集时间：{time} UTC",
    "driver {driver}, CUDA {cuda}": "驱动 {driver}，CUDA {cuda}",
    "read by: gpuledger {version}": "读取工具：gpuledger {version}",
    "without the profiler, the window took {time}": "不带 profiler 时，该窗口用时 {time}",
    "{share} of the GPU work has its launch call in the profile": "{share} 的 GPU 工作有对应的 launch 调用记录",
    # present/writers/html/tables
    "{title} (first {shown} of {count} rows)": "{title}（共 {count} 行，显示前 {shown} 行）",
    "… (truncated: {count} characters in total)": "…（此处截断，共 {count} 个字符）",
    # present/views: headings and cells of tables
    "Cause": "成因",
    "Trigger": "触发原因",
    "Call": "调用",
    "Gaps": "间隙",
    "Length": "长度",
    "Start": "开始",
    "End": "结束",
    "Largest cause": "最大成因",
    "Before": "之前",
    "After": "之后",
    "How found": "划分方式",
    "of them warm-up": "其中预热",
    "Median": "中位数",
    "Drift": "漂移",
    "Line that grew most": "增长最多的账目",
    "Grew by": "增加",
    "Phase": "阶段",
    "Where": "位置",
    "Total": "总计",
    "Per instance": "每个实例",
    "Share of step": "占整步",
    "Avg": "平均",
    "Med": "中位",
    "Max": "最大",
    "Figure": "指标",
    "Value": "数值",
    "Instances": "次数（实例）",
    "Launches": "launch 次数",
    "Each": "每个",
    "Kind": "种类",
    "From": "从",
    "To": "到",
    "Copies": "拷贝次数",
    "Running": "运行",
    "Hidden": "被掩盖",
    "Exposed": "未掩盖",
    "Of the window": "占窗口",
    "Host": "主机时间",
    "GPU, own": "GPU 自身",
    "Waits": "等待",
    "Name": "名称",
    "Family": "类别",
    "Line": "账目",
    "Per step": "每步",
    "Whole window": "整个窗口",
    "What was seen": "发现",
    "Not in the profile": "缺少",
    "Why": "原因",
    "What that means": "影响",
    "Size": "大小",
    "Rate": "速率",
    "GPU time": "GPU 时间",
    "GPU activities per step": "每步的 GPU 活动数",
    "of them under 5 us": "其中短于 5 us 的",
    "launched by a recorded call": "有 launch 调用记录的",
    "queued, median": "排队时间，中位数",
    "queued, 10th percentile": "排队时间，第 10 百分位",
    "queued, 90th percentile": "排队时间，第 90 百分位",
    "queued over 10 us (host ahead)": "排队超过 10 us（主机领先）",
    "peak": "峰值",
    "at the end": "结束时",
    "allocated in total": "累计分配",
    "idle": "空闲",
    "before the steps": "步之前",
    "steps": "步",
    "after the steps": "步之后",
    "info": "提示",
    "warning": "警告",
    "loss": "丢失",
    "launches can't keep up": "主机跟不上",
    "the queue ran dry": "队列耗尽",
    "cold start": "冷启动",
    "no GPU time by kernel": "无法按 kernel 统计 GPU 时间",
    "no copies or memsets ran, or they were not traced": "没有拷贝或 memset，或未被记录",
    "launch overhead, syncs and the cause of GPU idle time stay unknown": (
        "launch 开销、同步以及 GPU 空闲的成因无从得知"
    ),
    "no breakdown by step or layer; steps must be inferred from the kernels": (
        "无法按步或层统计；只能从 kernel 中识别步"
    ),
    "peak memory and allocation churn stay unknown": "内存峰值与反复分配的情况无从得知",
    "profiler overhead cannot be separated": "无法区分 profiler 自身占用的时间",
    "window": "窗口",
    "{trigger} after {call}": "{trigger}（在 {call} 之后）",
}
