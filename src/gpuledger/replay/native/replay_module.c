/* The Python side of replay.c: gpuledger.replay.native._replay, in the stable ABI. Columns are contiguous buffers. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <string.h>

#include "prepare.h"
#include "replay.h"
#include "../../trace/native/watched.h"

#define MOST_COLUMNS 40

static const char GRAPH[] = "q" "iqqqqqqqb" "qq" "qqiqqqqib"; /* order; calls; waits; operations */
static const char TIMES[] = "qqqq" "qqqqb";
static const char LATEST[] = "qqqq";

struct columns {
    Py_buffer held[MOST_COLUMNS];
    int count;
};

static void release(struct columns *columns) {
    while (columns->count) PyBuffer_Release(&columns->held[--columns->count]);
}

/* Hold as many arguments as the three texts name, the last two for writing: q is a column of 64-bit integers, i of 32, b of 8. */
static int hold(PyObject *arguments, const char *graph, const char *times, const char *into, struct columns *columns) {
    char formats[MOST_COLUMNS + 1];
    snprintf(formats, sizeof formats, "%s%s%s", graph, times, into);
    columns->count = 0;
    for (int at = 0; formats[at]; at++) {
        PyObject *each = PyTuple_GetItem(arguments, at);
        Py_buffer *buffer = &columns->held[at];
        int write = at >= (int)strlen(graph);
        if (!each || PyObject_GetBuffer(each, buffer, PyBUF_C_CONTIGUOUS | (write ? PyBUF_WRITABLE : 0))) break;
        columns->count++;
        if (buffer->itemsize != (formats[at] == 'q' ? 8 : formats[at] == 'i' ? 4 : 1)) {
            PyErr_SetString(PyExc_ValueError, "a column of other integers");
            break;
        }
    }
    if (!PyErr_Occurred()) return 1;
    release(columns);
    return 0;
}

static size_t rows(const struct columns *columns, int at) {
    return (size_t)(columns->held[at].len / columns->held[at].itemsize);
}

static struct replay_calls calls_of(const struct columns *columns) {
    void *at[9];
    for (int each = 0; each < 9; each++) at[each] = columns->held[1 + each].buf;
    return (struct replay_calls){rows(columns, 1), at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
}

static struct replay_operations operations_of(const struct columns *columns) {
    void *at[9];
    for (int each = 0; each < 9; each++) at[each] = columns->held[12 + each].buf;
    return (struct replay_operations){rows(columns, 12), at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
}

static struct replay_times times_of(const struct columns *columns) {
    void *at[9];
    for (int each = 0; each < 9; each++) at[each] = columns->held[21 + each].buf;
    return (struct replay_times){at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
}

static int inside(int64_t value, int64_t least, size_t count) { return value >= least && value < (int64_t)count; }

/* Whether so many columns after the graph's have a row per call, and then so many one per operation. */
static int rows_fit(const struct columns *columns, int per_call, int per_operation) {
    int fits = 1;
    for (int at = 21; at < 21 + per_call; at++) fits &= rows(columns, at) == rows(columns, 1);
    for (int at = 21 + per_call; at < 21 + per_call + per_operation; at++) fits &= rows(columns, at) == rows(columns, 12);
    return fits;
}

/* Whether all times are there, and say of operations up to which their stream has come. */
static int times_fit(const struct columns *columns) {
    int fits = rows_fit(columns, 4, 5);
    const int64_t *past = columns->held[27].buf;
    for (size_t at = 0; fits && at < rows(columns, 12); at++) fits &= inside(past[at], -1, rows(columns, 12));
    return fits;
}

/* Whether the graph's columns belong together and every position lies in its column; else an error is set. */
static int fit(const struct columns *columns, size_t threads, size_t streams, size_t groups, int rows_are_right) {
    struct replay_calls calls = calls_of(columns);
    struct replay_operations ops = operations_of(columns);
    const int64_t *order = columns->held[0].buf, *wait = columns->held[10].buf;
    int fits = rows_are_right && rows(columns, 8) == calls.count + 1 && rows(columns, 11) == rows(columns, 10);
    for (int at = 1; at < 10; at++) fits &= at == 8 || rows(columns, at) == calls.count;
    for (int at = 12; at < 21; at++) fits &= rows(columns, at) == ops.count;
    for (size_t at = 0; fits && at < rows(columns, 0); at++)
        fits &= (order[at] & 3) < 3 && inside(order[at] >> 2, 0, (order[at] & 3) == OPERATION ? ops.count : calls.count);
    for (size_t at = 0; fits && at < calls.count; at++)
        fits &= inside(calls.thread[at], 0, threads) && inside(calls.after[at], -1, calls.count) &&
                inside(calls.queue[at], -1, ops.count) && calls.first_wait[at] <= calls.first_wait[at + 1];
    if (fits && calls.count) fits &= calls.first_wait[0] >= 0 && calls.first_wait[calls.count] <= (int64_t)rows(columns, 10);
    for (size_t at = 0; fits && at < rows(columns, 10); at++) fits &= inside(wait[at], 0, ops.count);
    for (size_t at = 0; fits && at < ops.count; at++)
        fits &= inside(ops.call[at], -1, calls.count) && inside(ops.stream[at], 0, streams) &&
                inside(ops.other[at], -1, ops.count) && inside(ops.group[at], -1, groups);
    if (!fits) PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    return fits;
}

static int numbers(PyObject *arguments, int first, int count, long long *values) {
    for (int at = 0; at < count; at++) {
        PyObject *each = PyTuple_GetItem(arguments, first + at);
        if (!each) return 0;
        values[at] = PyLong_AsLongLong(each);
        if (PyErr_Occurred()) return 0;
    }
    return 1;
}

static PyObject *forward(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long sizes[3]; /* threads, streams, groups */
    (void)self;
    if (!numbers(arguments, 30, 3, sizes) || !hold(arguments, GRAPH, TIMES, "", &columns)) return NULL;
    int enough = 0, fits;
    fits = fit(&columns, (size_t)sizes[0], (size_t)sizes[1], (size_t)sizes[2], times_fit(&columns));
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        enough = replay_forward(
            columns.held[0].buf, rows(&columns, 0), calls_of(&columns), columns.held[10].buf, columns.held[11].buf,
            operations_of(&columns), (size_t)sizes[0], (size_t)sizes[1], (size_t)sizes[2], times_of(&columns));
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    if (!enough) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *slack(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long sizes[3]; /* threads, streams, groups */
    (void)self;
    if (!numbers(arguments, 25, 3, sizes) || !hold(arguments, GRAPH, "", LATEST, &columns)) return NULL;
    int enough = 0, fits = fit(&columns, (size_t)sizes[0], (size_t)sizes[1], (size_t)sizes[2], rows_fit(&columns, 2, 2));
    if (fits) {
        struct replay_latest latest = {
            columns.held[21].buf, columns.held[22].buf, columns.held[23].buf, columns.held[24].buf};
        Py_BEGIN_ALLOW_THREADS
        enough = replay_slack(
            columns.held[0].buf, rows(&columns, 0), calls_of(&columns), columns.held[10].buf, columns.held[11].buf,
            operations_of(&columns), (size_t)sizes[0], (size_t)sizes[1], (size_t)sizes[2], latest);
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    if (!enough) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *path(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long where[3]; /* the event to begin with, its time, where to stop */
    (void)self;
    if (!numbers(arguments, 33, 3, where) || !hold(arguments, GRAPH, TIMES, "qqq", &columns)) return NULL;
    size_t calls = rows(&columns, 1), operations = rows(&columns, 12);
    int fits = rows_fit(&columns, 4, 5) && rows(&columns, 20) == operations && (where[0] & 3) < 3 &&
               inside(where[0] >> 2, 0, (where[0] & 3) == OPERATION ? operations : calls);
    for (int at = 30; at < 33; at++) fits &= rows(&columns, at) >= 2 * calls + operations;
    struct replay_path back = {columns.held[30].buf, columns.held[31].buf, columns.held[32].buf, 0, where[1]};
    if (fits) replay_path(calls_of(&columns), operations_of(&columns), times_of(&columns), where[0], where[2], &back);
    else PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    release(&columns);
    return fits ? PyLong_FromSize_t(back.count) : NULL;
}

static int belong(int fits) {
    if (!fits) PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    return fits;
}

/* Whether columns `first` to `last` have so many rows. */
static int long_as(const struct columns *columns, int first, int last, size_t count) {
    int fits = 1;
    for (int at = first; at <= last; at++) fits &= rows(columns, at) == count;
    return fits;
}

static int all_inside(const struct columns *columns, int at, long long most) {
    const int32_t *values = columns->held[at].buf;
    int fits = 1;
    for (size_t row = 0; row < rows(columns, at); row++) fits &= values[row] >= 0 && values[row] < most;
    return fits;
}

static PyObject *outer(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long threads;
    (void)self;
    if (!numbers(arguments, 9, 1, &threads) || !hold(arguments, "qqi", "qqiqqq", "", &columns)) return NULL;
    size_t count = rows(&columns, 0);
    int64_t found = 0;
    int fits = belong(long_as(&columns, 1, 8, count) && all_inside(&columns, 2, threads));
    if (fits) {
        void *at[9];
        for (int each = 0; each < 9; each++) at[each] = columns.held[each].buf;
        Py_BEGIN_ALLOW_THREADS
        found = prepare_outer(
            at[0], at[1], at[2], count, (size_t)threads, (struct prepare_outer){at[3], at[4], at[5], at[6], at[7], at[8]});
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    return found == -2 ? PyErr_NoMemory() : PyLong_FromLongLong(found);
}

static PyObject *streams(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long sizes[2]; /* streams, the distance */
    (void)self;
    if (!numbers(arguments, 5, 2, sizes) || !hold(arguments, "iq", "qqq", "", &columns)) return NULL;
    size_t count = rows(&columns, 0);
    int enough = 0, fits = belong(long_as(&columns, 1, 4, count) && all_inside(&columns, 0, sizes[0]) && sizes[1] > 0);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        enough = prepare_streams(
            columns.held[0].buf, columns.held[1].buf, count, (size_t)sizes[0], (size_t)sizes[1], columns.held[2].buf,
            columns.held[3].buf, columns.held[4].buf);
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    if (!enough) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *lags(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, "qqqqqqb", "bbqq", "", &columns)) return NULL;
    size_t count = rows(&columns, 0), calls = rows(&columns, 4);
    const int64_t *launch = columns.held[0].buf, *before = columns.held[1].buf;
    int fits = long_as(&columns, 1, 3, count) && long_as(&columns, 5, 6, calls) && long_as(&columns, 7, 10, count);
    for (size_t at = 0; fits && at < count; at++) fits &= inside(launch[at], -1, calls) && inside(before[at], -1, count);
    if (belong(fits)) {
        void *at[11];
        for (int each = 0; each < 11; each++) at[each] = columns.held[each].buf;
        Py_BEGIN_ALLOW_THREADS
        prepare_lags(
            at[0], at[1], at[2], at[3], count, at[4], at[5], at[6], (struct prepare_lags){at[7], at[8], at[9], at[10]});
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    Py_RETURN_NONE;
}

static PyObject *bound(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long never;
    (void)self;
    if (!numbers(arguments, 11, 1, &never) || !hold(arguments, "qqqbqqqq", "qqq", "", &columns)) return NULL;
    size_t count = rows(&columns, 0);
    int fits = belong(long_as(&columns, 1, 10, count));
    if (fits) {
        void *at[11];
        for (int each = 0; each < 11; each++) at[each] = columns.held[each].buf;
        Py_BEGIN_ALLOW_THREADS
        prepare_bound(
            at[0], at[1], at[2], count, at[3], at[4], at[5], at[6], at[7], never,
            (struct prepare_bound){at[8], at[9], at[10]});
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    Py_RETURN_NONE;
}

static PyObject *queue(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long slow;
    (void)self;
    if (!numbers(arguments, 9, 1, &slow) || !hold(arguments, "qqqbqq", "qqq", "", &columns)) return NULL;
    size_t count = rows(&columns, 0), calls = rows(&columns, 3), full = 0;
    const int64_t *launch = columns.held[0].buf, *oldest = columns.held[1].buf;
    int fits = long_as(&columns, 1, 2, count) && long_as(&columns, 4, 6, calls) && long_as(&columns, 7, 8, count);
    for (size_t at = 0; fits && at < count; at++) fits &= inside(launch[at], -1, calls) && inside(oldest[at], -1, count);
    if (belong(fits)) {
        void *at[9];
        for (int each = 0; each < 9; each++) at[each] = columns.held[each].buf;
        Py_BEGIN_ALLOW_THREADS
        full = prepare_queue(at[0], at[1], at[2], count, at[3], at[4], at[5], slow, at[6], at[7], at[8]);
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    return fits ? PyLong_FromSize_t(full) : NULL;
}

static PyObject *order(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, "qqqq", "q", "", &columns)) return NULL;
    size_t ends = rows(&columns, 0), begins = rows(&columns, 2), starts = rows(&columns, 3);
    int fits = belong(rows(&columns, 1) == ends && rows(&columns, 4) == ends + begins + starts);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        prepare_order(
            columns.held[0].buf, columns.held[1].buf, ends, columns.held[2].buf, begins, columns.held[3].buf, starts,
            columns.held[4].buf);
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    Py_RETURN_NONE;
}

WATCHED_METHOD(outer)
WATCHED_METHOD(streams)
WATCHED_METHOD(lags)
WATCHED_METHOD(bound)
WATCHED_METHOD(queue)
WATCHED_METHOD(order)
WATCHED_METHOD(forward)
WATCHED_METHOD(slack)
WATCHED_METHOD(path)

static PyMethodDef METHODS[] = {
    {"outer", outer_watched, METH_VARARGS, "The outermost calls of each thread; -1 where calls are not in order."},
    {"streams", streams_watched, METH_VARARGS, "What comes before each operation in its stream."},
    {"lags", lags_watched, METH_VARARGS, "How long after its call and its stream each operation began."},
    {"bound", bound_watched, METH_VARARGS, "Whether its call or its stream let each operation begin, and their lags."},
    {"queue", queue_watched, METH_VARARGS, "Which launches met a full queue, and what the others wait for if they come sooner."},
    {"order", order_watched, METH_VARARGS, "Sorted times as one sequence of events."},
    {"forward", forward_watched, METH_VARARGS, "When every call and operation would begin and end."},
    {"slack", slack_watched, METH_VARARGS, "The latest that each may begin and end."},
    {"path", path_watched, METH_VARARGS, "What held an event up, back to an instant."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_replay", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__replay(void) {
    replay_is_over = is_over;
    return PyModule_Create(&MODULE);
}
