/* The forward pass over a dependency graph: when every call and every operation would begin and end.
 *
 * Calls of a thread follow one another with the host's own code between them. An operation begins when its call has put
 * it into its stream, when the stream has come to it, and when whatever else it waits for is over. Events come in an
 * order in which all that one depends on precedes it. What each must equal is written down in forward_pass.py.
 */
#ifndef GPULEDGER_REPLAY_H
#define GPULEDGER_REPLAY_H

#include <stddef.h>
#include <stdint.h>

/* Asked by a pass every so many rows, if it is set: whether to end before it is done, with nothing that could be used. */
extern int (*replay_is_over)(void);

#define ROWS_BETWEEN_LOOKS ((size_t)1 << 22) /* some hundredths of a second */

static inline int replay_ends(size_t row) {
    return row % ROWS_BETWEEN_LOOKS == ROWS_BETWEEN_LOOKS - 1 && replay_is_over && replay_is_over();
}

enum event { CALL_ENDS, CALL_BEGINS, OPERATION };

enum operation_flags { FROM_BEGIN = 1, ASIDE = 2, GONE = 4 };

/* What an operation's beginning is due to. */
enum bound { AT_ITS_TIME, BY_CALL, BY_STREAM, BY_OPERATION, BY_RENDEZVOUS };

struct replay_calls {
    size_t count;
    const int32_t *thread;
    const int64_t *code_ns, *duration_ns; /* the host's own code before it; what it takes by itself */
    const int64_t *after, *after_ns;      /* a call of another thread that hands over to it, -1 for none */
    const int64_t *queue, *queue_ns;      /* the operation that must have ended to leave room, -1 for none */
    const int64_t *first_wait;            /* its waits: from here to the next call's */
    const int8_t *blocks;                 /* whether its end is an event of its own */
};

struct replay_operations {
    size_t count;
    const int64_t *call, *call_ns; /* -1: begins at `call_ns` whatever happens */
    const int32_t *stream;
    const int64_t *stream_ns, *duration_ns;
    const int64_t *other, *other_ns; /* an operation of another stream that it waits for, -1 for none */
    const int32_t *group;            /* those that meet: each ends its duration after the last has begun; -1 for none */
    const int8_t *flags;
};

struct replay_times {
    int64_t *call_begin, *call_end, *begin_by, *end_by; /* by which call it begins, by which operation it ends; -1: its own */
    int64_t *start, *end;
    int64_t *past; /* up to it, the operation of its stream that ends last: who waits for it waits for that one; -1: none */
    int64_t *by;
    int8_t *bound;
};

/* 0 where memory is short, else 1. `times` holds the recorded ones when it begins. */
int replay_forward(
    const int64_t *order, size_t events, struct replay_calls calls, const int64_t *wait, const int64_t *wait_ns,
    struct replay_operations operations, size_t threads, size_t streams, size_t groups, struct replay_times times);

/* A time that nothing depends on has no limit; sums with lags stay far from the ends of the type. */
#define NO_LIMIT ((int64_t)1 << 62)

/* The latest that each may begin and end. */
struct replay_latest {
    int64_t *call_begin, *call_end, *start, *end;
};

/* How late everything may be for those that are limited beforehand to keep their limits; the others begin with NO_LIMIT.
 * 0 where memory is short, else 1. */
int replay_slack(
    const int64_t *order, size_t events, struct replay_calls calls, const int64_t *wait, const int64_t *wait_ns,
    struct replay_operations operations, size_t threads, size_t streams, size_t groups, struct replay_latest latest);

/* Segments, from the last to the first: the event that held the path, from when until when. */
struct replay_path {
    int64_t *event, *from, *until;
    size_t count;
    int64_t now; /* where the last one begins */
};

/* Back from an event at `path->now`, along what bound, to an instant or to where nothing is known to have bound.
 * OPERATION: an operation, with what it waited for its turn; CALL_ENDS: from the end of what a call waited for to its
 * return; CALL_BEGINS: a call, with the host's code before it. Room for two segments per call and one per operation. */
void replay_path(
    struct replay_calls calls, struct replay_operations operations, struct replay_times times, int64_t event, int64_t stop,
    struct replay_path *path);

#endif
