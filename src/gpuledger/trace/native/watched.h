/* The Python side of a pass that takes long: it is asked, every so many rows, whether it is to end before it is done.
 * It is where Ctrl-C came, and where gpuledger.trace.deadline.check raises. To be included once by a module, whose
 * methods stand in their table as NAME_watched. */
#ifndef GPULEDGER_WATCHED_H
#define GPULEDGER_WATCHED_H

#include <Python.h>

/* Called by passes, without Python's lock. What is raised stands until the method returns. */
static int is_over(void) {
    static PyObject *check;
    PyGILState_STATE lock = PyGILState_Ensure();
    int is_raised = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
    if (!is_raised && !check) {
        PyObject *module = PyImport_ImportModule("gpuledger.trace.deadline");
        check = module ? PyObject_GetAttrString(module, "check") : NULL;
        Py_XDECREF(module);
    }
    if (!is_raised) {
        PyObject *answer = check ? PyObject_CallNoArgs(check) : NULL;
        is_raised = answer == NULL;
        Py_XDECREF(answer);
    }
    PyGILState_Release(lock);
    return is_raised;
}

/* What a pass that was ended left behind is no result. */
static PyObject *unless_raised(PyObject *result) {
    if (!result || !PyErr_Occurred()) return result;
    Py_DECREF(result);
    return NULL;
}

#define WATCHED_METHOD(name) \
    static PyObject *name##_watched(PyObject *self, PyObject *arguments) { return unless_raised(name(self, arguments)); }

#endif
