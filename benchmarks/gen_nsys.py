#!/usr/bin/env python3
"""Write a synthetic Nsight Systems SQLite export: gen_nsys.py OUT N_KERNELS [SEED].

One process, one GPU, two launching threads (forward and autograd), two
streams that overlap (compute 7, communication 13). Every kernel has one
launching runtime call with the same correlationId and starts no sooner than
that call begins; kernels of one stream never overlap. NVTX push/pop ranges
nest step > phase > layer > op on each thread, so every kernel has a known
innermost range; some kernels lie outside ops and some outside all ranges.
Kernel rows are in launch order, as CUPTI delivers them, not in start order.
Deterministic in (N_KERNELS, SEED, --nvtx).
"""

import argparse
import os
import sqlite3

import numpy as np

KERNEL = """start end deviceId contextId greenContextId? streamId correlationId? globalPid?
demangledName shortName mangledName? launchType? cacheConfig? registersPerThread
gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory
localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted? graphNodeId?
sharedMemoryLimitConfig?"""
RUNTIME = "start end eventClass globalTid? correlationId? nameId returnValue callchainId?"
MEMCPY = """start end deviceId contextId greenContextId? streamId correlationId? globalPid? bytes
copyKind deprecatedSrcId? srcKind? dstKind? srcDeviceId? srcContextId? dstDeviceId?
dstContextId? migrationCause? graphNodeId? virtualAddress? copyCount?"""
MEMSET = """start end deviceId contextId greenContextId? streamId correlationId? globalPid? value
bytes graphNodeId? memKind?"""
NVTX = """start end? eventType rangeId? category? color? text?:TEXT globalTid? endGlobalTid?
textId? domainId? uint64Value? int64Value? doubleValue?:REAL uint32Value? int32Value?
floatValue?:REAL jsonTextId? jsonText?:TEXT binaryData?:TEXT"""

PID, HOST = 4242, 1 << 48
GLOBAL_PID = HOST | PID << 24
TIDS = [GLOBAL_PID | PID, GLOBAL_PID | (PID + 17)]
OPS = [
    "aten::linear",
    "aten::mm",
    "aten::add_",
    "aten::layer_norm",
    "aten::softmax",
    "aten::gelu",
    "aten::copy_",
    "aten::mul",
    "aten::dropout",
    "flash_attn::fwd",
]
APIS = [
    "cudaLaunchKernel_v7000",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaMemsetAsync_v3020",
]


def ddl(table, spec):
    cols = []
    for word in spec.split():
        name, _, kind = word.partition(":")
        null = name.endswith("?")
        cols.append(f"{name.rstrip('?')} {kind or 'INTEGER'}{'' if null else ' NOT NULL'}")
    return f"CREATE TABLE {table} ({', '.join(cols)})"


def insert(db, table, spec, columns, chunk=250_000):
    """Insert a mapping of column to array (or scalar); absent columns are NULL."""
    names = [w.partition(":")[0].rstrip("?") for w in spec.split()]
    n = next(len(v) for v in columns.values() if isinstance(v, (np.ndarray, list)))
    sql = f"INSERT INTO {table} VALUES ({','.join('?' * len(names))})"
    for lo in range(0, n, chunk):
        hi = min(lo + chunk, n)
        cut = []
        for name in names:
            v = columns.get(name)
            if isinstance(v, np.ndarray):
                v = v[lo:hi].tolist()
            elif isinstance(v, list):
                v = v[lo:hi]
            else:
                v = [v] * (hi - lo)
            cut.append(v)
        db.executemany(sql, zip(*cut))


class Strings:
    def __init__(self):
        self.ids = {}

    def __call__(self, text):
        return self.ids.setdefault(text, len(self.ids) + 1)


def kernel_names(rng, count):
    """(demangled, short, mangled) triples with the lengths real libraries produce."""
    out = []
    for i in range(count):
        family = i % 5
        if family == 0:
            short = f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{64 << i % 3}x{64 << i // 3 % 3}x64_{i}"
            full = short + "_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
        elif family == 1:
            short = "vectorized_elementwise_kernel"
            full = (
                f"void at::native::vectorized_elementwise_kernel<(int)4, at::native::"
                f"CUDAFunctor_{i}<c10::BFloat16>, std::array<char *, (unsigned long)3>>"
                f"(int, T2, T3)"
            )
        elif family == 2:
            short = "flash_fwd_kernel"
            full = (
                f"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int){32 + i}, (int)128,"
                f" (int)64, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t>, (bool)0, (bool)1>"
                f"(flash::Flash_fwd_params)"
            )
        elif family == 3:
            short = f"triton_poi_fused_add_mul_{i}"
            full = short
        else:
            short = "reduce_kernel"
            full = (
                f"void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float,"
                f" at::native::NormTwoOps{i}<float>, unsigned int, float, (int)4, (int)4>>(T3)"
            )
        out.append((full, short, "_Z" + full.replace(" ", "")[:180]))
    nccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    out.append((nccl + "(ncclDevKernelArgsStorage<(unsigned long)4096>)", nccl, "_Z40" + nccl))
    return out


def queue(ready, duration, gap):
    """Start times of one in-order stream: each starts when ready and the former has ended."""
    spent = np.concatenate(([0], np.cumsum(duration + gap)[:-1]))
    return np.maximum.accumulate(ready - spent) + spent


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("kernels", type=int)
    ap.add_argument("seed", type=int, nargs="?", default=0)
    ap.add_argument("--nvtx", type=int, default=200_000, help="about how many NVTX ranges")
    a = ap.parse_args()
    rng = np.random.default_rng(a.seed)
    n = a.kernels
    strings = Strings()
    names = kernel_names(rng, 240)
    nccl = len(names) - 1

    # Launches, per thread: launch i of a thread belongs to op i // per_op of that thread.
    per_op = max(2, round(n / a.nvtx * 1.14))  # 1.14: layers, phases and steps on top of ops
    ops_per_layer, layers_per_phase, phases_per_step = 8, 12, 3
    per_layer = per_op * ops_per_layer
    per_phase = per_layer * layers_per_phase
    per_step = per_phase * phases_per_step
    launches, ranges = [], []
    for t, tid in enumerate(TIDS):
        m = n // 2 if t else n - n // 2
        i = np.arange(m)
        gap = 3000 + rng.gamma(2.0, 2500, m).astype(np.int64)
        gap[per_step::per_step] += rng.integers(200_000, 2_000_000, len(gap[per_step::per_step]))
        dur = 1500 + rng.gamma(2.0, 1000, m).astype(np.int64)
        start = 1_000_000_000 + t * 5000 + np.cumsum(gap) + np.cumsum(dur) - dur
        launches.append((start, start + dur, np.full(m, tid), i))
        # last launch of a layer lies in no op, last of a step in no range at all
        for depth, size, trim in ((3, per_op, 0), (2, per_layer, 0), (1, per_phase, 0), (0, per_step, 1)):
            first = np.arange(0, m, size)
            last = np.minimum(first + size, m) - 1
            if depth == 3:
                last = last - ((last + 1) % per_layer == 0)
            last = last - ((last + 1) % per_step == 0)
            keep = last >= first
            first, last = first[keep], last[keep]
            pad = (4 - depth) * 300
            ranges.append(
                (
                    start[first] - pad,
                    start[last] + dur[last] + pad,
                    np.full(len(first), tid),
                    np.full(len(first), depth),
                    first // size,
                )
            )
    l_start, l_end, l_tid, _ = (np.concatenate(c) for c in zip(*launches))
    order = np.argsort(l_start, kind="stable")
    l_start, l_end, l_tid = l_start[order], l_end[order], l_tid[order]
    corr = 100 + np.cumsum(rng.integers(1, 4, n))

    # Kernels: 12% communication on its own stream.
    comm = rng.random(n) < 0.12
    name = np.where(comm, nccl, np.minimum(rng.zipf(1.3, n) - 1, 10**6) % nccl)
    mean = rng.lognormal(8.2, 0.7, len(names))
    mean[nccl] = 24_000
    dur = np.maximum(800, mean[name] * rng.lognormal(0, 0.25, n)).astype(np.int64)
    ready = l_end + 1200 + rng.integers(0, 800, n) - 900 * (rng.random(n) < 0.1).astype(np.int64)
    start = np.empty(n, np.int64)
    for lane in (comm, ~comm):
        start[lane] = queue(ready[lane], dur[lane], 600)
    full, short, mangled = (np.array([strings(x) for x in c]) for c in zip(*names))
    api = np.array([strings(x) for x in APIS])

    if os.path.exists(a.out):
        os.remove(a.out)
    db = sqlite3.connect(a.out)
    db.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-200000;")
    for table, spec in (
        ("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", MEMCPY),
        ("CUPTI_ACTIVITY_KIND_MEMSET", MEMSET),
        ("NVTX_EVENTS", NVTX),
    ):
        db.execute(ddl(table, spec))

    pick = lambda choices, key: np.array(choices)[key % len(choices)]
    insert(
        db,
        "CUPTI_ACTIVITY_KIND_KERNEL",
        KERNEL,
        dict(
            start=start,
            end=start + dur,
            deviceId=0,
            contextId=1,
            greenContextId=None,
            streamId=np.where(comm, 13, 7),
            correlationId=corr,
            globalPid=GLOBAL_PID,
            demangledName=full[name],
            shortName=short[name],
            mangledName=mangled[name],
            launchType=1,
            cacheConfig=0,
            registersPerThread=pick([32, 40, 64, 128, 168, 255], name),
            gridX=rng.integers(1, 4096, n),
            gridY=pick([1, 1, 8, 16], name),
            gridZ=1,
            blockX=pick([128, 256, 384, 512], name),
            blockY=1,
            blockZ=1,
            staticSharedMemory=pick([0, 16, 1024], name),
            dynamicSharedMemory=pick([0, 0, 49152, 213 * 1024], name),
            localMemoryPerThread=0,
            localMemoryTotal=60_000_000,
            gridId=np.arange(1, n + 1),
            sharedMemoryExecuted=pick([32768, 65536, 233472], name),
            graphNodeId=None,
            sharedMemoryLimitConfig=0,
        ),
    )

    # Memcpy, memset and synchronise: sparse, each with its runtime call, placed after launches.
    k = max(1, n // 100)
    at = np.sort(rng.choice(n, k, replace=False))
    extra_corr = corr[-1] + 1 + np.arange(3 * k)
    e_start = l_end[at] + 200
    size = rng.integers(1 << 10, 1 << 24, k)
    c_start = queue(e_start + 2000, size // 20 + 1000, 500)
    insert(
        db,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        MEMCPY,
        dict(
            start=c_start,
            end=c_start + size // 20 + 1000,
            deviceId=0,
            contextId=1,
            streamId=7,
            correlationId=extra_corr[:k],
            globalPid=GLOBAL_PID,
            bytes=size,
            copyKind=1 + np.arange(k) % 2,
            srcKind=1 + np.arange(k) % 2,
            dstKind=2 - np.arange(k) % 2,
            srcDeviceId=0,
            srcContextId=1,
            dstDeviceId=0,
            dstContextId=1,
            copyCount=1,
        ),
    )
    insert(
        db,
        "CUPTI_ACTIVITY_KIND_MEMSET",
        MEMSET,
        dict(
            start=c_start + 300,
            end=c_start + 1300,
            deviceId=0,
            contextId=1,
            streamId=7,
            correlationId=extra_corr[k : 2 * k],
            globalPid=GLOBAL_PID,
            value=0,
            bytes=size,
            memKind=2,
        ),
    )
    r_start = np.concatenate([l_start, e_start, e_start + 700, e_start + 1400])
    r_end = np.concatenate([l_end, e_start + 600, e_start + 1300, e_start + 1900])
    r_name = np.concatenate([np.where(rng.random(n) < 0.8, api[0], api[1]), np.repeat(api[[2, 4, 3]], k)])
    r_corr = np.concatenate([corr, extra_corr])
    r_tid = np.concatenate([l_tid, np.tile(l_tid[at], 3)])
    o = np.argsort(r_start, kind="stable")
    insert(
        db,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        RUNTIME,
        dict(
            start=r_start[o],
            end=r_end[o],
            eventClass=0,
            globalTid=r_tid[o],
            correlationId=r_corr[o],
            nameId=r_name[o],
            returnValue=0,
            callchainId=None,
        ),
    )

    # NVTX: ops carry their text in line, the outer ranges a registered string.
    v_start, v_end, v_tid, depth, index = (np.concatenate(c) for c in zip(*ranges))
    o = np.lexsort((-v_end, v_start))
    v_start, v_end, v_tid, depth, index = (c[o] for c in (v_start, v_end, v_tid, depth, index))
    text, text_id = [], []
    for d, i, tid in zip(depth.tolist(), index.tolist(), v_tid.tolist()):
        if d == 3:
            text.append(f"{OPS[i % len(OPS)]}, seq = {i % 5000}" if i % 4 == 0 else OPS[i % len(OPS)])
            text_id.append(None)
        else:
            text.append(None)
            text_id.append(
                strings((f"step {i}", ("forward", "backward", "optimizer")[i % 3], f"layer_{i % layers_per_phase}")[d])
            )
    insert(
        db,
        "NVTX_EVENTS",
        NVTX,
        dict(start=v_start, end=v_end, eventType=59, text=text, globalTid=v_tid, textId=text_id, domainId=0),
    )

    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    db.executemany("INSERT INTO StringIds VALUES (?,?)", [(i, s) for s, i in strings.ids.items()])
    db.execute("""CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT,
        busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER,
        memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT,
        luid INTEGER, chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT,
        revision INTEGER, nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER,
        maxRegistersPerBlock INTEGER, maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER,
        maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, threadsPerWarp INTEGER,
        asyncEngines INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER,
        maxThreadsPerBlock INTEGER, maxBlockDimX INTEGER, maxBlockDimY INTEGER,
        maxBlockDimZ INTEGER, maxGridDimX INTEGER, maxGridDimY INTEGER, maxGridDimZ INTEGER,
        computeMajor INTEGER, computeMinor INTEGER, smMajor INTEGER, smMinor INTEGER)""")
    db.execute("""INSERT INTO TARGET_INFO_GPU (vmId,id,name,busLocation,totalMemory,memoryBandwidth,
        clockRate,smCount,uuid,chipName,cuDevice,computeMajor,computeMinor) VALUES
        (0,0,'NVIDIA H200','0000:01:00.0',150754820096,4890000000000,1980000000,132,'0','GH100',0,9,0)""")
    db.execute("""CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL,
        pid INTEGER NOT NULL, uuid TEXT NOT NULL, numMultiprocessors INTEGER NOT NULL)""")
    db.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0,0,?,'0',132)", (PID,))
    db.execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    db.execute("INSERT INTO PROCESSES VALUES (?,?,'python')", (GLOBAL_PID, PID))
    db.execute("CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER)")
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
    db.executemany(
        "INSERT INTO META_DATA_EXPORT VALUES (?,?)",
        [
            ("EXPORT_PRODUCT_VERSION", "2023.4.4.54"),
            ("EXPORT_SCHEMA_VERSION", "3.1.7"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "1"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "7"),
        ],
    )
    enums = {
        "ENUM_CUDA_MEMCPY_OPER": [
            (0, "UNKNOWN", "Unknown"),
            (1, "HTOD", "Host-to-Device"),
            (2, "DTOH", "Device-to-Host"),
            (8, "DTOD", "Device-to-Device"),
        ],
        "ENUM_CUDA_MEM_KIND": [(0, "PAGEABLE", "Pageable"), (1, "PINNED", "Pinned"), (2, "DEVICE", "Device")],
        "ENUM_NSYS_EVENT_TYPE": [
            (59, "NvtxPushPopRange", "NVTX Push/Pop"),
            (60, "NvtxStartEndRange", "NVTX Start/End"),
        ],
    }
    for table, rows in enums.items():
        db.execute(f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
        db.executemany(f"INSERT INTO {table} VALUES (?,?,?)", rows)
    db.commit()
    db.close()
    print(f"{a.out}: {n} kernels, {len(r_start)} runtime, {len(v_start)} nvtx, {os.path.getsize(a.out) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
