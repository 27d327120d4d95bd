/* The Python side of replay.c: gpuledger.replay.native._replay, in the stable ABI. Columns are contiguous buffers. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <string.h>

#include "replay.h"

#define MOST_COLUMNS 40

static const char GRAPH[] = "q" "iqqqqqqqb" "qq" "qqiqqqqib"; /* order; calls; waits; operations */
static const char TIMES[] = "qqqq" "qqqqb";

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

/* Whether the columns belong together and every position lies in its column; else an error is set. */
static int fit(struct columns *columns, size_t threads, size_t streams, size_t groups) {
    struct replay_calls calls = calls_of(columns);
    struct replay_operations ops = operations_of(columns);
    const int64_t *order = columns->held[0].buf, *wait = columns->held[10].buf, *past = columns->held[27].buf;
    int fits = rows(columns, 8) == calls.count + 1 && rows(columns, 11) == rows(columns, 10);
    for (int at = 1; at < 10; at++) fits &= at == 8 || rows(columns, at) == calls.count;
    for (int at = 12; at < 21; at++) fits &= rows(columns, at) == ops.count;
    for (int at = 21; at < 25; at++) fits &= rows(columns, at) == calls.count;
    for (int at = 25; at < 30; at++) fits &= rows(columns, at) == ops.count;
    for (size_t at = 0; fits && at < rows(columns, 0); at++)
        fits &= (order[at] & 3) < 3 && inside(order[at] >> 2, 0, (order[at] & 3) == OPERATION ? ops.count : calls.count);
    for (size_t at = 0; fits && at < calls.count; at++)
        fits &= inside(calls.thread[at], 0, threads) && inside(calls.after[at], -1, calls.count) &&
                inside(calls.queue[at], -1, ops.count) && calls.first_wait[at] <= calls.first_wait[at + 1];
    if (fits && calls.count) fits &= calls.first_wait[0] >= 0 && calls.first_wait[calls.count] <= (int64_t)rows(columns, 10);
    for (size_t at = 0; fits && at < rows(columns, 10); at++) fits &= inside(wait[at], 0, ops.count);
    for (size_t at = 0; fits && at < ops.count; at++)
        fits &= inside(ops.call[at], -1, calls.count) && inside(ops.stream[at], 0, streams) &&
                inside(ops.other[at], -1, ops.count) && inside(ops.group[at], -1, groups) && inside(past[at], -1, ops.count);
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
    fits = fit(&columns, (size_t)sizes[0], (size_t)sizes[1], (size_t)sizes[2]);
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
    long long sizes[3]; /* threads, streams, the last operation */
    (void)self;
    if (!numbers(arguments, 32, 3, sizes) || !hold(arguments, GRAPH, TIMES, "qq", &columns)) return NULL;
    int enough = 0, fits = fit(&columns, (size_t)sizes[0], (size_t)sizes[1], SIZE_MAX / 2);
    if (fits && (rows(&columns, 30) != rows(&columns, 1) || rows(&columns, 31) != rows(&columns, 12) ||
                 !inside(sizes[2], -1, rows(&columns, 12)))) {
        PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
        fits = 0;
    }
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        enough = replay_slack(
            columns.held[0].buf, rows(&columns, 0), calls_of(&columns), columns.held[10].buf, columns.held[11].buf,
            operations_of(&columns), (size_t)sizes[0], (size_t)sizes[1], times_of(&columns), sizes[2],
            columns.held[30].buf, columns.held[31].buf);
        Py_END_ALLOW_THREADS
    }
    release(&columns);
    if (!fits) return NULL;
    if (!enough) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *path(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long last;
    (void)self;
    if (!numbers(arguments, 33, 1, &last) || !hold(arguments, GRAPH, TIMES, "qqq", &columns)) return NULL;
    size_t most = 2 * rows(&columns, 1) + rows(&columns, 12) + 2, count = 0;
    int fits = inside(last, -1, rows(&columns, 12));
    for (int at = 30; at < 33; at++) fits &= rows(&columns, at) >= most;
    if (fits) count = replay_path(calls_of(&columns), operations_of(&columns), times_of(&columns), last, columns.held[30].buf,
                                  columns.held[31].buf, columns.held[32].buf);
    else PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    release(&columns);
    return fits ? PyLong_FromSize_t(count) : NULL;
}

static PyMethodDef METHODS[] = {
    {"forward", forward, METH_VARARGS, "When every call and operation would begin and end."},
    {"slack", slack, METH_VARARGS, "How much later each could end without the last ending later."},
    {"path", path, METH_VARARGS, "The events that bound, back from an operation's end."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_replay", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__replay(void) { return PyModule_Create(&MODULE); }
