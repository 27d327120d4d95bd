"""Chinese of what runs programs: `time` and `bench`. In the order of the modules that say it."""

from __future__ import annotations

from typing import Final

PROGRAMS: Final[dict[str, str]] = {
    # present/views/timing
    "One call takes {time}, give or take {share}.": "单次调用耗时 {time}，误差 {share}。",
    "One call takes {time}, give or take {share}, not converged.": ("单次调用耗时 {time}，误差 {share}，尚未稳定。"),
    "One call takes {time}, with no interval: {samples} samples are too few.": (
        "单次调用耗时 {time}，没有置信区间：{samples} 个样本太少。"
    ),
    "{low} to {high} ({share}, asked for {asked})": "{low} 至 {high}（{share}，要求 {asked}）",
    "none: {samples} samples are too few (asked for {asked})": "无：{samples} 个样本太少（要求 {asked}）",
    "the interval is within {share} of the median, asked for {asked}": "区间为中位数的 {share}，要求 {asked}",
    "{samples} samples are too few for an interval": "{samples} 个样本太少，得不出区间",
    "yes: {what}": "是：{what}",
    "no": "否",
    "{calls} in {samples} samples of {batch}": "{calls} 次，分 {samples} 个样本，每个 {batch} 次",
    "max {clock}": "最高 {clock}",
    "limit {power}": "上限 {power}",
    "clocks were throttled by {what} in {share} of the checks.": "在 {share} 的采样中频率受 {what} 限制。",
    "cold caches": "冷缓存",
    "warm caches": "热缓存",
    "not reported by this GPU": "这块 GPU 不提供",
    "{figure} ({details})": "{figure}（{details}）",
    "note: {note}": "说明：{note}",
    "95 % interval": "95 % 置信区间",
    "median": "中位数",
    "p10 to p90": "p10 至 p90",
    "min, max": "最小、最大",
    "SM clock": "SM 频率",
    "memory clock": "显存频率",
    "power": "功耗",
    "temperature": "温度",
    "throttled": "是否降频",
    "did not converge within {time}: {reached}; --seconds gives it longer.": (
        "在 {time} 内没有稳定：{reached}；可用 --seconds 延长。"
    ),
    "not as a CUDA graph: {why}. The time includes launch overhead.": (
        "没有用 CUDA graph：{why}。耗时包含主机 launch 的时间。"
    ),
    "not as a CUDA graph, as requested: the time includes launch overhead.": (
        "按要求没有用 CUDA graph：耗时包含主机 launch 的时间。"
    ),
    "clocks, power and throttling are unknown: {why}.": "频率、功耗和降频情况未知：{why}。",
    "the second half of the samples is {share} slower than the first: something changed, such as "
    "clocks or temperature.": "后一半样本比前一半慢 {share}：期间有变化，例如频率或温度。",
    "the second half of the samples is {share} faster than the first: something changed, such as "
    "clocks or temperature.": "后一半样本比前一半快 {share}：期间有变化，例如频率或温度。",
    # present/views/timing_pair
    "{rounds} rounds are too few to compare them.": "{rounds} 轮太少，无法比较。",
    "{second} takes {share} more time than {first} ({interval})": (
        "{second} 比 {first} 多用 {share} 的时间（{interval}）"
    ),
    "{second} takes {share} less time than {first} ({interval})": (
        "{second} 比 {first} 少用 {share} 的时间（{interval}）"
    ),
    "{difference}: the same to within {share}": "{difference}：差异在 {share} 以内",
    "{difference}: not enough to tell whether they differ by more than {share}": (
        "{difference}：是否相差超过 {share} 尚不能确定"
    ),
    "{told}, not converged.": "{told}，尚未稳定。",
    "One call of each": "各一次调用",
    "in turns": "交替测量",
    "too few rounds": "轮数太少",
    "the difference is known to {share}": "差异的误差为 {share}",
    "did not converge within {time}: {reached}, asked for {asked}; --seconds gives it longer.": (
        "在 {time} 内没有稳定：{reached}，要求 {asked}；可用 --seconds 延长。"
    ),
    "{graph} runs as a CUDA graph and {eager} does not: only one of them includes host time.": (
        "{graph} 以 CUDA graph 运行而 {eager} 不是：只有一方的耗时包含主机时间。"
    ),
    "run as": "运行方式",
    # present/views/bench
    "Verdict: {verdict}": "结论：{verdict}",
    "not measured": "未测量",
    "yes": "是",
    "Bandwidth": "带宽",
    "Batch": "batch 大小",
    "Checked": "已校验",
    "Chunks": "chunk 数",
    "Comm": "通信",
    "Comm share": "通信占比",
    "Context": "上下文",
    "Decode": "decode 阶段",
    "Prefill": "prefill 阶段",
    "Dispatch median": "dispatch 中位数",
    "Round trip median": "往返中位数",
    "Error": "误差",
    "Error share": "相对误差",
    "Expert error share": "expert 相对误差",
    "Logits error share": "logits 相对误差",
    "Expected ranks per token": "预期每 token 的 rank 数",
    "Ranks per token": "每 token 的 rank 数",
    "Remote ranks per token": "每 token 的远端 rank 数",
    "Expert imbalance": "expert 不均衡度",
    "Rank imbalance": "rank 不均衡度",
    "Imbalance": "不均衡度",
    "Experts": "expert 数",
    "Experts used": "用到的 expert",
    "KV cache": "KV cache 占用",
    "KV pages needed": "需要的 KV 页",
    "KV pages available": "现有的 KV 页",
    "Last chunk": "最后一个 chunk",
    "Minimum traffic": "最少访存",
    "Mode": "模式",
    "Modes": "各模式",
    "Output": "输出",
    "Padding share": "padding 占比",
    "Peak memory": "显存峰值",
    "Prefill throughput": "prefill 吞吐",
    "Prompt": "提示词",
    "Received": "接收",
    "Remote": "远端",
    "Expected remote": "预期远端",
    "Most remote": "最多远端",
    "Returned": "返回",
    "Sent": "发送",
    "Sent tokens": "发送的 token",
    "Sequences": "序列数",
    "Slowest rank": "最慢的 rank",
    "Syncs": "同步次数",
    "Targets": "目标",
    "Throughput": "吞吐",
    "Tokens": "token 数",
    "Prefill tokens": "prefill 的 token",
    "Traffic": "访存",
    "TTFT": "TTFT 首 token 延迟",
    "TTFT cold": "TTFT（冷）",
    "Wait": "等待",
    "Wait share": "等待占比",
    "Wanted": "要求",
    "Weights used": "用到的权重",
    "Is slowest": "是否最慢",
    "What": "项目",
    "Result": "结果",
}
