/* The Python side of btree.c: gpuledger.trace.native._btree, in the stable ABI. Files are given as descriptors. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "btree.h"
#include "watched.h"

#define READS_BETWEEN_LOOKS 4096 /* some hundredths of a second */

struct open_file {
    int descriptor;
    unsigned reads;
};

static int read_descriptor(void *file, uint64_t offset, void *into, size_t size) {
    struct open_file *open = file;
    int descriptor = open->descriptor;
    char *at = into;
    if (++open->reads % READS_BETWEEN_LOOKS == 0 && is_over()) return 1;
    while (size) {
        ssize_t got = pread(descriptor, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 1;
        at += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return 0;
}

static int described(struct btree_file *file, struct open_file *open, unsigned page_bytes, unsigned usable_bytes, unsigned pages) {
    int is_power = page_bytes >= 512 && page_bytes <= 65536 && !(page_bytes & (page_bytes - 1));
    if (!is_power || usable_bytes < 480 || usable_bytes > page_bytes) {
        PyErr_SetString(PyExc_ValueError, "no such page size");
        return 0;
    }
    *file = (struct btree_file){read_descriptor, open, page_bytes, usable_bytes, pages};
    return 1;
}

static PyObject *find_leaves(PyObject *self, PyObject *arguments) {
    int is_counted;
    struct open_file open = {0};
    unsigned page_bytes, usable_bytes, pages, root;
    struct btree_file file;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "iIIIIp", &open.descriptor, &page_bytes, &usable_bytes, &pages, &root, &is_counted))
        return NULL;
    if (!described(&file, &open, page_bytes, usable_bytes, pages)) return NULL;
    struct btree_leaves leaves = {0};
    enum btree_status status;
    Py_BEGIN_ALLOW_THREADS
    status = btree_find_leaves(&file, root, is_counted ? BTREE_COUNTED : BTREE_BY_KEYS, &leaves);
    Py_END_ALLOW_THREADS
    Py_ssize_t size = (Py_ssize_t)(leaves.count * sizeof(uint32_t));
    PyObject *found = Py_BuildValue("iy#y#", (int)status, leaves.pages ? (char *)leaves.pages : "", size,
                                    leaves.rows ? (char *)leaves.rows : "", size);
    btree_free_leaves(&leaves);
    return found;
}

/* An array of numbers that Python owns, held while we use it; `or_item` is another size that they may have. */
static int held_either(PyObject *from, Py_buffer *buffer, Py_ssize_t item, Py_ssize_t or_item, int writable) {
    if (PyObject_GetBuffer(from, buffer, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0))) return 0;
    if (buffer->itemsize == item || buffer->itemsize == or_item) return 1;
    PyBuffer_Release(buffer);
    PyErr_SetString(PyExc_ValueError, "numbers of another size");
    return 0;
}

static int held(PyObject *from, Py_buffer *buffer, Py_ssize_t item, int writable) {
    return held_either(from, buffer, item, item, writable);
}

static int ascend(const int32_t *columns, Py_ssize_t count) {
    for (Py_ssize_t at = 0; at < count; at++)
        if (columns[at] < 0 || (at && columns[at] <= columns[at - 1])) return 0;
    return 1;
}

static PyObject *decode_into(
    struct btree_file *file, Py_buffer *pages, Py_buffer *rows, Py_buffer *columns, int alias, PyObject *out) {
    Py_ssize_t count = columns->len / (Py_ssize_t)sizeof(int32_t), held_count = 0, least = PY_SSIZE_T_MAX;
    PyObject *found = NULL;
    Py_buffer *buffers = calloc((size_t)count + 1, sizeof *buffers);
    int64_t **targets = calloc((size_t)count + 1, sizeof *targets);
    int32_t **small = calloc((size_t)count + 1, sizeof *small);
    uint64_t *bad = calloc((size_t)count + 1, sizeof *bad), short_records = 0;
    struct btree_summary *summaries = calloc((size_t)count + 1, sizeof *summaries);
    if (!buffers || !targets || !small || !bad || !summaries) {
        PyErr_NoMemory();
        goto done;
    }
    for (; held_count < count; held_count++) {
        PyObject *each = PyTuple_GetItem(out, held_count);
        Py_buffer *buffer = &buffers[held_count];
        if (!each || !held_either(each, buffer, sizeof(int64_t), sizeof(int32_t), 1)) goto done;
        if (buffer->itemsize == sizeof(int32_t))
            small[held_count] = buffer->buf;
        else
            targets[held_count] = buffer->buf;
        Py_ssize_t room = buffer->len / buffer->itemsize;
        least = room < least ? room : least;
    }
    struct btree_wanted wanted = {columns->buf, (size_t)count, alias, small};
    size_t leaves = (size_t)pages->len / sizeof(uint32_t);
    uint64_t most = count ? (uint64_t)least : UINT64_MAX;
    enum btree_status status;
    Py_BEGIN_ALLOW_THREADS
    status = btree_decode(file, pages->buf, rows->buf, leaves, &wanted, targets, most, bad, summaries, &short_records);
    Py_END_ALLOW_THREADS
    found = Py_BuildValue("iy#y#K", (int)status, (char *)bad, count * (Py_ssize_t)sizeof *bad, (char *)summaries,
                          count * (Py_ssize_t)sizeof *summaries, (unsigned long long)short_records);
done:
    for (Py_ssize_t at = 0; at < held_count; at++) PyBuffer_Release(&buffers[at]);
    free(buffers);
    free(targets);
    free(small);
    free(bad);
    free(summaries);
    return found;
}

static PyObject *decode(PyObject *self, PyObject *arguments) {
    int alias;
    struct open_file open = {0};
    unsigned page_bytes, usable_bytes, pages;
    PyObject *leaf_pages, *leaf_rows, *columns, *out, *found = NULL;
    struct btree_file file;
    Py_buffer pages_held, rows_held, columns_held;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "iIIIOOOiO", &open.descriptor, &page_bytes, &usable_bytes, &pages, &leaf_pages,
                          &leaf_rows, &columns, &alias, &out))
        return NULL;
    if (!described(&file, &open, page_bytes, usable_bytes, pages)) return NULL;
    if (!held(leaf_pages, &pages_held, sizeof(uint32_t), 0)) return NULL;
    if (!held(leaf_rows, &rows_held, sizeof(uint32_t), 0)) goto release_pages;
    if (!held(columns, &columns_held, sizeof(int32_t), 0)) goto release_rows;
    if (!PyTuple_Check(out) || PyTuple_Size(out) != columns_held.len / (Py_ssize_t)sizeof(int32_t) ||
        pages_held.len != rows_held.len || !ascend(columns_held.buf, columns_held.len / (Py_ssize_t)sizeof(int32_t)))
        PyErr_SetString(PyExc_ValueError, "arrays that do not belong together");
    else
        found = decode_into(&file, &pages_held, &rows_held, &columns_held, alias, out);
    PyBuffer_Release(&columns_held);
release_rows:
    PyBuffer_Release(&rows_held);
release_pages:
    PyBuffer_Release(&pages_held);
    return found;
}

static PyObject *decode_texts(PyObject *self, PyObject *arguments) {
    int column;
    struct open_file open = {0};
    unsigned page_bytes, usable_bytes, pages;
    PyObject *leaf_pages, *leaf_rows, *lengths, *found = NULL;
    struct btree_file file;
    Py_buffer pages_held, rows_held, lengths_held;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "iIIIOOiO", &open.descriptor, &page_bytes, &usable_bytes, &pages, &leaf_pages,
                          &leaf_rows, &column, &lengths))
        return NULL;
    if (!described(&file, &open, page_bytes, usable_bytes, pages)) return NULL;
    if (!held(leaf_pages, &pages_held, sizeof(uint32_t), 0)) return NULL;
    if (!held(leaf_rows, &rows_held, sizeof(uint32_t), 0)) goto release_pages;
    if (!held(lengths, &lengths_held, sizeof(int64_t), 1)) goto release_rows;
    if (pages_held.len != rows_held.len || column < 0) {
        PyErr_SetString(PyExc_ValueError, "arrays that do not belong together");
        goto release_lengths;
    }
    struct btree_texts texts = {0};
    uint64_t short_records = 0, rows = (uint64_t)lengths_held.len / sizeof(int64_t);
    enum btree_status status;
    Py_BEGIN_ALLOW_THREADS
    status = btree_decode_texts(&file, pages_held.buf, rows_held.buf, (size_t)pages_held.len / sizeof(uint32_t), column,
                                lengths_held.buf, rows, &texts, &short_records);
    Py_END_ALLOW_THREADS
    found = Py_BuildValue("iy#K", (int)status, texts.bytes ? (char *)texts.bytes : "", (Py_ssize_t)texts.size,
                          (unsigned long long)short_records);
    free(texts.bytes);
release_lengths:
    PyBuffer_Release(&lengths_held);
release_rows:
    PyBuffer_Release(&rows_held);
release_pages:
    PyBuffer_Release(&pages_held);
    return found;
}

WATCHED_METHOD(find_leaves)
WATCHED_METHOD(decode)
WATCHED_METHOD(decode_texts)

static PyMethodDef methods[] = {
    {"find_leaves", find_leaves_watched, METH_VARARGS,
     "find_leaves(descriptor, page_bytes, usable_bytes, pages, root, counted) -> (status, page numbers, rows of each)"},
    {"decode", decode_watched, METH_VARARGS,
     "decode(descriptor, page_bytes, usable_bytes, pages, leaf_pages, leaf_rows, columns, alias, out)"
     " -> (status, values of each column that are no integers, its least and greatest value and how many are NULL,"
     " records that end early)"},
    {"decode_texts", decode_texts_watched, METH_VARARGS,
     "decode_texts(descriptor, page_bytes, usable_bytes, pages, leaf_pages, leaf_rows, column, lengths)"
     " -> (status, the texts' bytes one after another, records that end early)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_btree", "Integer columns out of SQLite's table b-trees; see btree.h.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__btree(void) { return PyModule_Create(&module); }
