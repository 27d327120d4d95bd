"""Chinese of `diff` and `align`. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

COMPARE: Final[dict[str, str]] = {
    # present/views/align
    "Check": "检查项",
    "Verdict": "结论",
    "Mock": "mock 侧",
    "Model": "模型侧",
    "Kernel by kernel": "逐个 kernel 对照",
    "{title}: {verdict}": "{title}：{verdict}",
    "Notes": "说明",
    "Ratio": "比值",
    "Shape": "形状",
    "{count} more kinds of kernels, and single calls, are in CSV and JSON.": (
        "另有 {count} 种 kernel 以及每次调用的明细，见 CSV 和 JSON。"
    ),
    "Kernel of the mock": "mock 的 kernel",
    "of the model": "模型的 kernel",
    # present/views/diff
    "Why ({whole}parts sum to the difference)": "差异来自哪里（{whole}各部分之和等于总差异）",
    "Compared": "对比对象",
    "Gates": "门禁",
    "{said}call, {cost} by what one takes.": "{said}，{cost} 来自单次耗时。",
    "Every part of the difference is 0.": "差异的每一部分都是 0。",
    "CUDA calls": "CUDA 调用",
    "CUDA call": "CUDA 调用",
    "Part": "部分",
    "Change": "变化",
    "What changed": "变化内容",
    "Time of one": "单次耗时",
    "Host time": "主机时间",
    "Number": "次数",
    "Bytes": "字节数",
    "Gate": "门禁",
    "Before -> after": "之前 -> 之后",
    "Of the whole": "占整体",
    "Corrected": "校正后",
}
