"""Chinese for the tables of steps and of the phases of a layer."""

from __future__ import annotations

from typing import Final

PHASES: Final[dict[str, str]] = {
    # present/views/steps
    "Busy": "忙碌",
    "Idle": "空闲",
    "GPU busy": "GPU 忙碌占比",
    # present/views/phases
    "All steps": "全部步",
    "Times": "次数",
    "Other work": "其他工作",
    "Idle, all steps": "空闲，全部步",
    "Other work, all steps": "其他工作，全部步",
    "Layer": "层",
    "Collectives": "集合通信",
    "Matched": "已匹配",
    "Waiting": "等待",
    "of it waiting": "其中等待",
    "Transfer": "传输",
    "other work": "不属于任何阶段的工作",
    "(inside)": "（阶段内）",
    "(start)": "（开始）",
    "(end)": "（结束）",
    "(in no layer)": "（不在任何层内）",
    "all": "全部",
    "kernel names": "kernel 名称",
    "{what} ({table}): not measured: {reason}.": "{what} ({table})：未测量：{reason}。",
    "Phases": "阶段",
    "Phases by layer": "各层的阶段",
    "Waiting for other ranks": "等待其他 rank",
    "GPU {gpu}: of {whole} {unit}, phases take {busy}, other work {other}, idle {idle}": (
        "GPU {gpu}：{unit} {whole}，其中各阶段占 {busy}，不属于任何阶段的工作占 {other}；空闲 {idle}"
    ),
    "Most GPU work is in no phase: neither its range nor its kernel name shows one. Work in a "
    "CUDA graph has no ranges: record a run without the graph, or define phases with --phase "
    "NAME=REGEX.": (
        "GPU 的大部分工作不属于任何阶段：range 和 kernel 名称都看不出来。"
        "CUDA graph 内的工作没有 range：请不用 graph 再录一次，或用 --phase 名称=正则 指定。"
    ),
    "{told}.": "{told}。",
    "{told}, mostly {where} ({time}).": "{told}，最多的在{where}（{time}）。",
    "in the window": "窗口内",
    "inside {phase}": " {phase} 内",
    "no range or kernel is named after a phase of a layer; --phase NAME=REGEX defines one": (
        "没有以层内阶段命名的区间或 kernel；可用 --phase NAME=REGEX 指定"
    ),
    "no range is named after a layer, and steps disagree on how many there are": (
        "没有以层命名的区间，且各步的层数不一致"
    ),
    "only one rank was given: separating the wait for other ranks from the transfer takes all "
    "ranks; give their profiles with --ranks": (
        "只知道一个 rank：集合通信中等待其他 rank 与搬运数据各占多少，"
        "要由全部 rank 一起判断；请用 --ranks 给出它们的 profile"
    ),
    "no communication kernel was recorded": "没有记录到通信 kernel",
    "Phases, {whole}": "各阶段，{whole}",
    "Inside and between phases, {whole}": "阶段内与阶段之间，{whole}",
    "Phases by layer, {whole}": "各层的阶段，{whole}",
    "Waiting for other ranks vs transfer, all steady steps, GPU {gpu}": (
        "等待其他 rank 与传输对照（全部稳定步），GPU {gpu}"
    ),
    "mean of {steps} steady steps, GPU {gpu}": "{steps} 个稳定步的平均，GPU {gpu}",
    "the whole window, GPU {gpu}": "整个窗口，GPU {gpu}",
    "one step, GPU {gpu}": "一步，GPU {gpu}",
    "Not measured": "未测量",
    "between {before} and {after}": " {before} 与 {after} 之间",
}
