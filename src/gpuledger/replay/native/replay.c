#include "replay.h"

#include <stdlib.h>

struct tail {
    int64_t end, operation; /* the latest end so far, and whose it is */
    int64_t aside;          /* the same of what was moved to a stream of its own */
};

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When the stream of an operation has come past it. */
static int64_t reached(const struct replay_times *times, int64_t operation) {
    int64_t last = times->past[operation];
    return last >= 0 ? times->end[last] : INT64_MIN / 2;
}

/* An operation ends, and its stream has come past it, or the stream of its own. */
static void pass_end(struct replay_times *times, struct tail *tail, int8_t flags, int64_t at, int64_t end) {
    times->end[at] = end;
    if (flags & ASIDE) {
        tail->aside = end, times->past[at] = at;
        return;
    }
    if (end >= tail->end) tail->end = end, tail->operation = at;
    times->past[at] = tail->operation;
}

int replay_forward(
    const int64_t *order, size_t events, struct replay_calls calls, const int64_t *wait, const int64_t *wait_ns,
    struct replay_operations ops, size_t threads, size_t streams, size_t groups, struct replay_times times) {
    int64_t *last_call = malloc((threads + 1) * sizeof *last_call);
    struct tail *tails = malloc((streams + 1) * sizeof *tails);
    int64_t *met = calloc(groups + 1, sizeof *met), *first = malloc((groups + 1) * sizeof *first);
    int64_t *missing = calloc(groups + 1, sizeof *missing), *next = NULL;
    int enough = last_call && tails && met && first && missing;
    if (enough && groups) enough = (next = malloc((ops.count + 1) * sizeof *next)) != NULL;
    if (enough) {
        for (size_t thread = 0; thread < threads; thread++) last_call[thread] = -1;
        for (size_t stream = 0; stream < streams; stream++) tails[stream] = (struct tail){INT64_MIN / 2, -1, INT64_MIN / 2};
        for (size_t group = 0; group < groups; group++) met[group] = INT64_MIN / 2, first[group] = -1;
        for (size_t op = 0; groups && op < ops.count; op++)
            if (ops.group[op] >= 0 && !(ops.flags[op] & GONE)) missing[ops.group[op]]++;
    }
    for (size_t event = 0; enough && event < events; event++) {
        int64_t at = order[event] >> 2;
        switch ((enum event)(order[event] & 3)) {
        case CALL_BEGINS: {
            int64_t before = last_call[calls.thread[at]], begin = calls.code_ns[at], by = before;
            if (before >= 0) begin += times.call_end[before];
            if (calls.after[at] >= 0) {
                int64_t handed = times.call_end[calls.after[at]] + calls.after_ns[at];
                if (handed > begin || before < 0) begin = handed, by = calls.after[at];
            }
            last_call[calls.thread[at]] = at;
            times.call_begin[at] = begin;
            times.begin_by[at] = by;
            times.end_by[at] = -1;
            int64_t end = begin + calls.duration_ns[at];
            if (calls.queue[at] >= 0) {
                int64_t room = reached(&times, calls.queue[at]) + calls.queue_ns[at];
                if (room > end) end = room, times.end_by[at] = times.past[calls.queue[at]];
            }
            times.call_end[at] = end;
            break;
        }
        case CALL_ENDS: {
            int64_t end = times.call_begin[at] + calls.duration_ns[at];
            for (int64_t each = calls.first_wait[at]; each < calls.first_wait[at + 1]; each++) {
                int64_t over = reached(&times, wait[each]) + wait_ns[each];
                if (over > end) end = over, times.end_by[at] = times.past[wait[each]];
            }
            times.call_end[at] = end;
            break;
        }
        case OPERATION: {
            struct tail *tail = &tails[ops.stream[at]];
            int64_t start = ops.call_ns[at], by = -1;
            int8_t bound = AT_ITS_TIME, flags = ops.flags[at];
            if (ops.call[at] >= 0) {
                start += flags & FROM_BEGIN ? times.call_begin[ops.call[at]] : times.call_end[ops.call[at]];
                bound = BY_CALL, by = ops.call[at];
            }
            if (tail->operation >= 0 && tail->end + ops.stream_ns[at] > start)
                start = tail->end + ops.stream_ns[at], bound = BY_STREAM, by = tail->operation;
            if (ops.other[at] >= 0 && times.end[ops.other[at]] + ops.other_ns[at] > start)
                start = times.end[ops.other[at]] + ops.other_ns[at], bound = BY_OPERATION, by = ops.other[at];
            times.bound[at] = bound, times.by[at] = by;
            if (flags & GONE) { /* whoever waits for it waits for what came before it */
                times.start[at] = times.end[at] = start;
                times.past[at] = tail->operation;
                break;
            }
            if (flags & ASIDE) start = later(start, tail->aside);
            times.start[at] = start;
            int32_t group = ops.group[at];
            if (group < 0) {
                pass_end(&times, tail, flags, at, start + ops.duration_ns[at]);
                break;
            }
            next[at] = first[group], first[group] = at;
            met[group] = later(met[group], start);
            if (--missing[group]) break;
            int64_t latest = at; /* to begin */
            for (int64_t member = first[group]; member >= 0; member = next[member])
                if (times.start[member] == met[group]) latest = member;
            for (int64_t member = first[group]; member >= 0; member = next[member]) {
                int64_t end = met[group] + ops.duration_ns[member];
                if (times.start[member] < met[group]) times.bound[member] = BY_RENDEZVOUS, times.by[member] = latest;
                pass_end(&times, &tails[ops.stream[member]], ops.flags[member], member, end);
            }
            break;
        }
        }
    }
    free(last_call), free(tails), free(met), free(first), free(missing), free(next);
    return enough;
}

static void sooner(int64_t *latest, int64_t value) {
    if (value < *latest) *latest = value;
}

int replay_slack(
    const int64_t *order, size_t events, struct replay_calls calls, const int64_t *wait, const int64_t *wait_ns,
    struct replay_operations ops, size_t threads, size_t streams, struct replay_times times, int64_t last,
    int64_t *call_slack, int64_t *slack) {
    /* the latest end that each may have; walked backward, so that all that depend on it came before */
    int64_t *next_call = malloc((threads + 1) * sizeof *next_call), *stream_limit = malloc((streams + 1) * sizeof *stream_limit);
    int enough = next_call && stream_limit;
    int64_t limit = last >= 0 ? times.end[last] : 0;
    for (size_t thread = 0; enough && thread < threads; thread++) next_call[thread] = limit;
    for (size_t stream = 0; enough && stream < streams; stream++) stream_limit[stream] = limit;
    for (size_t at = 0; at < calls.count; at++) call_slack[at] = INT64_MAX;
    for (size_t at = 0; at < ops.count; at++) slack[at] = limit;
    for (size_t event = events; enough && event-- > 0;) {
        int64_t at = order[event] >> 2;
        switch ((enum event)(order[event] & 3)) {
        case OPERATION: {
            int8_t flags = ops.flags[at];
            if (flags & GONE) {
                slack[at] = INT64_MAX;
                break;
            }
            if (!(flags & ASIDE)) sooner(&slack[at], stream_limit[ops.stream[at]]);
            /* a rendezvous of several is left with the slack of its own successors */
            int64_t start = slack[at] - (times.end[at] - times.start[at]);
            if (!(flags & ASIDE)) sooner(&stream_limit[ops.stream[at]], start - ops.stream_ns[at]);
            if (ops.call[at] >= 0) {
                int64_t call = ops.call[at], most = start - ops.call_ns[at];
                if (flags & FROM_BEGIN) most += calls.duration_ns[call];
                sooner(&call_slack[call], most);
            }
            if (ops.other[at] >= 0) sooner(&slack[ops.other[at]], start - ops.other_ns[at]);
            slack[at] -= times.end[at];
            break;
        }
        case CALL_ENDS:
        case CALL_BEGINS: {
            int ends = (order[event] & 3) == CALL_ENDS;
            sooner(&call_slack[at], next_call[calls.thread[at]]);
            if (ends) {
                for (int64_t each = calls.first_wait[at]; each < calls.first_wait[at + 1]; each++)
                    if (times.past[wait[each]] >= 0) sooner(&slack[times.past[wait[each]]], call_slack[at] - wait_ns[each]);
                break;
            }
            if (calls.queue[at] >= 0 && times.past[calls.queue[at]] >= 0)
                sooner(&slack[times.past[calls.queue[at]]], call_slack[at] - calls.queue_ns[at]);
            int64_t begin = call_slack[at] - calls.duration_ns[at];
            next_call[calls.thread[at]] = begin - calls.code_ns[at];
            if (calls.after[at] >= 0) sooner(&call_slack[calls.after[at]], begin - calls.after_ns[at]);
            call_slack[at] -= times.call_end[at];
            break;
        }
        }
    }
    free(next_call), free(stream_limit);
    return enough;
}

size_t replay_path(
    struct replay_calls calls, struct replay_operations ops, struct replay_times times, int64_t last, int64_t *code,
    int64_t *from, int64_t *until) {
    size_t count = 0, most = 2 * calls.count + ops.count;
    int64_t now = last >= 0 ? times.end[last] : 0, at = last;
    int is_call = 0;
    while (at >= 0 && count + 2 < most + 2) {
        if (!is_call) { /* an operation, with what it waited for its turn */
            int64_t by = times.by[at];
            int8_t bound = times.bound[at];
            if (bound == BY_RENDEZVOUS) { /* the last to begin is on the path, from there on the meeting */
                code[count] = at << 2 | OPERATION, from[count] = times.start[by], until[count] = now, count++;
                now = times.start[by], at = by;
                by = times.by[at], bound = times.bound[at];
                if (bound == BY_RENDEZVOUS) break;
            }
            int64_t before = bound == BY_CALL     ? (ops.flags[at] & FROM_BEGIN ? times.call_begin[by] : times.call_end[by])
                             : bound == AT_ITS_TIME ? times.start[at]
                                                    : times.end[by];
            code[count] = at << 2 | OPERATION, from[count] = before < now ? before : now, until[count] = now, count++;
            now = from[count - 1];
            if (bound == AT_ITS_TIME) break;
            is_call = bound == BY_CALL;
            if (is_call && ops.flags[at] & FROM_BEGIN) { /* go on before the call */
                int64_t call = by;
                code[count] = call << 2 | CALL_BEGINS, until[count] = now;
                by = times.begin_by[call];
                from[count] = by >= 0 ? times.call_end[by] : times.call_begin[call];
                now = from[count], count++;
                at = by;
            } else {
                at = by;
            }
            continue;
        }
        if (times.end_by[at] >= 0) { /* it waited for an operation */
            int64_t by = times.end_by[at];
            code[count] = at << 2 | CALL_ENDS, from[count] = times.end[by], until[count] = now, count++;
            now = times.end[by], at = by, is_call = 0;
            continue;
        }
        int64_t by = times.begin_by[at];
        code[count] = at << 2 | CALL_BEGINS, until[count] = now;
        from[count] = by >= 0 ? times.call_end[by] : times.call_begin[at];
        now = from[count], count++;
        at = by;
    }
    return count;
}
