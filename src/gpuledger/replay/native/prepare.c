#include "prepare.h"

#include <stdlib.h>

#include "replay.h"

struct thread_state {
    int64_t last_start, last_end; /* of its last call */
    int64_t reach, node;          /* of its last outermost call */
};

int64_t prepare_outer(
    const int64_t *start, const int64_t *end, const int32_t *thread, size_t count, size_t threads, struct prepare_outer out) {
    struct thread_state *states = malloc((threads + 1) * sizeof *states);
    if (!states) return -2;
    for (size_t number = 0; number < threads; number++) states[number] = (struct thread_state){INT64_MIN, INT64_MAX, 0, -1};
    int64_t found = 0;
    for (size_t at = 0; at < count && !replay_ends(at); at++) {
        struct thread_state *own = &states[thread[at]];
        if (start[at] < own->last_start || (start[at] == own->last_start && end[at] > own->last_end)) {
            found = -1;
            break;
        }
        own->last_start = start[at], own->last_end = end[at];
        if (own->node < 0 || end[at] > own->reach) {
            int64_t begin = own->node >= 0 && own->reach > start[at] ? own->reach : start[at];
            if (found && begin < out.begin[found - 1]) {
                found = -1;
                break;
            }
            out.row[found] = (int64_t)at, out.thread[found] = thread[at];
            out.begin[found] = begin, out.end[found] = end[at] > begin ? end[at] : begin;
            out.before[found] = own->node;
            own->reach = end[at], own->node = found++;
        }
        out.node_of_call[at] = own->node;
    }
    free(states);
    return found;
}

struct stream_state {
    int64_t end, operation; /* the latest end so far, and whose it is */
    int64_t last, oldest;   /* its last operation; the one that is `distance` before it */
    size_t seen;
};

int prepare_streams(
    const int32_t *stream, const int64_t *end, size_t count, size_t streams, size_t distance, int64_t *before,
    int64_t *reach, int64_t *far_before) {
    struct stream_state *states = malloc((streams + 1) * sizeof *states);
    int64_t *next = malloc((count + 1) * sizeof *next); /* in the same stream */
    int enough = states && next;
    for (size_t number = 0; enough && number < streams; number++) states[number] = (struct stream_state){0, -1, -1, -1, 0};
    for (size_t at = 0; enough && at < count && !replay_ends(at); at++) {
        struct stream_state *own = &states[stream[at]];
        before[at] = own->operation;
        if (own->operation < 0 || end[at] >= own->end) own->end = end[at], own->operation = (int64_t)at;
        reach[at] = own->end;
        if (own->last >= 0) next[own->last] = (int64_t)at;
        else own->oldest = (int64_t)at;
        own->last = (int64_t)at;
        far_before[at] = -1;
        if (own->seen++ >= distance) far_before[at] = own->oldest, own->oldest = next[own->oldest];
    }
    free(states), free(next);
    return enough;
}

void prepare_lags(
    const int64_t *launch, const int64_t *before, const int64_t *start, const int64_t *end, size_t count,
    const int64_t *call_begin, const int64_t *call_end, const int8_t *holds, struct prepare_lags out) {
    for (size_t at = 0; at < count && !replay_ends(at); at++) {
        int64_t call = launch[at], previous = before[at];
        int same = previous >= 0 && call >= 0 && launch[previous] == call;
        int inside = call >= 0 && start[at] < call_end[call] && (holds[call] || same);
        out.same_launch[at] = (int8_t)same, out.from_begin[at] = (int8_t)inside;
        out.since_call[at] = call < 0 ? 0 : start[at] - (inside ? call_begin[call] : call_end[call]);
        out.since_stream[at] = previous < 0 ? 0 : start[at] - end[previous];
    }
}

static int64_t less(int64_t a, int64_t b) { return a < b ? a : b; }

void prepare_bound(
    const int64_t *launch, const int64_t *before, const int64_t *start, size_t count, const int8_t *apart,
    const int64_t *since_call, const int64_t *since_stream, const int64_t *launch_ns, const int64_t *turnaround_ns,
    int64_t never, struct prepare_bound out) {
    for (size_t at = 0; at < count && !replay_ends(at); at++) {
        int launched = launch[at] >= 0, follows = before[at] >= 0 && !apart[at];
        int64_t by_call = launched ? launch_ns[at] - since_call[at] : never;
        int64_t by_stream = follows ? turnaround_ns[at] - since_stream[at] : never;
        int call_binds = launched && by_call >= by_stream;
        out.due[at] = by_call > by_stream ? by_call : by_stream;
        out.call_ns[at] = !launched  ? (follows ? never : start[at])
                          : call_binds ? since_call[at]
                                       : less(launch_ns[at], since_call[at]);
        out.stream_ns[at] = !follows                  ? never
                            : call_binds ? less(turnaround_ns[at], since_stream[at])
                                                      : since_stream[at];
    }
}

size_t prepare_queue(
    const int64_t *launch, const int64_t *oldest, const int64_t *operation_end, size_t count, const int8_t *launches,
    const int64_t *begin, const int64_t *end, int64_t slow_ns, int64_t *queue, int64_t *full_call, int64_t *full_oldest) {
    size_t full = 0;
    for (size_t at = 0; at < count && !replay_ends(at); at++) {
        int64_t call = launch[at];
        if (call < 0 || oldest[at] < 0 || !launches[call]) continue;
        int64_t room = operation_end[oldest[at]];
        if (room <= begin[call]) {
            queue[call] = oldest[at];
        } else if (room <= end[call] && end[call] - begin[call] > slow_ns) {
            full_call[full] = call, full_oldest[full++] = oldest[at];
        }
    }
    return full;
}

void prepare_order(
    const int64_t *end, const int64_t *end_code, size_t ends, const int64_t *begin, size_t begins, const int64_t *start,
    size_t starts, int64_t *order) {
    size_t ended = 0, begun = 0, started = 0;
    while ((ended < ends || begun < begins || started < starts) && !replay_ends(ended + begun + started)) {
        int64_t first_begin = begun < begins ? begin[begun] : INT64_MAX;
        int64_t first_start = started < starts ? start[started] : INT64_MAX;
        if (ended < ends && end[ended] <= first_begin && end[ended] <= first_start) {
            *order++ = end_code[ended++];
        } else if (begun < begins && first_begin <= first_start) {
            *order++ = (int64_t)begun++ << 2 | CALL_BEGINS;
        } else if (started < starts) {
            *order++ = (int64_t)started++ << 2 | OPERATION;
        } else {
            *order++ = end_code[ended++];
        }
    }
}
