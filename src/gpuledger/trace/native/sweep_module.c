/* The Python side of sweep.c: gpuledger.trace.native._sweep, in the stable ABI. Columns are contiguous buffers of int64. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sweep.h"
#include "watched.h"

#include <string.h>

#define MOST_COLUMNS 12

static uint64_t hash_key[2]; /* drawn once, when the module is loaded; no result depends on it */

/* The columns of one call, held while we use them. */
struct columns {
    Py_buffer held[MOST_COLUMNS];
    int count;
};

static void release(struct columns *columns) {
    while (columns->count) PyBuffer_Release(&columns->held[--columns->count]);
}

/* Hold the first `read` arguments for reading and the next `written` for writing; all of 64-bit integers, but for those
 * whose bits are set in `small`, whose integers have `small_bytes`. */
static int hold_with(PyObject *arguments, int read, int written, int small, int small_bytes, struct columns *columns) {
    columns->count = 0;
    for (int at = 0; at < read + written; at++) {
        PyObject *each = PyTuple_GetItem(arguments, at);
        Py_buffer *buffer = &columns->held[at];
        if (!each || PyObject_GetBuffer(each, buffer, PyBUF_C_CONTIGUOUS | (at >= read ? PyBUF_WRITABLE : 0))) break;
        columns->count++;
        int is_small = small & 1 << at;
        if (buffer->itemsize != (is_small ? small_bytes : (int)sizeof(int64_t))) {
            PyErr_SetString(PyExc_ValueError, "a column of other integers");
            break;
        }
    }
    if (!PyErr_Occurred()) return 1;
    release(columns);
    return 0;
}

static int hold(PyObject *arguments, int read, int written, struct columns *columns) {
    return hold_with(arguments, read, written, 0, 0, columns);
}

static int64_t *values(const struct columns *columns, int at) { return columns->held[at].buf; }
static size_t length(const struct columns *columns, int at) { return (size_t)columns->held[at].len / sizeof(int64_t); }

static struct sweep_spans spans(const struct columns *columns, int at) {
    return (struct sweep_spans){values(columns, at), values(columns, at + 1), length(columns, at)};
}

/* Whether columns belong together; else an error is set and the columns are released. */
static int fit(struct columns *columns, int does) {
    if (does) return 1;
    PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    release(columns);
    return 0;
}

/* The number that follows the columns. */
static int number(PyObject *arguments, int at, long long *value) {
    PyObject *each = PyTuple_GetItem(arguments, at);
    if (!each) return 0;
    *value = PyLong_AsLongLong(each);
    return !PyErr_Occurred();
}

static PyObject *union_(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 2, 2, &columns)) return NULL;
    size_t count = length(&columns, 0);
    if (!fit(&columns, length(&columns, 1) == count && length(&columns, 2) >= count && length(&columns, 3) >= count))
        return NULL;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_union(spans(&columns, 0), values(&columns, 2), values(&columns, 3));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyLong_FromLongLong(found);
}

static PyObject *union_of(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long wanted;
    (void)self;
    if (!number(arguments, 5, &wanted) || !hold_with(arguments, 3, 2, 1 << 2, 1, &columns)) return NULL;
    size_t count = length(&columns, 0);
    if (!fit(&columns, length(&columns, 1) == count && (size_t)columns.held[2].len == count && length(&columns, 3) >= count &&
                           length(&columns, 4) >= count))
        return NULL;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_union_of(spans(&columns, 0), columns.held[2].buf, (int8_t)wanted, values(&columns, 3), values(&columns, 4));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyLong_FromLongLong(found);
}

static PyObject *of_two(
    PyObject *arguments, size_t (*sweep)(struct sweep_spans, struct sweep_spans, int64_t *, int64_t *)) {
    struct columns columns;
    if (!hold(arguments, 4, 2, &columns)) return NULL;
    size_t a = length(&columns, 0), b = length(&columns, 2), most = a + b + 1;
    if (!fit(&columns, length(&columns, 1) == a && length(&columns, 3) == b && length(&columns, 4) >= most &&
                           length(&columns, 5) >= most))
        return NULL;
    size_t found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep(spans(&columns, 0), spans(&columns, 2), values(&columns, 4), values(&columns, 5));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyLong_FromSize_t(found);
}

static PyObject *either(PyObject *self, PyObject *arguments) {
    (void)self;
    return of_two(arguments, sweep_either);
}

static PyObject *intersection(PyObject *self, PyObject *arguments) {
    (void)self;
    return of_two(arguments, sweep_intersection);
}

static PyObject *difference(PyObject *self, PyObject *arguments) {
    (void)self;
    return of_two(arguments, sweep_difference);
}

static PyObject *covered(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 4, 1, &columns)) return NULL;
    size_t windows = length(&columns, 2);
    if (!fit(&columns, length(&columns, 1) == length(&columns, 0) && length(&columns, 3) == windows &&
                           length(&columns, 4) == windows))
        return NULL;
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_covered(spans(&columns, 0), spans(&columns, 2), values(&columns, 4));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyBool_FromLong(found);
}

static PyObject *shares(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 2, 2, &columns)) return NULL;
    size_t count = length(&columns, 0);
    if (!fit(&columns, length(&columns, 1) == count && length(&columns, 2) == count && length(&columns, 3) == count))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_shares(spans(&columns, 0), values(&columns, 2), values(&columns, 3));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *search(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long right;
    (void)self;
    if (!number(arguments, 3, &right) || !hold(arguments, 2, 1, &columns)) return NULL;
    size_t asked = length(&columns, 1);
    if (!fit(&columns, length(&columns, 2) == asked)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_search(values(&columns, 0), length(&columns, 0), values(&columns, 1), asked, right != 0, values(&columns, 2));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *fold(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long how;
    (void)self;
    if (!number(arguments, 3, &how) || !hold(arguments, 2, 1, &columns)) return NULL;
    size_t count = length(&columns, 0);
    if (!fit(&columns, length(&columns, 1) == count && how >= SWEEP_SUM && how <= SWEEP_MOST)) return NULL;
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_fold((enum sweep_fold)how, values(&columns, 0), values(&columns, 1), count, values(&columns, 2),
                       length(&columns, 2));
    Py_END_ALLOW_THREADS
    release(&columns);
    if (!found) return PyErr_Format(PyExc_IndexError, "a group that has no place");
    Py_RETURN_NONE;
}

static PyObject *place(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long least;
    (void)self;
    if (!number(arguments, 2, &least) || !hold_with(arguments, 1, 1, 1 << 1, sizeof(int32_t), &columns)) return NULL;
    int found;
    size_t places = (size_t)columns.held[1].len / sizeof(int32_t);
    Py_BEGIN_ALLOW_THREADS
    found = sweep_place(values(&columns, 0), length(&columns, 0), least, columns.held[1].buf, places);
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyBool_FromLong(found);
}

static PyObject *look_up(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long least;
    (void)self;
    if (!number(arguments, 3, &least) || !hold_with(arguments, 2, 1, 1 << 1, sizeof(int32_t), &columns)) return NULL;
    if (!fit(&columns, length(&columns, 2) == length(&columns, 0))) return NULL;
    size_t places = (size_t)columns.held[1].len / sizeof(int32_t);
    Py_BEGIN_ALLOW_THREADS
    sweep_look_up(values(&columns, 0), length(&columns, 0), least, columns.held[1].buf, places, values(&columns, 2));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *last_to_end(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 1, 1, &columns)) return NULL;
    if (!fit(&columns, length(&columns, 1) == length(&columns, 0))) return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_last_to_end(values(&columns, 0), length(&columns, 0), values(&columns, 1));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *enclosing(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 4, 1, &columns)) return NULL;
    size_t outer = length(&columns, 0), count = length(&columns, 2);
    if (!fit(&columns, length(&columns, 1) == outer && length(&columns, 3) == count && length(&columns, 4) == count))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_enclosing(values(&columns, 0), values(&columns, 1), outer, spans(&columns, 2), values(&columns, 4));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *held(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 5, 2, &columns)) return NULL;
    size_t outer = length(&columns, 0), count = length(&columns, 2);
    if (!fit(&columns, length(&columns, 1) == outer && length(&columns, 3) == count && length(&columns, 4) == count &&
                           length(&columns, 5) == outer && length(&columns, 6) == outer))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_held(values(&columns, 0), values(&columns, 1), outer, spans(&columns, 2), values(&columns, 4),
               values(&columns, 5), values(&columns, 6));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *tiles(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long groups;
    (void)self;
    if (!number(arguments, 5, &groups) || !hold_with(arguments, 4, 1, 1 << 2, 2, &columns)) return NULL;
    size_t count = length(&columns, 0), edges = length(&columns, 3), room = length(&columns, 4);
    int do_fit = length(&columns, 1) == count && (size_t)columns.held[2].len == count * sizeof(int16_t) && groups > 0 &&
                 edges > 0 && room / (size_t)groups == edges - 1 && room % (size_t)groups == 0;
    if (!fit(&columns, do_fit)) return NULL;
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_tiles(spans(&columns, 0), columns.held[2].buf, values(&columns, 3), edges, values(&columns, 4),
                        (size_t)groups);
    Py_END_ALLOW_THREADS
    release(&columns);
    if (!found) return PyErr_Format(PyExc_IndexError, "a group that has no place");
    Py_RETURN_NONE;
}

static PyObject *distinct(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 1, 1, &columns)) return NULL;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_distinct(values(&columns, 0), length(&columns, 0), hash_key, values(&columns, 1), length(&columns, 1));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyLong_FromLongLong(found);
}

static PyObject *states(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long from, to;
    (void)self;
    if (!number(arguments, 9, &from) || !number(arguments, 10, &to)) return NULL;
    if (!hold_with(arguments, 3, 6, 1 << 2, 1, &columns)) return NULL;
    size_t count = length(&columns, 0), found[3] = {0};
    int64_t hidden[2] = {0};
    struct sweep_room rooms[3];
    int do_fit = length(&columns, 1) == count && (size_t)columns.held[2].len == count;
    for (int each = 0; each < 3; each++) {
        rooms[each] = (struct sweep_room){values(&columns, 3 + 2 * each), values(&columns, 4 + 2 * each)};
        do_fit = do_fit && length(&columns, 3 + 2 * each) > count && length(&columns, 4 + 2 * each) > count;
    }
    if (!fit(&columns, do_fit)) return NULL;
    int is_well;
    Py_BEGIN_ALLOW_THREADS
    is_well = sweep_states(spans(&columns, 0), columns.held[2].buf, from, to, rooms, found, hidden);
    Py_END_ALLOW_THREADS
    release(&columns);
    if (!is_well) Py_RETURN_NONE;
    return Py_BuildValue("nnnLL", (Py_ssize_t)found[0], (Py_ssize_t)found[1], (Py_ssize_t)found[2], (long long)hidden[0],
                         (long long)hidden[1]);
}

static PyObject *calls(PyObject *self, PyObject *arguments) {
    struct columns columns, own_kinds, threads;
    long long wanted;
    int64_t found = 0;
    (void)self;
    if (!number(arguments, 7, &wanted) || !hold_with(arguments, 3, 2, 1 << 2, 1, &columns)) return NULL;
    PyObject *others[] = {PyTuple_GetItem(arguments, 5), PyTuple_GetItem(arguments, 6)};
    PyObject *thread = PyTuple_Pack(1, others[0]), *kinds = PyTuple_Pack(1, others[1]);
    int is_held = thread && kinds && hold_with(thread, 1, 0, 1, sizeof(int32_t), &threads);
    if (is_held && !hold_with(kinds, 0, 1, 1, 1, &own_kinds)) {
        release(&threads);
        is_held = 0;
    }
    if (is_held) {
        size_t count = length(&columns, 0);
        int do_fit = length(&columns, 1) == count && (size_t)columns.held[2].len == count &&
                     length(&columns, 3) >= count && length(&columns, 4) >= count &&
                     (size_t)threads.held[0].len == count * sizeof(int32_t) && (size_t)own_kinds.held[0].len >= count;
        if (do_fit) {
            Py_BEGIN_ALLOW_THREADS
            found = sweep_calls(spans(&columns, 0), columns.held[2].buf, threads.held[0].buf, (int32_t)wanted,
                                values(&columns, 3), values(&columns, 4), own_kinds.held[0].buf);
            Py_END_ALLOW_THREADS
        } else {
            PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
        }
        release(&own_kinds);
        release(&threads);
    }
    Py_XDECREF(thread);
    Py_XDECREF(kinds);
    release(&columns);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(found);
}

static PyObject *split(PyObject *self, PyObject *arguments) {
    struct columns columns;
    long long short_ns, labels;
    (void)self;
    if (!number(arguments, 6, &short_ns) || !number(arguments, 7, &labels)) return NULL;
    if (!hold_with(arguments, 5, 1, 1 << 2, 1, &columns)) return NULL;
    size_t count = length(&columns, 0), windows = length(&columns, 3), room = length(&columns, 5);
    int do_fit = length(&columns, 1) == count && (size_t)columns.held[2].len == count &&
                 length(&columns, 4) == windows && labels > 0 && room / (size_t)labels == windows &&
                 room % (size_t)labels == 0;
    if (!fit(&columns, do_fit)) return NULL;
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_split(spans(&columns, 0), columns.held[2].buf, short_ns, spans(&columns, 3), values(&columns, 5),
                        (size_t)labels);
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyBool_FromLong(found);
}

static PyObject *parents(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold(arguments, 3, 2, &columns)) return NULL;
    size_t count = length(&columns, 0);
    if (!fit(&columns, length(&columns, 1) == count && length(&columns, 2) == count && length(&columns, 3) == count &&
                           length(&columns, 4) == count))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    sweep_parents(spans(&columns, 0), values(&columns, 2), values(&columns, 3), values(&columns, 4));
    Py_END_ALLOW_THREADS
    release(&columns);
    Py_RETURN_NONE;
}

static PyObject *number_texts(PyObject *self, PyObject *arguments) {
    struct columns columns;
    (void)self;
    if (!hold_with(arguments, 2, 2, 1, 1, &columns)) return NULL;
    size_t count = length(&columns, 1);
    if (!fit(&columns, length(&columns, 2) == count && length(&columns, 3) == count)) return NULL;
    int64_t found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_number_texts(columns.held[0].buf, (size_t)columns.held[0].len, values(&columns, 1), count,
                               hash_key, values(&columns, 2), values(&columns, 3));
    Py_END_ALLOW_THREADS
    release(&columns);
    return PyLong_FromLongLong(found);
}

static PyObject *mark(PyObject *self, PyObject *arguments) {
    struct columns columns;
    Py_buffer small;
    long long least;
    (void)self;
    if (!number(arguments, 2, &least)) return NULL;
    PyObject *of = PyTuple_GetItem(arguments, 1), *flags = PyTuple_Pack(1, PyTuple_GetItem(arguments, 0));
    if (!flags || !of || PyObject_GetBuffer(of, &small, PyBUF_C_CONTIGUOUS)) {
        Py_XDECREF(flags);
        return NULL;
    }
    int found = -1;
    if (hold_with(flags, 0, 1, 1, 1, &columns)) {
        Py_BEGIN_ALLOW_THREADS
        found = sweep_mark(small.buf, (size_t)small.itemsize, (size_t)(small.len / small.itemsize), least,
                           columns.held[0].buf, (size_t)columns.held[0].len);
        Py_END_ALLOW_THREADS
        release(&columns);
    }
    PyBuffer_Release(&small);
    Py_DECREF(flags);
    if (found < 0) return NULL;
    if (!found) return PyErr_Format(PyExc_IndexError, "a value that has no place");
    Py_RETURN_NONE;
}

static PyObject *take(PyObject *self, PyObject *arguments) {
    Py_buffer values_held, at, into;
    int flags = PyBUF_C_CONTIGUOUS, found = 0;
    (void)self;
    PyObject *each[3];
    if (!PyArg_ParseTuple(arguments, "OOO", &each[0], &each[1], &each[2])) return NULL;
    if (PyObject_GetBuffer(each[0], &values_held, flags)) return NULL;
    if (PyObject_GetBuffer(each[1], &at, flags)) goto release_values;
    if (PyObject_GetBuffer(each[2], &into, flags | PyBUF_WRITABLE)) goto release_at;
    size_t bytes = (size_t)values_held.itemsize, count = (size_t)at.len / sizeof(int32_t);
    if (at.itemsize != sizeof(int32_t) || into.itemsize != values_held.itemsize || (size_t)into.len != count * bytes) {
        PyErr_SetString(PyExc_ValueError, "columns that do not belong together");
    } else {
        Py_BEGIN_ALLOW_THREADS
        found = sweep_take(values_held.buf, bytes, (size_t)values_held.len / bytes, at.buf, count, into.buf);
        Py_END_ALLOW_THREADS
        if (!found) PyErr_SetString(PyExc_IndexError, "a row that is not there");
    }
    PyBuffer_Release(&into);
release_at:
    PyBuffer_Release(&at);
release_values:
    PyBuffer_Release(&values_held);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *in_order(PyObject *self, PyObject *arguments) {
    struct columns columns;
    struct sweep_part parts[MOST_COLUMNS / 3];
    (void)self;
    int count = (int)(PyTuple_Size(arguments) - 3) / 3, last = 3 * count;
    if (count < 1 || last + 3 > MOST_COLUMNS || PyTuple_Size(arguments) != last + 3) {
        PyErr_SetString(PyExc_TypeError, "three columns for each part, and three to write to");
        return NULL;
    }
    if (!hold_with(arguments, last, 3, 1 << (last + 2), sizeof(int32_t), &columns)) return NULL;
    size_t total = 0;
    int do_fit = 1;
    for (int at = 0; at < count; at++) {
        size_t rows = length(&columns, 3 * at);
        parts[at] = (struct sweep_part){values(&columns, 3 * at), values(&columns, 3 * at + 1), values(&columns, 3 * at + 2), rows};
        do_fit = do_fit && length(&columns, 3 * at + 1) == rows && length(&columns, 3 * at + 2) == rows;
        total += rows;
    }
    do_fit = do_fit && total < INT32_MAX && length(&columns, last) == total && length(&columns, last + 1) == total &&
             (size_t)columns.held[last + 2].len == total * sizeof(int32_t);
    if (!fit(&columns, do_fit)) return NULL;
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = sweep_in_order(parts, (size_t)count, values(&columns, last), values(&columns, last + 1),
                           columns.held[last + 2].buf);
    Py_END_ALLOW_THREADS
    release(&columns);
    if (!found) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

WATCHED_METHOD(mark)
WATCHED_METHOD(take)
WATCHED_METHOD(in_order)
WATCHED_METHOD(parents)
WATCHED_METHOD(number_texts)
WATCHED_METHOD(states)
WATCHED_METHOD(calls)
WATCHED_METHOD(split)
WATCHED_METHOD(distinct)
WATCHED_METHOD(enclosing)
WATCHED_METHOD(held)
WATCHED_METHOD(tiles)
WATCHED_METHOD(union_of)
WATCHED_METHOD(look_up)
WATCHED_METHOD(last_to_end)
WATCHED_METHOD(union_)
WATCHED_METHOD(either)
WATCHED_METHOD(intersection)
WATCHED_METHOD(difference)
WATCHED_METHOD(covered)
WATCHED_METHOD(shares)
WATCHED_METHOD(search)
WATCHED_METHOD(fold)
WATCHED_METHOD(place)

static PyMethodDef methods[] = {
    {"mark", mark_watched, METH_VARARGS, "mark(flags, values of 1, 2, 4 or 8 bytes, least)"},
    {"take", take_watched, METH_VARARGS, "take(values of 1, 2, 4 or 8 bytes, positions of 4 bytes, into)"},
    {"in_order", in_order_watched, METH_VARARGS,
     "in_order(start, end and tie of up to three parts, into_start, into_end, into_order)"},
    {"parents", parents_watched, METH_VARARGS, "parents(start, end, group, stack, into): -2 where a group does not nest"},
    {"number_texts", number_texts_watched, METH_VARARGS,
     "number_texts(bytes, lengths, numbers, first) -> how many different texts; -1: longer than the bytes, or no memory"},
    {"states", states_watched, METH_VARARGS,
     "states(start, end, state, three times into_start and into_end, from, to) -> how many spans of 1, 2 and none, how"
     " long 1 was beside 0, and 2 beside them; None: not sorted"},
    {"calls", calls_watched, METH_VARARGS,
     "calls(start, end, kind, into_start, into_end, thread, into_kind, wanted) -> how many spans; -1: not sorted"},
    {"split", split_watched, METH_VARARGS,
     "split(start, end, kind, from, to, into, short_ns, labels) -> whether windows were disjoint and in order"},
    {"distinct", distinct_watched, METH_VARARGS, "distinct(values, into) -> how many, in no order; -1: more than there is room"},
    {"enclosing", enclosing_watched, METH_VARARGS, "enclosing(outer_start, reach, start, end, into)"},
    {"held", held_watched, METH_VARARGS, "held(outer_start, reach, start, end, amount, into_sums, into_counts)"},
    {"tiles", tiles_watched, METH_VARARGS, "tiles(start, end, group, edges, into, groups)"},
    {"union_of", union_of_watched, METH_VARARGS,
     "union_of(start, end, label, into_start, into_end, wanted) -> how many spans; -1: not sorted"},
    {"look_up", look_up_watched, METH_VARARGS, "look_up(keys, table, into, least)"},
    {"last_to_end", last_to_end_watched, METH_VARARGS, "last_to_end(end, into)"},
    {"union", union__watched, METH_VARARGS, "union(start, end, into_start, into_end) -> how many spans; -1: not sorted"},
    {"either", either_watched, METH_VARARGS, "either(a_start, a_end, b_start, b_end, into_start, into_end) -> how many spans"},
    {"intersection", intersection_watched, METH_VARARGS,
     "intersection(a_start, a_end, b_start, b_end, into_start, into_end) -> how many spans"},
    {"difference", difference_watched, METH_VARARGS,
     "difference(a_start, a_end, b_start, b_end, into_start, into_end) -> how many spans"},
    {"covered", covered_watched, METH_VARARGS,
     "covered(set_start, set_end, from, to, into) -> whether windows were disjoint and in order"},
    {"shares", shares_watched, METH_VARARGS, "shares(start, end, into_start, into_end)"},
    {"search", search_watched, METH_VARARGS, "search(keys, wanted, into, right)"},
    {"fold", fold_watched, METH_VARARGS, "fold(group, values, into, how): 0 sum, 1 least, 2 greatest"},
    {"place", place_watched, METH_VARARGS, "place(keys, table, least) -> whether each key has a place of its own"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_sweep", "Passes over columns of integers; see sweep.h.", 0, methods, NULL, NULL, NULL, NULL,
};

static int draw_key(void) {
    char *bytes;
    Py_ssize_t size;
    PyObject *os = PyImport_ImportModule("os");
    PyObject *drawn = os ? PyObject_CallMethod(os, "urandom", "n", (Py_ssize_t)sizeof hash_key) : NULL;
    int is_drawn = drawn && !PyBytes_AsStringAndSize(drawn, &bytes, &size) && size == (Py_ssize_t)sizeof hash_key;
    if (is_drawn) memcpy(hash_key, bytes, sizeof hash_key);
    Py_XDECREF(drawn);
    Py_XDECREF(os);
    return is_drawn;
}

PyMODINIT_FUNC PyInit__sweep(void) {
    sweep_is_over = is_over;
    return draw_key() ? PyModule_Create(&module) : NULL;
}
