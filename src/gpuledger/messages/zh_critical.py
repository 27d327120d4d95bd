"""Chinese for the critical path."""

from __future__ import annotations

from typing import Final

CRITICAL: Final[dict[str, str]] = {
    # present/views/critical
    "The critical path": "关键路径",
    "The profile is long and has no steps to pick from; run this for its path:": (
        "此 profile 很长，又没有可供选取的步：其关键路径由单独的命令给出。"
    ),
    "between them": "两者之间",
    "Side": "一方",
    "On the path": "在路径上",
    "of its GPU time": "占其 GPU 时间",
    "In the call": "调用内",
    "Code before it": "之前的代码",
    "Off the path": "不在路径上",
    "of launches": "launch 总数",
    "Slack, median": "松弛，中位",
    "Slack, least": "松弛，最小",
    "Saves at 2x": "快一倍可省",
    "The critical path, {whole}": "关键路径，{whole}",
    "Kernels and copies with the most time on it, {whole}": "其上时间最多的 kernel 与拷贝，{whole}",
    "Calls on it, with the host code before them, {whole}": "其上的调用及之前的主机代码，{whole}",
    "Innermost ranges with the most time on it, {whole}": "其上时间最多的最内层区间，{whole}",
    "Not on it: kernels with the most GPU time, {whole}": "不在其上：GPU 时间最多的 kernel，{whole}",
    "graphs traced whole": "整体记录的 graph",
    "GPU {gpu}: of {whole} {unit}, the critical path is {share} {side}: {parts}": (
        "GPU {gpu}：{unit} {whole}，关键路径的 {share} 在{side}：{parts}"
    ),
    "{part} {time}": "{part} {time}",
    "{side} {share}": "{side} {share}",
    "{told}; {others}.": "{told}；{others}。",
    "{count} x {call}": "{count} 次 {call}",
    "GPU {gpu}: the path passes through {waits} to the work they waited for. A wait itself takes "
    "little of the path: it costs the framework overhead and the launch latency after it. "
    "`gpuledger report` has the saving of removing it.": (
        "GPU {gpu}：路径经由 {waits} 走到它们所等待的工作。等待本身在路径上从不显得长："
        "它的代价是其后的框架开销与 launch 延迟。去掉等待能省多少，见 `gpuledger report`。"
    ),
    "GPU {gpu}: no significant kernel runs off the path.": "GPU {gpu}：路径之外没有值得一提的 kernel。",
    "GPU {gpu}: making these kernels faster saves nothing: {kernels}.": (
        "GPU {gpu}：加快这些 kernel 毫无收益：{kernels}。"
    ),
    "{kernel} (nothing waits for it)": "{kernel}（没有谁等它）",
    "{kernel} ({slack} of slack)": "{kernel}（松弛 {slack}）",
}
