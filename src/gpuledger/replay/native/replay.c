#include "replay.h"

#include <stdlib.h>

int (*replay_is_over)(void);

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
    for (size_t event = 0; enough && event < events && !replay_ends(event); event++) {
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

/* Scratch of the backward pass, per thread, stream and meeting. */
struct limits {
    int64_t *thread; /* the latest end of a thread's call, by the call after it */
    int64_t *stream; /* the latest end of a stream's operations, by those after them and whoever waits for the stream */
    int64_t *aside;  /* the same for those that were moved to a stream of their own */
    int64_t *reach;  /* of each operation: when its stream must have come past it */
    int64_t *met;    /* the latest time at which those that meet may begin */
    int64_t *last;   /* the last of those that meet, in order; then the one before it */
    int64_t *before;
};

/* The latest start that lets an operation end, and pass, in time. */
static void operation_limit(
    int64_t at, const struct replay_operations *ops, const struct limits *limits, struct replay_latest latest) {
    int32_t stream = ops->stream[at], group = ops->group[at];
    int8_t flags = ops->flags[at];
    int64_t *start = &latest.start[at], *end = &latest.end[at];
    if (flags & ASIDE && !(flags & GONE)) {
        sooner(end, limits->reach[at]), sooner(end, limits->aside[stream]);
    } else {
        sooner(&limits->stream[stream], limits->reach[at]);
        if (!(flags & GONE)) sooner(end, limits->stream[stream]);
    }
    if (flags & GONE) {
        sooner(start, *end);
    } else if (group < 0) {
        sooner(start, *end - ops->duration_ns[at]);
    } else {
        if (limits->last[group] == at) /* all that depends on any of them has been seen */
            for (int64_t member = at; member >= 0; member = limits->before[member]) {
                const int64_t *own = ops->flags[member] & ASIDE ? limits->aside : limits->stream;
                sooner(&latest.end[member], limits->reach[member]), sooner(&latest.end[member], own[ops->stream[member]]);
                sooner(&limits->met[group], latest.end[member] - ops->duration_ns[member]);
            }
        sooner(start, limits->met[group]);
    }
    if (flags & ASIDE && !(flags & GONE)) sooner(&limits->aside[stream], *start);
    sooner(&limits->stream[stream], *start - ops->stream_ns[at]);
    int64_t call = ops->call[at];
    if (call >= 0) sooner(flags & FROM_BEGIN ? &latest.call_begin[call] : &latest.call_end[call], *start - ops->call_ns[at]);
    if (ops->other[at] >= 0) sooner(&latest.end[ops->other[at]], *start - ops->other_ns[at]);
}

int replay_slack(
    const int64_t *order, size_t events, struct replay_calls calls, const int64_t *wait, const int64_t *wait_ns,
    struct replay_operations ops, size_t threads, size_t streams, size_t groups, struct replay_latest latest) {
    int64_t *memory = malloc((threads + 2 * streams + 2 * ops.count + 2 * groups + 1) * sizeof *memory);
    if (!memory) return 0;
    struct limits limits = {.thread = memory};
    limits.stream = limits.thread + threads, limits.aside = limits.stream + streams, limits.met = limits.aside + streams;
    limits.reach = limits.met + groups, limits.last = limits.reach + ops.count, limits.before = limits.last + groups;
    for (int64_t *limit = memory; limit < limits.last; limit++) *limit = NO_LIMIT;
    for (size_t group = 0; group < groups; group++) limits.last[group] = -1;
    for (size_t event = 0; groups && event < events && !replay_ends(event); event++) {
        int64_t at = order[event] >> 2;
        if ((order[event] & 3) != OPERATION || ops.group[at] < 0 || ops.flags[at] & GONE) continue;
        limits.before[at] = limits.last[ops.group[at]], limits.last[ops.group[at]] = at;
    }
    for (size_t event = events; event-- > 0 && !replay_ends(event);) { /* all that depends on an event comes after it in order */
        int64_t at = order[event] >> 2;
        if ((order[event] & 3) == OPERATION) {
            operation_limit(at, &ops, &limits, latest);
            continue;
        }
        sooner(&latest.call_end[at], limits.thread[calls.thread[at]]);
        if ((order[event] & 3) == CALL_ENDS) {
            for (int64_t each = calls.first_wait[at]; each < calls.first_wait[at + 1]; each++)
                sooner(&limits.reach[wait[each]], latest.call_end[at] - wait_ns[each]);
            continue;
        }
        if (calls.queue[at] >= 0 && !calls.blocks[at])
            sooner(&limits.reach[calls.queue[at]], latest.call_end[at] - calls.queue_ns[at]);
        sooner(&latest.call_begin[at], latest.call_end[at] - calls.duration_ns[at]);
        limits.thread[calls.thread[at]] = latest.call_begin[at] - calls.code_ns[at];
        if (calls.after[at] >= 0) sooner(&latest.call_end[calls.after[at]], latest.call_begin[at] - calls.after_ns[at]);
    }
    free(memory);
    return 1;
}

/* The segment from an earlier time, or none where that is no earlier, to the beginning of the last one. */
static void held(struct replay_path *path, int64_t event, int64_t from) {
    size_t at = path->count++;
    path->event[at] = event, path->until[at] = path->now;
    path->from[at] = from < path->now ? from : path->now;
    path->now = path->from[at];
}

/* What an operation's start is due to, as an event, -1 for nothing; and when that was over, if sooner than its start. */
static int64_t held_by(const struct replay_operations *ops, const struct replay_times *times, int64_t at, int64_t *over) {
    int64_t by = times->by[at];
    int64_t from = *over = times->start[at];
    if (by < 0 || times->bound[at] == AT_ITS_TIME) return -1;
    int is_call = times->bound[at] == BY_CALL, begins = ops->flags[at] & FROM_BEGIN;
    from = !is_call ? times->end[by] : begins ? times->call_begin[by] : times->call_end[by];
    if (from < *over) *over = from;
    return by << 2 | (!is_call ? OPERATION : begins ? CALL_BEGINS : CALL_ENDS);
}

static int is_event(int64_t event, size_t calls, size_t operations) {
    return event >= 0 && (size_t)(event >> 2) < ((event & 3) == OPERATION ? operations : calls);
}

void replay_path(
    struct replay_calls calls, struct replay_operations ops, struct replay_times times, int64_t event, int64_t stop,
    struct replay_path *path) {
    size_t most = 2 * calls.count + ops.count;
    while (is_event(event, calls.count, ops.count) && path->now > stop && path->count < most &&
           !replay_ends(path->count)) {
        int64_t at = event >> 2, from, next;
        switch ((enum event)(event & 3)) {
        case OPERATION:
            if (times.bound[at] == BY_RENDEZVOUS) { /* the last to begin held up all that meet */
                held(path, event, times.start[times.by[at]]);
                event = times.by[at] << 2 | OPERATION;
                break;
            }
            next = held_by(&ops, &times, at, &from);
            held(path, event, from);
            event = next;
            break;
        case CALL_ENDS:
            if (times.end_by[at] >= 0) { /* it waited for an operation */
                held(path, event, times.end[times.end_by[at]]);
                event = times.end_by[at] << 2 | OPERATION;
                break;
            } /* fall through */
        case CALL_BEGINS:
            from = times.begin_by[at] >= 0 ? times.call_end[times.begin_by[at]] : times.call_begin[at];
            held(path, at << 2 | CALL_BEGINS, from);
            event = times.begin_by[at] >= 0 ? times.begin_by[at] << 2 | CALL_ENDS : -1;
            break;
        }
    }
}
