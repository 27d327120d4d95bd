"""Chinese. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

from gpuledger.messages.zh_agents import AGENTS
from gpuledger.messages.zh_answers import ANSWERS
from gpuledger.messages.zh_busy import BUSY
from gpuledger.messages.zh_compare import COMPARE
from gpuledger.messages.zh_critical import CRITICAL
from gpuledger.messages.zh_diagnosis import DIAGNOSIS
from gpuledger.messages.zh_first_fix import FIRST_FIX
from gpuledger.messages.zh_html import HTML
from gpuledger.messages.zh_kernels import KERNELS
from gpuledger.messages.zh_memory import MEMORY
from gpuledger.messages.zh_names import NAMES
from gpuledger.messages.zh_page import PAGE
from gpuledger.messages.zh_phases import PHASES
from gpuledger.messages.zh_programs import PROGRAMS
from gpuledger.messages.zh_query import QUERY
from gpuledger.messages.zh_ranks import RANKS
from gpuledger.messages.zh_tables import TABLES
from gpuledger.messages.zh_use import USE

_REPORT: Final[dict[str, str]] = {
    # ledger/steps, phases; analyse/inventory, stack_places
    "time blocked in OS calls cannot be separated from host code": (
        "无法区分主机阻塞在操作系统里的时间和主机代码自身的时间"
    ),
    "mixed": "混合",
    "{operator} from {function}": "{function} 调用的 {operator}",
    "marked by torch's ProfilerStep": "按 torch 的 ProfilerStep 划分",
    "marked by ranges matching '{pattern}'": "按匹配 '{pattern}' 的区间划分",
    "ended by kernels matching '{pattern}'": "按匹配 '{pattern}' 的 kernel 划分",
    "marked by the range '{name}'": "按区间 '{name}' 划分",
    "ended by token-sampling kernels": "按选出 token 的 kernel 划分",
    "ended by optimizer kernels": "按更新参数的 kernel 划分",
    "ranges": "区间",
    "marked by ranges": "按区间划分",
    "one per graph launch": "按 graph launch 划分",
    "inferred from repeating kernels": "按 kernel 序列的周期划分",
    # analyse/whatif
    "the whole is {parts}, one after another; setup and library ranges are left out": (
        "总时间为依次执行的 {parts}；不含初始化以及各库自行标记的区间"
    ),
    "compute in the same step hides it, without slowing down": "由同一步的计算掩盖，且计算不因此变慢",
    # findings/capture
    "{count} CUDA graph launches were traced as a whole: the kernels inside were not recorded": (
        "{count} 次 CUDA graph launch 只作为整体记录，没有记录图内运行了什么"
    ),
    "record with `nsys profile --cuda-graph-trace=node`": "请用 `nsys profile --cuda-graph-trace=node` 重新采集",
    "profiler overhead held up the host for {share} of the time": "profiler 自身占用了主机 {share} 的时间",
    "{share} of the time cannot be attributed: launches are missing from the profile": (
        "{share} 的时间无法归因：profile 中缺少相应的 launch 调用"
    ),
    "{count} of {steps} steps are warm-up": "{steps} 步中有 {count} 步是预热",
    "record later, or more steps": "请推迟采集，或多采集几步",
    "the profiler lost {share} of the GPU's work: {what}": "profiler 丢失了 {share} 的 GPU 工作：{what}",
    "{count} of {of} kernel launches": "{of} 次 kernel launch 中的 {count} 次",
    "{count} of {of} copies": "{of} 次拷贝中的 {count} 次",
    "{count} of {of} graph launches": "{of} 次 graph launch 中的 {count} 次",
    "{count} of {of} nodes of graphs": "{of} 个 graph 节点中的 {count} 个",
    "for example {name} of thread {thread}": "例如线程 {thread} 的 {name}",
    "{share} of the time looks idle next to it; no saving is claimed from that": (
        "{share} 的时间是其旁边的空闲：不据此给出任何收益"
    ),
    "record a shorter window, or flush more often: `nsys profile --cuda-flush-interval=100`": (
        "请缩短采集窗口，或更频繁地刷新记录：`nsys profile --cuda-flush-interval=100`"
    ),
    "record fewer steps: `schedule(active=3)` of torch.profiler": (
        "请减少采集步数：torch.profiler 的 `schedule(active=3)`"
    ),
    "{claim}. {verdict}": "{claim}。{verdict}",
    "{claim}. Up to {share} of the time only looks idle. {verdict}": (
        "{claim}。最多有 {share} 的时间只是看似空闲。{verdict}"
    ),
    # trace/model, read/plain_window
    "there is no `gpuledger capture` manifest next to the profile": "profile 旁边没有 `gpuledger capture` 的清单文件",
    "{manifest} describes another profile": "{manifest} 描述的是另一个文件，而不是该 profile",
    "the program was not run unprofiled before the capture": "采集之前没有不带 profiler 运行过一次",
    "the unprofiled run before the capture has no readable time": ("采集之前不带 profiler 的那次运行，其时间无法读取"),
    "no unprofiled run was timed before the capture: {reason}": "采集之前没有测得不带 profiler 的时间：{reason}",
    # findings/finding
    "high": "高",
    "medium": "中",
    "{time} per step": "每步 {time}",
    # ledger/causes
    "framework overhead": "框架开销",
    "unattributed": "无法归因",
    "lost by the profiler": "记录已丢失",
    # findings/idle
    "modules are loaded, compiled or tuned": "主机加载、编译或准备代码",
    "the host allocates or frees memory": "主机分配或释放内存",
    "the host is in OS calls": "主机执行操作系统调用",
    "the launching thread waits for another thread": "启动线程等待其他线程",
    "the host runs its own code": "主机执行自身代码",
    "the GPU waits {time} while {doing}": "{doing}期间，GPU 空等：{time}",
    "the step shrinks to what the GPU, or the rest of the host, needs": "每步缩短到设备（或主机其余部分）所需的时间",
    "work was queued but not started: the GPU waited for something else": "工作已入队，但设备在等待其他事件",
    "the GPU switched between processes": "设备在多个进程之间切换",
    "{doing}: {time}": "{doing}：{time}",
    "the wait goes away": "等待完全消除",
    "{often}, {time}": "{often}，{time}",
    "once": "1 次",
    "{count} times": "{count} 次",
    "{count} {what}": "{count} {what}",
    "{amount} per step": "每步 {amount}",
    "{amount} in {steps} steps": "{steps} 步中共 {amount}",
    "launch": "次启动",
    "launches": "次启动",
    "call": "次调用",
    "calls": "次调用",
    "kernel": "个 kernel",
    "kernels": "个 kernel",
    "back-to-back small blocking copies drain the queue: {rounds}": (
        "阻塞式小拷贝一个接一个，GPU 在其间无事可做：{rounds}"
    ),
    "one packed, asynchronous copy takes the place of the small ones": "用一次打包的异步拷贝代替这些小拷贝",
    "syncs drain the queue, and the GPU idles after them: {rounds}": "主机同步等待 GPU，GPU 的队列随之排空：{rounds}",
    "no syncs: they go away, with the small copies and the code around them": (
        "不再等待，也不为等待而读取：等待连同其小拷贝和前后的代码一并消失"
    ),
    "CPU launches can't keep up with the GPU: {what}": "主机启动 kernel 的速度跟不上 GPU：{what}",
    "{launches}, {time} idle between them": "{launches}，launch 间隙损失：{time}",
    "launches become free, as in a CUDA graph or with far fewer, larger kernels": (
        "启动不再有开销，例如改用 CUDA graph，或改用数量少得多、粒度更大的 kernel"
    ),
    "copies": "拷贝",
    "communication": "通信",
    "{time} of {what} not overlapped with compute": "{what}未被计算掩盖：{time}",
    "{share} of the time": "占总时间的 {share}",
    "the kernels": "全部 kernel",
    "for example": "示例",
    "{start} to {end}": "{start} 至 {end}",
    # findings/host_evidence
    "the lost time": "损失的时间",
    "the gaps' time": "间隙的时间",
    "the samples in that time": "期间的采样",
    "{share} of the lost time {where}": "损失的时间中有 {share} {where}",
    "in {ranges}": "位于 {ranges}",
    "in {name}": "位于 {name}",
    "in calls from {name}": "位于 {name} 发起的调用",
    "outside every range": "不在任何范围内",
    "{where}, between {before} and {after}": "{where}，介于 {before} 与 {after} 之间",
    "{where}, after {before}": "{where}，在 {before} 之后",
    "{where}, before {after}": "{where}，在 {after} 之前",
    "before {name}": "在 {name} 之前",
    "after {name}": "在 {name} 之后",
    "after waits in {ranges}": "在 {ranges} 中的等待之后",
    "before work launched in {ranges}": "在 {ranges} 中启动的工作之前",
    "{share} of the samples in that time in {name}": "期间的采样中有 {share} 在 {name}",
    "{what}, on thread {thread}, {why}": "{what}（线程 {thread}，{why}）",
    "which the launching thread waits on": "启动线程在等它",
    "while the launching thread is in no range": "启动线程不在任何范围内",
    "which runs it": "由它执行",
    "by cause: {causes}": "按原因：{causes}",
    ", ": "、",
    # findings/copies
    "host to device": "主机到设备",
    "device to host": "设备到主机",
    "device to device": "设备内部",
    "peer to peer": "设备之间",
    "memset": "内存置值（memset）",
    "direction not recorded": "方向未记录",
    "pageable memory": "可分页（pageable）内存",
    "pinned memory": "锁页（pinned）内存",
    "managed memory": "托管（managed）内存",
    "{way}, {memory}": "{way}，{memory}",
    "{size} per step": "每步 {size}",
    "one copy of {size}": "1 次拷贝，{size}",
    "{count} copies of {size} on average": "{count} 次拷贝，平均 {size}",
    "their time": "其时间",
    "the copies' time": "拷贝时间",
    "the time": "总时间",
    "{size} are copied from or to pageable memory: {time}": "与可分页（pageable）内存之间拷贝 {size}：{time}",
    "pinned memory reaches the link's usual rate, and no call blocks": "锁页内存能达到链路的通常速率，且无人等待",
    "copies not overlapped with compute take {share} of the time, mostly {way}: {size} at {rate}/s": (
        "仅拷贝就占总时间的 {share}，主要为{way}：{size}，速率 {rate}/s"
    ),
    "copies not overlapped with compute take {share} of the time, mostly {way}": (
        "仅拷贝就占总时间的 {share}，主要为{way}"
    ),
    "the longest of them, {time}, launched in {ranges}": "其中最长的一次 {time}，启动位于 {ranges}",
    "copies run at the link's rate, and compute hides as much of them as it can": (
        "拷贝达到其通路允许的速率，并尽可能由计算掩盖"
    ),
    "compute hides as much of the copies as it can; beyond that, only fewer bytes help": (
        "计算尽可能掩盖拷贝；若要再快，只能减少拷贝的字节数"
    ),
    "the copies run at full speed: only fewer bytes help": "拷贝已达到可能的最高速率：只能减少字节数",
    "{share} of {of} {way}: copies whose bytes were not recorded, {count} of them": (
        "{of}的 {share} 为{way}：{count} 次拷贝，未记录字节数"
    ),
    "{share} of {of} {way}: {copies}, at {rate}/s; {limit}": (
        "{of}的 {share} 为{way}：{copies}，速率 {rate}/s；{limit}"
    ),
    "the link's rate is unknown": "其通路允许的速率未知",
    "with pinned memory this run's own copies reach {rate}/s": "本次运行中锁页内存的拷贝可达 {rate}/s",
    "the largest of them reach {rate}/s, taken as the maximum": ("其中最大的拷贝可达 {rate}/s，以此作为可达到的上限"),
    "device memory does {rate}/s": "设备内存可达 {rate}/s",
    "device memory allows {rate}/s, since a copy reads and writes": "拷贝既读又写，设备内存允许 {rate}/s",
    "with pinned memory the link does about {rate}/s": "使用锁页内存时链路约可达 {rate}/s",
    "the link does about {rate}/s": "链路约可达 {rate}/s",
    "pin the host memory (COPY-PAGEABLE); then copy in chunks, each while the previous one is computed on": (
        "锁定主机内存（见 COPY-PAGEABLE）；再分块拷贝，每拷贝一块时对前一块做计算"
    ),
    "the copies are too small for the link: pack them into a few large ones": (
        "拷贝太小，用不满链路：请打包成少数大块"
    ),
    "large copies below the link's rate: look for other traffic on it, host memory on the wrong "
    "NUMA node, or a narrower slot": (
        "拷贝较大但低于通路速率：检查通路上的其他流量、主机内存是否在错误的 NUMA 节点、插槽带宽是否偏窄"
    ),
    "clear only what is read before it is written, or once instead of every step": (
        "只对会先读后写的内存置值，或只做一次而不是每步都做"
    ),
    "at full memory bandwidth only fewer bytes help: write results in place, or where they are used": (
        "已达到内存速率，只能减少字节数：结果原地写入，或直接写到使用处"
    ),
    "at the link's rate only fewer bytes help: keep data where it is used, copy a smaller dtype "
    "or compress; overlap the rest in chunks with compute": (
        "已达到链路速率，只能减少字节数：数据留在使用处，改用更小的数据类型或压缩后拷贝；其余部分分块拷贝，与计算重叠"
    ),
    # findings/cold_start
    "the CUDA context is created: {time}, once": "创建 CUDA 上下文：{time}，仅一次",
    "the first GPU work takes {time} to start, once": ("GPU 的第一项工作 {time} 后才开始：仅在启动时发生一次"),
    "it happens once, however long the program runs": "无论程序运行多久，只发生一次",
    "{share} of it {cause}": "其中 {share} 为{cause}",
    "the time until the first work": "第一项工作开始之前的时间",
    "{share} of it in one gap: it is loaded once": "其中 {share} 在一个间隙里：加载一次后不再重复",
    "the time of its gaps": "其间隙的时间",
    # findings/unified_memory
    "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} in total": (
        "统一内存的页面在主机与设备之间迁移：共 {count} 次，{size}，{time}"
    ),
    "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} per step": (
        "统一内存的页面在主机与设备之间迁移：每步 {count} 次，{size}，{time}"
    ),
    "pages are already resident, or prefetched at the link's rate": ("页面就在使用它的一侧，或提前以链路速率迁移到位"),
    "{time} of migrations with no kernel running": "迁移期间没有 kernel 运行：{time}",
    "{time} of pauses before the next migration, with nothing running": "下一次迁移之前的停顿，设备空闲：{time}",
    "{time} under kernels, which stall until their pages arrive": "kernel 运行期间停顿等待页面：{time}",
    "the time lost to pages": "损失在页面上的时间",
    "the bytes that migrate": "迁移的字节",
    "{share} of the bytes go to the device": "{share} 的字节迁往设备",
    "{share} of the bytes go to the host": "{share} 的字节迁往主机",
    "in the whole profile: {host} host page faults, {gpu} groups of GPU page faults": (
        "整个 profile 中：主机缺页 {host} 次，GPU 缺页 {gpu} 组"
    ),
    # findings/kernels, memory, steps
    "{kernels} that only convert dtypes: {time}": "{kernels}只用来转换张量的数据类型：{time}",
    "the dtype is kept, or converted inside another kernel": "保持数据类型不变，或在别的 kernel 里顺带转换",
    "{share} of the kernels take under 5 us, less than a launch: {time} of gaps": (
        "{share} 的 kernel 运行不到 5 us，比启动一次还短，由此产生的间隙：{time}"
    ),
    "fuse them, batch them, or capture the step in a CUDA graph": "可以融合、合批，或把整个步捕获成 CUDA graph",
    "{share} of the time in {names}": "时间的 {share} 位于 {names}",
    "the gaps close, as in a CUDA graph": "间隙消除，如同 CUDA graph",
    "small kernels launched in a loop, tensor by tensor: {launches} cost the host {time}": (
        "小 kernel 在循环里逐个张量运行：{launches}，占用主机 {time}"
    ),
    "one kernel handles all tensors: only the first round of each loop is launched": (
        "一个 kernel 处理所有张量：每个循环只 launch 第一轮"
    ),
    "one kernel runs {times} times in a row: {names}": "同一个 kernel 连续运行 {times} 次，其中有 {names}",
    "the same {kernels} kernels run {times} times in a row, with {names}": (
        "同样的 {kernels} 个 kernel 连续运行 {times} 次，其中有 {names}"
    ),
    "{claim}, and {more} more until the host is ahead again": "{claim}，此后直到主机重新领先又损失 {more}",
    "{name} {often}": "{name} {often}",
    "{share} of it in {name}": "其中 {share} 在 {name} 中",
    "{calls} allocate or free memory, {time} of the host": "{calls}分配或释放内存，占用主机：{time}",
    "hidden by the host today, but not in a faster step": "目前主机还能掩盖它；步变快之后就不能了",
    "{count} of {steps} steps take unusually long": "{steps} 步中有 {count} 步异常慢",
    "step {step}: {time} against {usual}, most of it {line}": (
        "步 {step}：{time}，通常为 {usual}，多出的时间主要是{line}"
    ),
    "they take as long as the median step": "这些步的耗时降到中位数",
    "steps slow down over the run: {share} from the first third to the last": (
        "步在运行中逐渐变慢：后三分之一比前三分之一慢 {share}"
    ),
    "from {early} to {late}, most of it {line}": "从 {early} 到 {late}，大部分来自 {line}",
    "all steps take as long as the early ones": "所有步都与早期的步一样快",
    # read/stream; read/torch/events, reader
    "{reason}: the trace is truncated": "{reason}：trace 不完整，缺少结尾",
    "the gzip stream breaks off": "gzip 流中途断开",
    "the archive is damaged": "归档文件已损坏",
    "the gzip stream is damaged": "gzip 流已损坏",
    "the list of events does not end": "事件列表没有结束",
    "the last event breaks off": "最后一个事件中途断开",
    "{count} events could not be read and were left out": "{count} 个事件无法读取，已略去",
    "{count} events hold malformed values; what could be read was kept": (
        "{count} 个事件含有异常的值；能读出的部分已保留"
    ),
    "{count} events have no usable time or duration and were left out or truncated": (
        "{count} 个事件没有可用的时间或时长，已略去或截短"
    ),
    "{count} events are given by begin and end, which torch does not do; left out": (
        "{count} 个事件以开始/结束成对给出，而 torch 不会这样写；已略去"
    ),
    "{count} names were too long and were truncated": "{count} 个名称过长，已截断",
    "{count} events of an MTIA accelerator were left out: only GPUs are supported": (
        "{count} 个 MTIA 加速器的事件已略去：只支持 GPU"
    ),
    "{count} {table} end before they start": "{table} 中有 {count} 行的结束早于开始",
    "GPU, name not recorded": "GPU（名称未记录）",
    # read/nsys/devices, reader, strings
    "table {table} has no column {column}": "表 {table} 没有列 {column}",
    "{reason}; it was left out": "{reason}，已略去",
    "no row of {table} has a usable {column}; {lost}": "{table} 没有一行有可用的 {column}；{lost}",
    "which call launched which work is not known": "无法得知哪个调用启动了哪项工作",
    "which process it belongs to is not known": "无法得知它属于哪个进程",
    "which thread it belongs to is not known": "无法得知它属于哪个线程",
    "how much of the GPU a kernel fills is not known": "无法得知一个 kernel 能占满 GPU 的多少",
    "{count} values in {table} are not usable numbers and count as not recorded": (
        "{table} 中有 {count} 个值不是可用的数字，按未记录处理"
    ),
    "the GPU ran {count} operations, and the profile holds no call that launched any: why it was idle is not known": (
        "GPU 执行了 {count} 个操作，而分析文件里没有一个启动它们的调用：无法得知 GPU 为何空闲"
    ),
    "{count} kernels or copies of CUDA graphs do not say which node they are: gaps between them look like the host's": (
        "CUDA graph 的 {count} 个 kernel 或拷贝没有说明自己是哪个节点：它们之间的空隙看起来像是主机造成的"
    ),
    "{count} GPU counters were sampled, but GPU_METRICS holds no sample: how well kernels use the GPU is not known": (
        "采样了 GPU 的 {count} 个计数器，但 GPU_METRICS 中没有样本：无法得知 kernel 对 GPU 的利用程度"
    ),
    "{count} counters of GPU_METRICS have no name in the export: what they measure is not known": (
        "GPU_METRICS 的 {count} 个计数器在导出文件中没有名称：无法得知它们测量什么"
    ),
    "the export does not say {figure} its GPUs have: how well kernels use them is judged without": (
        "导出文件没有说明 GPU 的{figure}：判断 kernel 对 GPU 的利用时不考虑它"
    ),
    "how many SMs": " SM 数",
    "what clock": "时钟频率",
    "what memory bandwidth": "显存带宽",
    "{count} calls put {table} on the GPU, and the profile holds none: their time looks idle": (
        "{count} 个调用向 GPU 提交了 {table}，而分析文件中没有任何记录：它们的时间看起来像空闲"
    ),
    "{table} is a view, not a table": "{table} 是视图，不是表",
    "{count} rows of GPU work do not say which GPU they ran on; {gpu} is assumed": (
        "{count} 行 GPU 工作没有说明在哪个 GPU 上运行；假定为 {gpu}"
    ),
    "{count} rows of {table} have no usable {columns} and were left out": (
        "{table} 中有 {count} 行没有可用的 {columns}，已略去"
    ),
    " or ": " 或 ",
    "{count} copies are of a kind that the export does not name; NVIDIA's tables omit them": (
        "{count} 次拷贝的种类在导出文件里没有名称；NVIDIA 的统计表不含这些拷贝"
    ),
    "{count} NVTX ranges have no end; they are taken to end at the last NVTX event": (
        "{count} 个 NVTX 区间没有结束时间；以所有 NVTX 事件中最晚的时刻代替"
    ),
    "{count} {table} end before they start; NVIDIA's tables count them as they are": (
        "{table} 中有 {count} 行的结束早于开始；NVIDIA 的统计表照原样计入"
    ),
    "{count} CUDA graph launches were traced as a whole; their kernels are in none of NVIDIA's tables": (
        "{count} 次 CUDA graph launch 只作为整体记录；其中的 kernel 不在 NVIDIA 的任何统计表里"
    ),
    "unknown GPU": "未知 GPU",
    "unnamed GPU": "未命名的 GPU",
    "the export does not number its GPUs as CUDA does; they are identical, and are taken in order": (
        "导出文件没有按 CUDA 的编号列出 GPU；它们型号相同，按列出的顺序对应"
    ),
    "work ran on {count} GPUs that the export does not match to the ones it describes": (
        "有 {count} 块 GPU 上有工作，但导出文件没有说明是它描述的哪几块"
    ),
    "the export does not say which GPU each of {count} processes used; a device number is taken "
    "to mean the same GPU in all of them": (
        "导出文件没有说明 {count} 个进程各自用的是哪块 GPU；视同一设备编号在所有进程里指同一块 GPU"
    ),
    "{count} names are missing from the export; their events show the string's number": (
        "导出文件里缺少 {count} 个名称；相应的事件显示字符串编号"
    ),
    "{count} names are not UTF-8; the invalid bytes are shown as \\xNN": (
        "{count} 个名称不是 UTF-8；无法解码的字节显示为 \\xNN"
    ),
    "{count} names longer than {longest} bytes were truncated": "{count} 个名称超过 {longest} 字节，已截断",
    # present/views/info
    "{tool}, version not recorded": "{tool}（版本未记录）",
    "read by the native decoder": "由原生解码器读取",
    "read by the native decoder, and by SQLite: {tables}": "由原生解码器读取，其中由 SQLite 读取：{tables}",
    "read by SQLite, which is slower: {reason}": "由 SQLite 读取，速度较慢：{reason}",
    "the native decoder was not compiled when gpuledger was installed": "安装 gpuledger 时没有编译原生解码器",
    "GPULEDGER_NATIVE=0 turns off the native decoder": "GPULEDGER_NATIVE=0 停用了原生解码器",
    "the database uses a write-ahead log": "数据库使用预写日志（WAL）",
    "there is a journal next to the database": "数据库旁有回滚日志（journal）",
    "the file header is unusual": "文件头不寻常",
    "{count} process": "{count} 个进程",
    "{count} processes": "{count} 个进程",
    "{count} kernels": "{count} 个 kernel",
    "no GPU work recorded": "没有记录到 GPU 工作",
    # ledger/causes; present/views/report
    "sync": "同步等待",
    "host code": "主机代码",
    "launch calls": "launch 调用",
    "launch latency": "launch 延迟",
    "module load": "加载代码",
    "context creation": "创建上下文",
    "page migration": "迁移页面",
    "allocation": "内存分配",
    "copy calls": "拷贝调用",
    "other CUDA calls": "其他 CUDA 调用",
    "OS calls": "操作系统",
    "waiting on a thread": "等待其他线程",
    "profiler overhead": "profiler 自身",
    "kernel-to-kernel gaps": "kernel 间隙",
    "work launched before the recording": "记录开始之前的工作",
    "queued, not started": "已排队未开始",
    "another process": "其他进程占用",
    "inside a graph": "graph 内部",
    "after the last work": "最后一项工作之后",
    "idle: {cause}": "空闲：{cause}",
    "compute": "计算",
    "  other families": "  其他类别",
    "exposed communication": "未掩盖的通信",
    "exposed copies": "未掩盖的拷贝",
    "total": "合计",
    "line": "账目",
    "share": "占比",
    "per step": "每步",
    "GPU busy {share}": "GPU 忙碌 {share}",
    "GPU {gpu} busy {share}": "GPU {gpu} 忙碌 {share}",
    "{works}.": "{works}。",
    "The profile holds {count} ranks: `gpuledger fleet` shows who waits for whom, `--device=N` shows one GPU.": (
        "该 profile 含 {count} 个 rank：`gpuledger fleet` 说明谁在等谁，`--device=N` 只看一块 GPU。"
    ),
    "{works} ({share} in {steps}).": "{works}（{steps}为 {share}）。",
    "the one step, {coverage} of the window": "占其中 {coverage} 的唯一一步",
    "{count} steady steps, {coverage} of the window": "占其中 {coverage} 的 {count} 个稳定步",
    "{share} of the time is lost to {line}.": "{share} 的时间损失在{line}。",
    "Outside the steps, {share} of the window is lost to {line}.": "在各步之外，整个窗口有 {share} 损失在{line}。",
    "Only faster kernels would help much: {code} would save {share}.": (
        "除了加快 kernel 本身，几乎没有别的提速空间：{code} 只能省下 {share}。"
    ),
    "{first} {then}": "{first}{then}",
    "Level": "层级",
    "Count": "数量",
    "of the window": "占窗口",
    "For {share} of the time it ran work launched before the recording began.": (
        "有 {share} 的时间它还在执行记录开始之前启动的工作。"
    ),
    "What is left is the kernels themselves.": "剩下的是 kernel 本身。",
    "Where the time went": "时间去向",
    "Where the time went ({time}, no steps found)": "时间去向（{time}，没有识别出步）",
    "Where the time went, per step (mean of {steps}, {source})": "每步的时间去向（{steps}的平均值，{source}）",
    "Where the time went, per step (mean of {steps}, {source}; {leading} left out)": (
        "每步的时间去向（{steps}的平均值，{source}，不含 {leading}）"
    ),
    "Where the time went, in {steps} ({source})": "时间去向：{steps}（{source}）",
    "Where the time went, in {steps} ({source}), {leading} left out": "时间去向：{steps}（{source}，不含 {leading}）",
    "one {phase} step": "一个 {phase} 步",
    "one step": "一步",
    "{count} of warm-up": "{count} 步预热",
    "{count} of prefill": "{count} 步 prefill",
    "{count} steps": "{count} 步",
    "{count} {phase}": "{count} 个 {phase}",
    " and ": " 和 ",
    "{kinds} steps": "{kinds} 步",
    "What to do": "优化建议",
    "saves {time}": "可省 {time}",
    "saves {time} per step": "每步可省 {time}",
    "saves at most {time}": "至多可省 {time}",
    "saves at most {time} per step": "每步至多可省 {time}",
    "saves nothing more once those above are fixed": "解决以上各项之后不再有节省",
    "saves {time} once those above are fixed": "解决以上各项之后可省 {time}",
    "saves {time} per step once those above are fixed": "解决以上各项之后每步可省 {time}",
    "{saving}; {then}": "{saving}；{then}",
    "{saving} ({share})": "{saving}（{share}）",
    "{claim}.": "{claim}。",
    "{claim}. {saving}.": "{claim}。{saving}。",
    "**{code}**: {what}": "**{code}**：{what}",
    "and {count} more: {codes}": "另有 {count} 条：{codes}",
    "{share} of compute is in kernels of no known family, mostly {names}; --families assigns one.": (
        "计算中有 {share} 属于未知类别的 kernel，主要是 {names}；用 --families 给它们归类。"
    ),
    "Not measured: {what}.": "未测量：{what}。",
    "Note: {sentence}.": "注意：{sentence}。",
    "next: {command}": "下一步：{command}",
}

TEMPLATES: Final = {
    **_REPORT,
    **KERNELS,
    **HTML,
    **PAGE,
    **PHASES,
    **CRITICAL,
    **TABLES,
    **ANSWERS,
    **FIRST_FIX,
    **COMPARE,
    **NAMES,
    **RANKS,
    **PROGRAMS,
    **BUSY,
    **USE,
    **DIAGNOSIS,
    **AGENTS,
    **MEMORY,
    **QUERY,
}
