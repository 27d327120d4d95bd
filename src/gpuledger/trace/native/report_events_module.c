/* The Python side of report_events.c: gpuledger.trace.native._report_events, in the stable ABI. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "report_events.h"
#include "watched.h"

#define CAPSULE "gpuledger.report_rows"

struct decoded {
    struct report_rows rows;
    uint16_t widths[64];
    size_t table_count;
};

static void forget(PyObject *capsule) {
    struct decoded *decoded = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!decoded) return;
    report_free(&decoded->rows);
    free(decoded);
}

/* A plan as numbers: how many tables, their widths; how many nodes, the table of each; how many classes, class and node
 * of each; the node of generic events or -1; how many fields, and of each its node, number, kind and where it goes. */
static int planned(const int32_t *at, size_t count, struct report_plan *plan) {
    const int32_t *end = at + count;
#define NEXT(into) do { if (at >= end) return 0; into = *at++; } while (0)
    int32_t amount, key, node, kind, to;
    NEXT(amount);
    if (amount < 1 || amount > 64) return 0;
    plan->table_count = (size_t)amount;
    for (size_t table = 0; table < plan->table_count; table++) {
        NEXT(to);
        if (to < 1 || to > 4096) return 0;
        plan->widths[table] = (uint16_t)to;
    }
    NEXT(amount);
    if (amount < 1 || amount > 1024) return 0;
    plan->node_count = (size_t)amount;
    plan->nodes = calloc(plan->node_count, sizeof *plan->nodes);
    if (!plan->nodes) return 0;
    for (size_t each = 0; each < plan->node_count; each++) {
        NEXT(to);
        if (to < -1 || to >= (int32_t)plan->table_count) return 0;
        plan->nodes[each].table = to;
    }
    for (size_t number = 0; number < REPORT_CLASSES; number++) plan->of_class[number] = -1;
    NEXT(amount);
    for (; amount > 0; amount--) {
        NEXT(key);
        NEXT(node);
        if (key < 0 || key >= REPORT_CLASSES || node < 0 || node >= (int32_t)plan->node_count) return 0;
        if (plan->nodes[node].table < 0) return 0;
        plan->of_class[key] = node;
    }
    NEXT(plan->generic);
    if (plan->generic >= (int32_t)plan->node_count) return 0;
    if (plan->generic >= 0 && plan->nodes[plan->generic].table < 0) return 0;
    NEXT(amount);
    for (; amount > 0; amount--) {
        NEXT(node);
        NEXT(key);
        NEXT(kind);
        NEXT(to);
        if (node < 0 || node >= (int32_t)plan->node_count || key < 1 || key >= REPORT_FIELDS) return 0;
        if (kind < REPORT_NUMBER || kind > REPORT_MESSAGE || to < 0 || to > UINT16_MAX) return 0;
        if (kind == REPORT_MESSAGE && (to <= node || to >= (int32_t)plan->node_count)) return 0; /* no circles */
        plan->nodes[node].fields[key] = (struct report_field){(uint8_t)kind, (uint16_t)to};
    }
#undef NEXT
    return at == end;
}

static int held(PyObject *from, Py_buffer *buffer, Py_ssize_t item, int writable) {
    if (PyObject_GetBuffer(from, buffer, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0))) return 0;
    if (buffer->itemsize == item) return 1;
    PyBuffer_Release(buffer);
    PyErr_SetString(PyExc_ValueError, "numbers of another size");
    return 0;
}

/* Columns of nodes without a table of their own are those of the table around them. */
static int columns_fit(const struct report_plan *plan, size_t node, size_t width, int deep) {
    if (deep > 16) return 0;
    for (size_t number = 0; number < REPORT_FIELDS; number++) {
        struct report_field what = plan->nodes[node].fields[number];
        if ((what.kind == REPORT_NUMBER || what.kind == REPORT_TEXT) && what.to >= width) return 0;
        if (what.kind == REPORT_MESSAGE) {
            int32_t table = plan->nodes[what.to].table;
            if (!columns_fit(plan, what.to, table < 0 ? width : plan->widths[table], deep + 1)) return 0;
        }
    }
    return 1;
}

static int fits(const struct report_plan *plan) {
    for (size_t node = 0; node < plan->node_count; node++)
        if (plan->nodes[node].table >= 0 && !columns_fit(plan, node, plan->widths[plan->nodes[node].table], 0)) return 0;
    return 1;
}

static PyObject *described(struct decoded *decoded, enum report_status status) {
    PyObject *capsule = PyCapsule_New(decoded, CAPSULE, forget);
    if (!capsule) {
        report_free(&decoded->rows);
        free(decoded);
        return NULL;
    }
    const struct report_rows *rows = &decoded->rows;
    PyObject *counts = PyList_New(0);
    for (size_t table = 0; counts && table < decoded->table_count; table++) {
        PyObject *count = PyLong_FromSize_t(rows->tables[table].count);
        if (!count || PyList_Append(counts, count)) Py_CLEAR(counts);
        Py_XDECREF(count);
    }
    if (!counts) {
        Py_DECREF(capsule);
        return NULL;
    }
    return Py_BuildValue("iNNy#KKK", (int)status, capsule, counts, (char *)rows->seen, (Py_ssize_t)sizeof rows->seen,
                         (unsigned long long)rows->generic_seen, (unsigned long long)rows->damaged,
                         (unsigned long long)rows->damaged_blocks);
}

static PyObject *decode(PyObject *self, PyObject *arguments) {
    PyObject *packed_object, *blocks_object, *plan_object, *found = NULL;
    unsigned long long most_rows;
    Py_buffer packed, places, numbers;
    struct report_plan plan = {0};
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OOOK", &packed_object, &blocks_object, &plan_object, &most_rows)) return NULL;
    if (!held(packed_object, &packed, 1, 0)) return NULL;
    if (!held(blocks_object, &places, sizeof(int64_t), 0)) goto release_packed;
    if (!held(plan_object, &numbers, sizeof(int32_t), 0)) goto release_places;
    size_t count = (size_t)places.len / (3 * sizeof(int64_t));
    struct report_block *blocks = calloc(count + 1, sizeof *blocks);
    struct decoded *decoded = calloc(1, sizeof *decoded);
    if (!blocks || !decoded) {
        PyErr_NoMemory();
        goto release;
    }
    if (!planned(numbers.buf, (size_t)numbers.len / sizeof(int32_t), &plan) || !fits(&plan)) {
        PyErr_SetString(PyExc_ValueError, "no such plan");
        goto release;
    }
    const int64_t *place = places.buf;
    for (size_t at = 0; at < count; at++, place += 3) { /* where a block begins, its size, and its size unpacked */
        if (place[0] < 0 || place[1] < 0 || place[2] < 0 || place[0] > packed.len || place[1] > packed.len - place[0]) {
            PyErr_SetString(PyExc_ValueError, "a block outside of what was given");
            goto release;
        }
        blocks[at] = (struct report_block){(const uint8_t *)packed.buf + place[0], (size_t)place[1], (size_t)place[2]};
    }
    memcpy(decoded->widths, plan.widths, sizeof plan.widths);
    decoded->table_count = plan.table_count;
    enum report_status status;
    Py_BEGIN_ALLOW_THREADS
    status = report_decode(&plan, blocks, count, most_rows, is_over, &decoded->rows);
    Py_END_ALLOW_THREADS
    found = described(decoded, status);
    decoded = NULL;
release:
    free(plan.nodes);
    free(blocks);
    free(decoded);
    PyBuffer_Release(&numbers);
release_places:
    PyBuffer_Release(&places);
release_packed:
    PyBuffer_Release(&packed);
    return found;
}

static struct decoded *of_capsule(PyObject *capsule, unsigned table) {
    struct decoded *decoded = PyCapsule_GetPointer(capsule, CAPSULE);
    if (decoded && table >= decoded->table_count) {
        PyErr_SetString(PyExc_ValueError, "no such table");
        return NULL;
    }
    return decoded;
}

#define TILE 64 /* rows that are looked at together: they are in the processor's cache for all columns */

static void take_columns(const struct report_table *from, size_t width, const int32_t *columns, size_t count, int64_t **to,
                         int64_t *summaries) {
    for (size_t column = 0; column < count; column++) {
        summaries[3 * column] = INT64_MAX;
        summaries[3 * column + 1] = INT64_MIN;
        summaries[3 * column + 2] = 0;
    }
    for (size_t first = 0; first < from->count; first += TILE) {
        size_t last = first + TILE < from->count ? first + TILE : from->count;
        for (size_t column = 0; column < count; column++) {
            int64_t least = summaries[3 * column], most = summaries[3 * column + 1], nulls = 0, *into = to[column];
            const int64_t *values = from->rows + columns[column];
            for (size_t row = first; row < last; row++) {
                int64_t value = values[row * width];
                into[row] = value;
                most = value > most ? value : most;
                nulls += value == INT64_MIN;
                least = value < least && value != INT64_MIN ? value : least;
            }
            summaries[3 * column] = least;
            summaries[3 * column + 1] = most;
            summaries[3 * column + 2] += nulls;
        }
    }
}

static PyObject *columns(PyObject *self, PyObject *arguments) {
    PyObject *capsule, *wanted_object, *out, *found = NULL;
    unsigned table;
    Py_buffer wanted;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OIOO", &capsule, &table, &wanted_object, &out)) return NULL;
    struct decoded *decoded = of_capsule(capsule, table);
    if (!decoded) return NULL;
    if (!held(wanted_object, &wanted, sizeof(int32_t), 0)) return NULL;
    const int32_t *numbers = wanted.buf;
    Py_ssize_t count = wanted.len / (Py_ssize_t)sizeof(int32_t), held_count = 0;
    size_t width = decoded->widths[table], rows = decoded->rows.tables[table].count;
    Py_buffer *buffers = calloc((size_t)count + 1, sizeof *buffers);
    int64_t **targets = calloc((size_t)count + 1, sizeof *targets);
    int64_t *summaries = calloc(3 * (size_t)count + 1, sizeof *summaries);
    if (!buffers || !targets || !summaries) {
        PyErr_NoMemory();
        goto done;
    }
    if (!PyTuple_Check(out) || PyTuple_Size(out) != count) {
        PyErr_SetString(PyExc_ValueError, "arrays that do not belong together");
        goto done;
    }
    for (; held_count < count; held_count++) {
        if (!held(PyTuple_GetItem(out, held_count), &buffers[held_count], sizeof(int64_t), 1)) goto done;
        targets[held_count] = buffers[held_count].buf;
        if (numbers[held_count] < 0 || (size_t)numbers[held_count] >= width ||
            (size_t)buffers[held_count].len != rows * sizeof(int64_t)) {
            held_count++;
            PyErr_SetString(PyExc_ValueError, "no such column, or another number of rows");
            goto done;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    take_columns(&decoded->rows.tables[table], width, numbers, (size_t)count, targets, summaries);
    Py_END_ALLOW_THREADS
    found = PyBytes_FromStringAndSize((char *)summaries, 3 * count * (Py_ssize_t)sizeof *summaries);
done:
    for (Py_ssize_t at = 0; at < held_count; at++) PyBuffer_Release(&buffers[at]);
    free(buffers);
    free(targets);
    free(summaries);
    PyBuffer_Release(&wanted);
    return found;
}

static PyObject *texts(PyObject *self, PyObject *arguments) {
    PyObject *capsule;
    unsigned table;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OI", &capsule, &table)) return NULL;
    struct decoded *decoded = of_capsule(capsule, table);
    if (!decoded) return NULL;
    const struct report_table *of = &decoded->rows.tables[table];
    return PyBytes_FromStringAndSize(of->texts ? (char *)of->texts : "", (Py_ssize_t)of->text_size);
}

static PyObject *unpack(PyObject *self, PyObject *arguments) {
    Py_buffer packed;
    Py_ssize_t plain_size;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*n", &packed, &plain_size)) return NULL;
    PyObject *found = NULL;
    uint8_t *plain = plain_size >= 0 && plain_size / 256 <= packed.len ? malloc((size_t)plain_size + REPORT_SLACK) : NULL;
    if (plain && report_unpack(packed.buf, (size_t)packed.len, plain, (size_t)plain_size) == plain_size)
        found = PyBytes_FromStringAndSize((char *)plain, plain_size);
    else
        found = Py_NewRef(Py_None);
    free(plain);
    PyBuffer_Release(&packed);
    return found;
}

static PyObject *texts_of(PyObject *self, PyObject *arguments) {
    Py_buffer plain;
    unsigned long number;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*k", &plain, &number)) return NULL;
    PyObject *found = PyList_New(0);
    const uint8_t *at = plain.buf, *end = at + plain.len, *text;
    size_t size;
    while (found && report_next_text(&at, end, number, &text, &size)) {
        PyObject *each = PyBytes_FromStringAndSize((const char *)text, (Py_ssize_t)size);
        if (!each || PyList_Append(found, each)) Py_CLEAR(found);
        Py_XDECREF(each);
    }
    PyBuffer_Release(&plain);
    return found;
}

WATCHED_METHOD(decode)

static PyMethodDef methods[] = {
    {"decode", decode_watched, METH_VARARGS,
     "decode(packed, blocks, plan, most_rows) -> (status, rows, their number in each table, events by class, generic"
     " events, damaged messages, damaged blocks)"},
    {"columns", columns, METH_VARARGS,
     "columns(rows, table, columns, out) -> least, greatest, and how many are not there, of each column"},
    {"texts", texts, METH_VARARGS, "texts(rows, table) -> the bytes of its texts, one after another"},
    {"unpack", unpack, METH_VARARGS, "unpack(packed, plain_size) -> bytes, or None where it is no such LZ4 block"},
    {"texts_of", texts_of, METH_VARARGS,
     "texts_of(message, number) -> the bytes of each of its fields with that number, up to where it is damaged"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_report_events", "Rows out of reports of Nsight Systems; see report_events.h.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__report_events(void) { return PyModule_Create(&module); }
