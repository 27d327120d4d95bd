/* The Python side of pickle_tree.c: gpuledger.trace.native._pickle_tree, in the stable ABI. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pickle_tree.h"
#include "watched.h"

#include <stdlib.h>
#include <string.h>

/* An array as a bytearray; the array is freed at once, so that both are there for as short as can be. */
static PyObject *handed_over(void **array, size_t bytes) {
    PyObject *made = PyByteArray_FromStringAndSize(*array ? *array : "", (Py_ssize_t)bytes);
    free(*array);
    *array = NULL;
    return made;
}

static PyObject *read_tree(PyObject *self, PyObject *arguments) {
    PyObject *pickled, *found = NULL;
    Py_buffer held;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O", &pickled)) return NULL;
    if (PyObject_GetBuffer(pickled, &held, PyBUF_C_CONTIGUOUS)) return NULL;
    struct pickle_tree tree;
    enum pickle_status status;
    Py_BEGIN_ALLOW_THREADS
    status = pickle_tree_read(held.buf, (size_t)held.len, is_over, &tree);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&held);
    if (PyErr_Occurred() || status == PICKLE_NO_MEMORY) {
        pickle_tree_free(&tree);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    if (status != PICKLE_OK) {
        found = Py_BuildValue("inI", (int)status, (Py_ssize_t)tree.offset, 0u);
        pickle_tree_free(&tree);
        return found;
    }
    size_t nodes = tree.nodes, used = tree.used;
    PyObject *kind = handed_over((void **)&tree.kind, nodes * sizeof(uint8_t));
    PyObject *value = kind ? handed_over((void **)&tree.value, nodes * sizeof(int64_t)) : NULL;
    PyObject *count = value ? handed_over((void **)&tree.count, nodes * sizeof(uint32_t)) : NULL;
    PyObject *children = count ? handed_over((void **)&tree.children, used * sizeof(uint32_t)) : NULL;
    if (children)
        found = Py_BuildValue(
            "inIOOOO", (int)status, (Py_ssize_t)tree.offset, tree.root, kind, value, count, children);
    pickle_tree_free(&tree);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(count);
    Py_XDECREF(children);
    return found;
}

static uint64_t hash_key; /* drawn once, when the module is loaded; no result depends on it */

/* Hold columns for reading, and the last two for writing; children are of 32 bits, the others of 64. */
static int held_columns(PyObject *arguments, Py_buffer held[5]) {
    for (int at = 0; at < 5; at++) {
        PyObject *each = PyTuple_GetItem(arguments, at);
        int how = PyBUF_C_CONTIGUOUS | (at >= 3 ? PyBUF_WRITABLE : 0);
        if (each && !PyObject_GetBuffer(each, &held[at], how)) {
            if (held[at].itemsize == (at == 2 ? 4 : 8)) continue;
            PyErr_SetString(PyExc_ValueError, "a column of other integers");
            PyBuffer_Release(&held[at]);
        }
        while (at) PyBuffer_Release(&held[--at]);
        return 0;
    }
    return 1;
}

static PyObject *group_lists(PyObject *self, PyObject *arguments) {
    Py_buffer held[5];
    (void)self;
    if (!held_columns(arguments, held)) return NULL;
    size_t lists = (size_t)held[0].len / 8;
    int64_t groups = -1;
    if (held[1].len == held[0].len && held[3].len == held[0].len && held[4].len == held[0].len) {
        Py_BEGIN_ALLOW_THREADS
        groups = pickle_tree_groups(held[0].buf, held[1].buf, lists, held[2].buf, (size_t)held[2].len / 4, hash_key,
                                    is_over, held[3].buf, held[4].buf);
        Py_END_ALLOW_THREADS
    }
    for (int at = 0; at < 5; at++) PyBuffer_Release(&held[at]);
    if (groups < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "lists that do not lie in their children");
    return groups < 0 ? NULL : PyLong_FromLongLong(groups);
}

WATCHED_METHOD(read_tree)
WATCHED_METHOD(group_lists)

static PyMethodDef methods[] = {
    {"read_tree", read_tree_watched, METH_VARARGS,
     "read_tree(bytes) -> (status, offset, root, kinds, values, counts, children); the last four where the status is 0"},
    {"group_lists", group_lists_watched, METH_VARARGS,
     "group_lists(first, count, children, group, member) -> how many lists differ; group and member are written"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_pickle_tree", "Plain values out of a pickle; see pickle_tree.h.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pickle_tree(void) {
    PyObject *made = PyModule_Create(&module), *system = PyImport_ImportModule("os");
    PyObject *drawn = system ? PyObject_CallMethod(system, "urandom", "i", (int)sizeof hash_key) : NULL;
    const char *bytes = drawn ? PyBytes_AsString(drawn) : NULL;
    if (bytes) memcpy(&hash_key, bytes, sizeof hash_key);
    Py_XDECREF(drawn);
    Py_XDECREF(system);
    if (!bytes) Py_CLEAR(made);
    return made;
}
