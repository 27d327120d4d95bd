/* Passes over the columns of a trace from which a dependency graph is built. What each must equal is written down in
 * numpy: outer_calls.py, stream_order.py and build.py.
 */
#ifndef GPULEDGER_PREPARE_H
#define GPULEDGER_PREPARE_H

#include <stddef.h>
#include <stdint.h>

struct prepare_outer {
    int64_t *row, *node_of_call;
    int32_t *thread;
    int64_t *begin, *end, *before;
};

/* The outermost calls of each thread in the order of time; how many there are. -1 where calls are not in order, -2
 * where memory is short. */
int64_t prepare_outer(
    const int64_t *start, const int64_t *end, const int32_t *thread, size_t count, size_t threads, struct prepare_outer out);

/* Of each operation the one of its stream that had the latest end so far, when its stream has come past it, and the one
 * so many places before it in its stream; -1 for none. 0 where memory is short, else 1. */
int prepare_streams(
    const int32_t *stream, const int64_t *end, size_t count, size_t streams, size_t distance, int64_t *before,
    int64_t *reach, int64_t *far_before);

struct prepare_lags {
    int8_t *from_begin, *same_launch;
    int64_t *since_call, *since_stream;
};

/* How long each operation began after its call, which `holds` it inside or not, and after the one before it. */
void prepare_lags(
    const int64_t *launch, const int64_t *before, const int64_t *start, const int64_t *end, size_t count,
    const int64_t *call_begin, const int64_t *call_end, const int8_t *holds, struct prepare_lags out);

struct prepare_bound {
    int64_t *due, *call_ns, *stream_ns;
};

/* Whether its call or its stream let each operation begin: that one keeps the lag that was recorded, the other has no
 * more than the usual. `apart` are those that do not follow the one before them. `due`: by how much an operation was due
 * before its start, as a negative number. `never` is a lag that holds nothing up. */
void prepare_bound(
    const int64_t *launch, const int64_t *before, const int64_t *start, size_t count, const int8_t *apart,
    const int64_t *since_call, const int64_t *since_stream, const int64_t *launch_ns, const int64_t *turnaround_ns,
    int64_t never, struct prepare_bound out);

/* Launches into streams that hold many operations. `oldest` must be over for an operation to have room. What `launches`
 * and found room gets that operation into its `queue`; those that found none and took longer than `slow_ns` are listed.
 * How many those are. */
size_t prepare_queue(
    const int64_t *launch, const int64_t *oldest, const int64_t *operation_end, size_t count, const int8_t *launches,
    const int64_t *begin, const int64_t *end, int64_t slow_ns, int64_t *queue, int64_t *full_call, int64_t *full_oldest);

/* Three sorted columns of times as one sequence of events: `ends` with their codes, then begins and starts, whose codes
 * are four times their positions plus 1 and 2. Of equal times in this order. */
void prepare_order(
    const int64_t *end, const int64_t *end_code, size_t ends, const int64_t *begin, size_t begins, const int64_t *start,
    size_t starts, int64_t *order);

#endif
