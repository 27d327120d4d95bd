"""Chinese of questions in SQL: the tables of the books, and what is said under an answer."""

from __future__ import annotations

from typing import Final

QUERY: Final[dict[str, str]] = {
    "one GPU that ran anything: its window, busy and idle time": "一块运行过任务的 GPU：时间窗口、忙碌与空闲时间",
    "the time of one line of the books in one step, or beside the steps; the lines of a step sum to it": (
        "账目中一个条目在一步之内（或各步之外）的时间；一步的各条目之和等于该步"
    ),
    "one time in which nothing ran on a GPU": "GPU 上没有任何任务的一段空闲",
    "the time of one gap that is booked to one cause; the causes of a gap sum to it": (
        "一段空闲中归于某一原因的时间；各原因之和等于该空闲"
    ),
    "one step of a GPU, warm-up included": "一块 GPU 的一步，含预热",
    "one finding of the report": "报告中的一条发现",
    "how well one kernel uses the GPU in the steady steps, from samples of the GPU's counters": (
        "一个 kernel 在稳态步中对 GPU 的利用，来自 GPU 计数器的采样"
    ),
    "{table} is empty because it was not recorded: {reason}": "{table} 为空，因为没有记录：{reason}",
    "use is empty because no GPU metrics were sampled": "use 为空，因为没有采样 GPU 指标",
    "answer": "结果",
    "No rows.": "没有行。",
    "{shown} of {count} rows are shown; --format=csv or json has them all, WHERE and LIMIT ask for fewer.": (
        "共 {count} 行，显示前 {shown} 行；--format=csv 或 json 输出全部，WHERE 和 LIMIT 可减少行数。"
    ),
    "There are more rows than these {count}: WHERE asks for fewer, --limit=query-rows={more} keeps more.": (
        "结果不止这 {count} 行：用 WHERE 减少行数，或用 --limit=query-rows={more} 保留更多。"
    ),
    "The columns of one: gpuledger query --schema {table}": "某个表的各列：gpuledger query --schema {table}",
    "Tables": "表",
    "table": "表",
    "a row is": "一行表示",
    "column": "列",
    "type": "类型",
    "unit": "单位",
    "meaning": "含义",
    "{table}: {row}": "{table}：{row}",
}
