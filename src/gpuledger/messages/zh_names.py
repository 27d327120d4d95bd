"""Chinese for names inside graphs from a second file, and for kernels that overlap on one stream."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, str]] = {
    # analyse/operators/names_from
    (
        "names inside graphs are from {file}: {named} of {count} kernels and copies in graphs have one, "
        "{share} of their time"
    ): "graph 内的名称取自 {file}：graph 内 {count} 个 kernel 与拷贝中有 {named} 个有名称，占其时间的 {share}",
    "{told}; for {count} several places fit, and only the names that these agree on are given": (
        "{told}；其中 {count} 个有多处吻合，只给出各处一致的名称"
    ),
    # present/views/answers
    "GPU {gpu}: inside graphs, operators with the most GPU self time: {largest}, of {time}.": (
        "GPU {gpu}：graph 内 GPU 自身时间最多的算子：{largest}，总时间：{time}。"
    ),
    "programmatic dependent launch": "programmatic dependent launch（PDL）",
    "programmatic dependent launch, or branches of a graph on one stream": (
        "programmatic dependent launch（PDL），或同一 stream 上的 graph 分支"
    ),
    (
        "On one stream, {kernels} begin before the one before them ends ({why}): they overlap by {time}, "
        "and one after the other they would take at most that much longer."
    ): (
        "在同一 stream 上，{kernels} 在前一个 kernel 结束之前就已开始（{why}）：重叠 {time}；"
        "若依次执行，至多再多花这么多时间。"
    ),
    # present/views/overlap
    "Begins before it ends": "在其结束前开始的 kernel",
    "Overlap": "重叠",
    "Kernels that overlap on one stream, steady steps, GPU {gpu}": "同一 stream 上重叠的 kernel，稳定步，GPU {gpu}",
}
