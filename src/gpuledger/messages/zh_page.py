"""Chinese of what a page lets its reader explore: the timeline, the flame graph, the tools of tables."""

from __future__ import annotations

from typing import Final

PAGE: Final[dict[str, str]] = {
    # present/writers/html/page
    "Copy as CSV": "复制为 CSV",
    "all families": "全部类别",
    "Rows of 0.0 %": "占 0.0 % 的行",
    "Show on the timeline": "在时间线上查看",
    "The timeline needs JavaScript; `gpuledger view` shows the whole run in Perfetto.": (
        "时间线需要 JavaScript；`gpuledger view` 可在 Perfetto 中查看整个运行。"
    ),
    "Show": "显示",
    "Search": "搜索",
    "kernel, call, range": "kernel、调用、区间",
    "Previous": "上一个",
    "Next": "下一个",
    "Zoom in": "放大",
    "Zoom out": "缩小",
    "Fit": "适应窗口",
    "Drag to pan; scroll zooms after a click, or with Ctrl. Keys: W/S zoom, A/D pan, arrows go "
    "from event to event, L jumps between a launch and its kernel, F fits, / searches, N goes to "
    "the next hit.": (
        "拖动可平移；点击之后或按住 Ctrl 时滚轮可缩放。按键：W/S 缩放，A/D 平移，方向键在事件间移动，"
        "L 在 launch 与其工作之间跳转，F 适应窗口，/ 搜索，N 跳到下一个结果。"
    ),
    "By": "按",
    "Reset zoom": "整棵树",
    "Click or press Enter to zoom in; arrows move between frames; Escape zooms out.": (
        "点击或按回车放大；方向键在各项之间移动；Esc 返回。"
    ),
    # present/views/page/timeline, timeline_json
    "Timeline": "时间线",
    "{shown} of {count} steps are in this page; `gpuledger view` shows the whole run in Perfetto.": (
        "本页包含 {count} 步中的 {shown} 步；`gpuledger view` 可在 Perfetto 中查看整个运行。"
    ),
    "operator": "算子",
    "Python function": "Python 函数",
    "range": "区间",
    "CUDA call": "CUDA 调用",
    "host call": "主机调用",
    "copy": "拷贝",
    "graph": "CUDA graph（图）",
    "GPU kernel": "kernel（核函数）",
    "Duration": "时长",
    "Stream": "流（stream）",
    "Launched by": "启动自",
    "From launch to start": "从 launch 到开始",
    "Correlation": "关联号",
    "Full name": "全名",
    "GPU idle": "GPU 空闲",
    "Reason": "原因",
    "Causes": "成因",
    "{at} of {count}": "第 {at} 个，共 {count} 个",
    "nothing found": "没有结果",
    "On the timeline: {what}": "时间线上显示：{what}",
    "Idle": "空闲",
    "{what}, GPU {gpu}": "{what}，GPU {gpu}",
    "Main thread": "主线程",
    "Thread {tid}": "线程 {tid}",
    "Stream {stream}": "流 {stream}",
    "{track} of process {pid}": "进程 {pid} 的{track}",
    "From {start}, {time}": "从 {start} 起，{time}",
    "Median step, number {step}: {time}": "中位数的一步（第 {step} 步）：{time}",
    "Longest step, number {step}: {time}": "最长的一步（第 {step} 步）：{time}",
    "Step {step}: {time}": "第 {step} 步：{time}",
    "{count} events of {time} or less are not drawn.": "此处省略了 {count} 个不超过 {time} 的事件。",
    # present/views/page/flame
    "Flame graph": "火焰图",
    "call stack": "调用栈",
    "sampled stack": "采样到的调用栈",
    "host time": "主机时间",
    "GPU time": "GPU 时间",
    "samples": "次采样",
    "all": "全部",
    "{name}: {amount}, {share} of total": "{name}：{amount}，占全部的 {share}",
    "{count} found, {share} of total": "找到 {count} 个，占全部的 {share}",
    # present/views/page/what_to_do
    "without the profiler {low} to {high}": "不带分析器时 {low} 到 {high}",
}
