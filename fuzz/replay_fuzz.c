/* A harness for libFuzzer: any bytes as a program of calls and operations, through prepare.c and replay.c.
 *
 * Four bytes are one thing that happens: a thread calls, a call returns, an operation is put into a stream. Each depends
 * on earlier ones only, as forward_pass.py has it. Every buffer is exactly as long as the headers ask for. Checked beside
 * what the sanitizers see: what has limits at its own times has none that it breaks, a path goes back without a gap, and
 * the passes that prepare give positions that lie in their tables.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/gpuledger/replay/native/prepare.h"
#include "../src/gpuledger/replay/native/replay.h"

enum { THREADS = 3, STREAMS = 4, GROUPS = 5 };

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void *room(size_t count, size_t each) {
    void *made = calloc(count ? count : 1, each);
    must(made != NULL, "there is memory");
    return made;
}

#define ROOM(name, count) int64_t *name = room(count, sizeof *name)

static int64_t some_before(uint8_t byte, size_t count) { return count && byte % 4 ? (int64_t)(count - 1 - byte % count) : -1; }

static void replayed(const uint8_t *bytes, size_t steps, int meets, int64_t unit) {
    ROOM(order, 2 * steps);
    ROOM(code_ns, steps); ROOM(call_ns, steps); ROOM(after, steps); ROOM(after_ns, steps);
    ROOM(queue, steps); ROOM(queue_ns, steps); ROOM(first_wait, steps + 1); ROOM(wait, steps); ROOM(wait_ns, steps);
    ROOM(op_call, steps); ROOM(op_call_ns, steps); ROOM(stream_ns, steps); ROOM(op_ns, steps); ROOM(other, steps); ROOM(other_ns, steps);
    int32_t *thread = room(steps, 4), *stream = room(steps, 4), *group = room(steps, 4);
    int8_t *blocks = room(steps, 1), *flags = room(steps, 1);
    size_t events = 0, calls = 0, ops = 0, waits = 0;
    for (size_t at = 0; at < steps; at++) {
        const uint8_t *own = bytes + 4 * at;
        if (own[0] % 2) {
            thread[calls] = own[0] / 2 % THREADS, code_ns[calls] = own[1] * unit, call_ns[calls] = own[2] * unit;
            after[calls] = own[3] < 32 ? some_before(own[1], calls) : -1, after_ns[calls] = own[2] % 8;
            blocks[calls] = own[3] > 192 && ops;
            queue[calls] = blocks[calls] || own[3] < 160 ? -1 : some_before(own[2], ops), queue_ns[calls] = own[3] % 16;
            first_wait[calls] = (int64_t)waits;
            order[events++] = (int64_t)calls << 2 | CALL_BEGINS;
            if (blocks[calls]) {
                wait[waits] = (int64_t)(ops - 1 - own[1] % ops), wait_ns[waits++] = own[2] % 8;
                order[events++] = (int64_t)calls << 2 | CALL_ENDS;
            }
            calls++;
        } else {
            op_call[ops] = some_before(own[1], calls), op_call_ns[ops] = own[1] * unit, stream[ops] = own[0] / 2 % STREAMS;
            stream_ns[ops] = own[2] % 16, op_ns[ops] = own[2] * unit, other[ops] = some_before(own[3], ops), other_ns[ops] = own[3] % 8;
            group[ops] = meets && own[3] > 128 ? own[3] % GROUPS : -1;
            flags[ops] = (int8_t)(own[3] % 8);
            order[events++] = (int64_t)ops++ << 2 | OPERATION;
        }
    }
    first_wait[calls] = (int64_t)waits;
    struct replay_calls host = {calls, thread, code_ns, call_ns, after, after_ns, queue, queue_ns, first_wait, blocks};
    struct replay_operations gpu = {ops, op_call, op_call_ns, stream, stream_ns, op_ns, other, other_ns, group, flags};
    struct replay_times times = {room(calls, 8), room(calls, 8), room(calls, 8), room(calls, 8), room(ops, 8),
                                 room(ops, 8),   room(ops, 8),   room(ops, 8),   room(ops, 1)};
    for (size_t op = 0; op < ops; op++) times.past[op] = -1, times.by[op] = -1;
    must(replay_forward(order, events, host, wait, wait_ns, gpu, THREADS, STREAMS, GROUPS, times), "there is memory");

    struct replay_latest latest = {room(calls, 8), room(calls, 8), room(ops, 8), room(ops, 8)};
    for (size_t call = 0; call < calls; call++) latest.call_begin[call] = NO_LIMIT, latest.call_end[call] = times.call_end[call];
    for (size_t op = 0; op < ops; op++) latest.start[op] = NO_LIMIT, latest.end[op] = times.end[op];
    must(replay_slack(order, events, host, wait, wait_ns, gpu, THREADS, STREAMS, GROUPS, latest), "there is memory");
    for (size_t op = 0; op < ops && !meets; op++)
        must(latest.end[op] >= times.end[op] && latest.start[op] >= times.start[op], "what is on time keeps its limits");
    for (size_t call = 0; call < calls && !meets; call++)
        must(latest.call_end[call] >= times.call_end[call] && latest.call_begin[call] >= times.call_begin[call], "and so do calls");

    size_t most = 2 * calls + ops;
    struct replay_path path = {room(most, 8), room(most, 8), room(most, 8), 0, INT64_MAX / 4};
    if (events) replay_path(host, gpu, times, order[events - 1], -1, &path);
    must(path.count <= most, "a path has room");
    for (size_t at = 0; at < path.count; at++)
        must(path.from[at] <= path.until[at] && (!at || path.until[at] == path.from[at - 1]), "a path has no gap");

    void *held[] = {order, code_ns, call_ns, after, after_ns, queue, queue_ns, first_wait, wait, wait_ns, op_call, op_call_ns,
                    stream_ns, op_ns, other, other_ns, thread, stream, group, blocks, flags, times.call_begin, times.call_end,
                    times.begin_by, times.end_by, times.start, times.end, times.past, times.by, times.bound,
                    latest.call_begin, latest.call_end, latest.start, latest.end, path.event, path.from, path.until};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) free(held[at]);
}

static void prepared(const uint8_t *bytes, size_t count, int64_t unit) {
    ROOM(start, count); ROOM(end, count); ROOM(row, count); ROOM(node, count); ROOM(begin, count); ROOM(over, count); ROOM(before, count);
    ROOM(reach, count); ROOM(far, count); ROOM(launch, count); ROOM(since_call, count); ROOM(since_stream, count);
    ROOM(due, count); ROOM(of_call, count); ROOM(of_stream, count); ROOM(full, count); ROOM(oldest, count); ROOM(codes, count); ROOM(order, 3 * count);
    int32_t *thread = room(count, 4), *outer_thread = room(count, 4);
    int8_t *holds = room(count, 1), *from_begin = room(count, 1), *same = room(count, 1);
    int64_t now = -1000;
    for (size_t at = 0; at < count; at++) {
        const uint8_t *own = bytes + 4 * at;
        start[at] = now += own[1] % 8 * unit;
        end[at] = start[at] + (own[2] % 32 - 2) * unit, thread[at] = own[0] % THREADS, holds[at] = own[3] & 1;
    }
    int64_t found = prepare_outer(start, end, thread, count, THREADS, (struct prepare_outer){row, node, outer_thread, begin, over, before});
    must(found >= -1 && found <= (int64_t)count, "outer calls are calls");
    for (int64_t at = 0; at < found; at++)
        must(row[at] >= 0 && row[at] < (int64_t)count && before[at] < at && begin[at] <= over[at], "an outer call lies in its table");
    for (size_t at = 0; at < count; at++)
        launch[at] = found > 0 && bytes[4 * at + 3] % 5 ? bytes[4 * at + 3] % found : -1;
    must(prepare_streams(thread, end, count, THREADS, 1 + bytes[0] % 8, before, reach, far), "there is memory");
    for (size_t at = 0; at < count; at++) must(before[at] < (int64_t)at && far[at] < (int64_t)at, "what came before");
    prepare_lags(launch, before, start, end, count, begin, over, holds, (struct prepare_lags){from_begin, same, since_call, since_stream});
    prepare_bound(launch, before, start, count, same, since_call, since_stream, start, end, -((int64_t)1 << 60), (struct prepare_bound){due, of_call, of_stream});
    size_t listed = prepare_queue(launch, far, end, count, holds, begin, over, unit, reach, full, oldest);
    must(listed <= count, "no more full queues than operations");
    for (size_t at = 0; at < count; at++) codes[at] = (int64_t)at << 2 | CALL_ENDS;
    prepare_order(start, codes, count, start, count, start, count, order);
    for (size_t at = 0; at < 3 * count; at++) must(order[at] >= 0 && order[at] >> 2 < (int64_t)count, "an event's place");
    void *held[] = {start, end, row, node, begin, over, before, reach, far, launch, since_call, since_stream, due, of_call, of_stream,
                    full, oldest, codes, order, thread, outer_thread, holds, from_begin, same};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) free(held[at]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    size_t steps = size > 1 ? (size - 1) / 4 : 0;
    if (steps == 0 || steps > 4096) return 0;
    int64_t unit = bytes[0] & 2 ? (int64_t)1 << 40 : 1;
    replayed(bytes + 1, steps, bytes[0] & 1, unit);
    prepared(bytes + 1, steps, unit);
    return 0;
}
