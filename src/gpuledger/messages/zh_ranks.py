"""Chinese of `fleet`: jobs of many ranks. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

RANKS: Final[dict[str, str]] = {
    # analyse/ranks
    "no rank is recorded {which}: left out": "{which}没有记录 rank，已略去",
    "no rank is recorded {which}: each counts as a rank of its own": "{which}没有记录 rank，各自当作一个 rank",
    "for these": "以下各项",
    "in these profiles": "以下 profile ",
    "profiles from outside this job of {world} ranks, left out": "不属于该任务（{world} 个 rank），已略去",
    "ranks not given; waiting for them counts as transfer": "未提供的 rank（等待它们的时间计入传输）",
    "given more than once, left out but for the first": "重复提供，只保留第一份",
    "{count} of {of} collectives could not be matched across ranks and are left out": (
        "{of} 次集合通信中有 {count} 次没有在各 rank 间匹配上，已略去"
    ),
    "{count} collectives were matched by their order, but did not overlap in time, and are left out": (
        "{count} 次集合通信按顺序匹配上，但时间上不重叠，已略去"
    ),
    "the clocks of {count} ranks could not be compared with the first's": "{count} 个 rank 的时钟无法与首个 rank 对齐",
    "process groups are not recorded for {count} collectives: assumed to span all given ranks": (
        "{count} 次集合通信没有记录通信组：视为包含所提供的全部 rank"
    ),
    "{count} ranks share GPU {gpu}, where kernels of one may slow the others': {ranks}": (
        "{count} 个 rank 共用 GPU {gpu}，各自的 kernel 可能互相拖慢：{ranks}"
    ),
    "{what}: {who}": "{what}：{who}",
    "this rank used {count} GPUs; only GPU {gpu}, the busiest, is counted (--device=N picks another)": (
        "这个 rank 有 {count} 块 GPU 在工作；只统计最忙的 GPU {gpu}（--device=N 可另选）"
    ),
    "{place} ran {kernels} and takes no part in collectives: not counted as a rank": (
        "{place} 运行了 {kernels}，但不参与集合通信：不算作 rank"
    ),
    "1 kernel": "1 个 kernel",
    "no collective was found on several ranks": "没有在多个 rank 上都找到的集合通信",
    "no step is covered by every rank: their profiles start too far apart": (
        "没有哪一步在每个 rank 上都保留：各 profile 的起点相差太远"
    ),
    "there is nothing to replay across ranks": "没有保留可供重放的内容",
    "only parts of the run are selected, which are not replayed": "只看运行中的若干片段，不做重放",
    "steps are too long to replay all ranks together; --time=FROM:TO looks at less": (
        "步太长，无法把所有 rank 放在一起重放；--time=FROM:TO 可只看一部分"
    ),
    # cli/verbs/fleet; fleet/profiles
    "{count} of {world} ranks": "{world} 个 rank 中的 {count} 个",
    "1 rank": "1 个 rank",
    "{count} ranks": "{count} 个 rank",
    "{steps} of {time} on the slowest rank": "{steps}，最慢的 rank 上每步 {time}",
    "1 profile": "1 个 profile",
    "{count} profiles": "{count} 个 profile",
    "{count} of {whole}": "{whole}中的 {count} 个",
    # findings/fixed_ranks
    "{kind} no. {ordinal} of group {group}": "通信组 {group} 的第 {ordinal} 个 {kind}",
    "stage {number} ({first} to {last})": "第 {number} 级（{first} 至 {last}）",
    "{who}: its kernels take {time} longer than the median": "{who}：kernel 用时比中位数长（{time}）",
    "{who}: its communication with others takes {time} longer than the median": (
        "{who}：与其他 rank 的通信比中位数长（{time}）"
    ),
    "{who}: its copies take {time} longer than the median": "{who}：拷贝用时比中位数长（{time}）",
    "{who}: its Python garbage collection takes {time} longer than the median": (
        "{who}：Python 垃圾回收比中位数长（{time}）"
    ),
    "{who}: its host spends {time} longer in system calls than the median": "{who}：主机的系统调用比中位数长（{time}）",
    "{who}: its host waits {time} longer for other threads than the median": (
        "{who}：主机等其他线程的时间比中位数长（{time}）"
    ),
    "{who}: its host takes {time} longer to launch its work than the median": (
        "{who}：主机准备和 launch 工作比中位数慢（{time}）"
    ),
    "{who} takes {time} longer than its peers": "{who} 比同类长（{time}）",
    "at the median pace the job takes {after} instead of {before} ({share} less)": (
        "若达到中位数水平，任务用时由 {before} 降到 {after}（减少 {share}）"
    ),
    "at the median pace the job's step takes {after} instead of {before} ({share} less)": (
        "若达到中位数水平，任务每步由 {before} 降到 {after}（减少 {share}）"
    ),
    "the first {count} of them": "其中前 {count} 项",
    # findings/ranks
    "the time in which at least one rank waits": "有 rank 在等待的时间",
    "for {time}, at least one rank waits for others at a collective": "有 rank 在集合通信处等其他 rank：{time}",
    "{waits}; bringing any one rank to the median pace would not make the job faster": (
        "{waits}；没有哪个 rank 达到中位数水平后能让任务更快"
    ),
    "every rank at the median rank's pace between collectives": "各 rank 在集合通信之间都达到中位 rank 的速度",
    "{why}; {saved}": "{why}；{saved}",
    "{why}; {ranks}: {saved}": "{why}；{ranks}：{saved}",
    "{fixed} at the median rank's pace between collectives; the low end: only the one that saves the most": (
        "{fixed} 在集合通信之间达到中位 rank 的速度；下限：只修收益最大的一个"
    ),
    "{waits}, most of all for {rank}": "{waits}，等得最多的是 {rank}",
    "what fixing it saves was not replayed: {reason}": "没有重放修好后能省多少：{reason}",
    "all ranks arrive together, as early as those that wait do now": "各 rank 同时到达，且与现在等待的 rank 一样早",
    "fixing {rank} alone saves {time}": "只修 {rank} 的收益：{time}",
    "fixing {rank} alone saves nothing": "只修 {rank} 没有收益",
    "then {why}: saves {time} more": "其次，{why}；再省：{time}",
    "{share} of the waiting would remain: the last rank to arrive there is no slower than the median": (
        "{share} 的等待仍会存在：在那里最后到达的 rank 此前并不比中位数慢"
    ),
    "replayed: {what} of all ranks, {share} of their collectives waiting for the last rank": (
        "重放了所有 rank 的 {what}，其中 {share} 的集合通信按等待最后一个 rank 处理"
    ),
    "the whole run": "整个运行",
    "{why}: without that the job's step is {saved} shorter": "{why}：否则任务每步短 {saved}",
    "the waiting of all ranks": "各 rank 的等待时间",
    "the exposed communication of all ranks": "各 rank 未掩盖的通信时间",
    "the collectives of all ranks": "各 rank 的集合通信",
    "ranks {numbers}": "{numbers} 号 rank",
    "{rank} arrives last at {count} of {of} collectives": "{rank} 在 {of} 次集合通信中有 {count} 次最后到达",
    "{last}, which account for {share} of all waiting": "{last}，占全部等待时间的 {share}",
    "{share} of the waiting at {kind} no. {ordinal} of the step (group {group}): {time} per rank": (
        "{share} 的等待在步内第 {ordinal} 个 {kind}（通信组 {group}）：每个 rank {time}"
    ),
    "{place}, last {rank}": "{place}，最后到达的是 {rank}",
    "{rank} waits {time}, {other} {less}": "{rank} 的等待：{time}；{other}：{less}",
    "{waits}; the slowest rank's step takes {time}": "{waits}；最慢的 rank 每步 {time}",
    "{time} of communication other than waiting is not overlapped with compute": (
        "未被计算掩盖、且不是等待的通信：{time}"
    ),
    "actual transfer": "不是等待",
    "waiting for other ranks": "在等其他 rank",
    "of the exposed communication of all ranks, {share} is {what}; the waiting part is COMM-SKEW": (
        "各 rank 未掩盖的通信中有 {share} {what}；等待部分见 COMM-SKEW"
    ),
    "{count} collectives were not matched: this includes their waits": (
        "{count} 次集合通信没有匹配上：它们的等待也计在内"
    ),
    "{share} of the collectives matched across ranks": "{share} 的集合通信在各 rank 间匹配上",
    "all on one clock": "都在同一时钟上",
    "clocks agree to {time}": "时钟误差不超过 {time}",
    "one step was recorded: its first collective also shows how far apart captures began": (
        "只记录了一步：第一次集合通信还反映了各采集开始时刻的差别"
    ),
    # present/views/fleet, lateness, ranks, page/fleet_page
    "saves nothing": "没有收益",
    "Step shorter by": "每步缩短",
    "Fixing it saves": "修好可省",
    "Fixed": "修好的对象",
    "Saves alone": "只修它可省",
    "After those above": "修好以上各项后再省",
    "Step then": "此时每步",
    "Saved so far": "累计节省",
    "longer by": "多用",
    "garbage collection": "垃圾回收",
    "What fixing saves, per step, at the median pace": "达到中位数水平后每步能省多少",
    "No rank holds up the others for long.": "没有哪个 rank 明显拖累其他 rank。",
    "One rank cannot show waiting for others; give the profiles of all ranks.": (
        "只有一个 rank 看不出谁在等谁；请给出所有 rank 的 profile。"
    ),
    "No collective was found on all its ranks: who waits for whom is unknown.": (
        "没有在全部 rank 上都找到的集合通信：无法判断谁在等谁。"
    ),
    "saves {least} to {most} per step": "每步可省 {least} 至 {most}",
    "{title}: {what}": "{title}：{what}",
    "step {first} to {last}": "第 {first} 至 {last} 步",
    "Failed: {profile}: {sentence}.": "失败：{profile}：{sentence}。",
    "Failed: {count} more; --format=json names them all.": "另有 {count} 个失败；--format=json 列出全部。",
    "Note: {count} more; --format=json has them all.": "另有 {count} 条说明；--format=json 列出全部。",
    "how late a rank reached a step's collectives, at most": "各 rank 到达该步集合通信的最大迟到时间",
    "how much longer a step took than on the fastest rank": "该步比最快的 rank 多用的时间",
    "One row per rank, one column per step: {what}; full color is {most}.": (
        "每行一个 rank，每列一步：{what}；颜色最深为 {most}。"
    ),
    "of {count}": "共 {count} 个",
    "{count} failed": "{count} 个失败",
    "{rank}: up to {time}": "{rank}：最多 {time}",
    "first": "前",
    "worst by {column}": "最差（按“{column}”）",
    "{title}: the {shown} {which}, of {count}": "{title}（共 {count} 行，显示{which}的 {shown} 行）",
    # present/views/lateness
    "Rank": "rank 编号",
    "Last to arrive": "最后到达",
    "of": "共",
    "Waited for": "被等待",
    "Extra compute": "计算多出",
    "Latest in step": "最晚的步",
    "by": "晚",
    "Profile": "profile 文件",
    "Stragglers: ranks that others wait for": "掉队者（straggler）：其他 rank 在等的 rank",
    # present/views/page/fleet_page
    "Ranks": "rank 数",
    "Profiles": "profile 数",
    "Who is late, and when": "谁在什么时候迟到",
    "None.": "没有。",
    "Not measured: neither collectives nor steps were matched across ranks.": (
        "未测量：各 rank 之间的集合通信和步都没有匹配上。"
    ),
    "Failed: {count}": "失败：{count} 个",
    # present/views/ranks
    "Compute": "计算",
    "Exposed comm": "未掩盖的通信",
    "Hidden comm": "被掩盖的通信",
    "Transfers": "传输",
    "Late": "迟到次数",
    "Others wait for it": "其他 rank 等它",
    "Clock ahead": "时钟超前",
    "give or take": "误差",
    "Collective": "集合通信",
    "Group": "通信组",
    "Bytes each": "每次字节数",
    "Wait per rank": "每 rank 等待",
    "Waited for most": "被等最多",
    "of the wait": "占等待",
    "Bus": "总线带宽",
    "At": "时刻",
    "No. in step": "步内序号",
    "Skew": "到达时差",
    "Longest": "最长",
    "Shortest": "最短",
    "Mean": "平均",
    "Most": "最多",
    "Max / mean": "最多/平均",
    "Collectives with the longest waits": "等待最久的集合通信",
    "Compute across ranks, per step": "各 rank 的计算（每步）",
    "Steps across ranks": "各步在各 rank 上的耗时",
    "Ranks, per step": "各 rank（每步）",
    "Collectives across ranks": "各 rank 间的集合通信",
}
