/* Python API macros that are functions in the stable ABI, as functions: with this header
   included first, the extension makes the calls that the stable ABI requires. */
#include <Python.h>

#undef Py_INCREF
#undef Py_DECREF
#undef Py_XINCREF
#undef Py_XDECREF
#undef Py_NewRef
#undef Py_XNewRef
#define Py_INCREF(op) Py_IncRef((PyObject*)(op))
#define Py_DECREF(op) Py_DecRef((PyObject*)(op))
#define Py_XINCREF(op) Py_IncRef((PyObject*)(op))
#define Py_XDECREF(op) Py_DecRef((PyObject*)(op))
#define Py_NewRef(op) _Py_NewRef_by_call((PyObject*)(op))
#define Py_XNewRef(op) _Py_NewRef_by_call((PyObject*)(op))
static inline PyObject* _Py_NewRef_by_call(PyObject* op) {
  Py_IncRef(op);
  return op;
}

#undef PyTuple_GET_SIZE
#undef PyTuple_GET_ITEM
#undef PyTuple_SET_ITEM
#define PyTuple_GET_SIZE(op) PyTuple_Size((PyObject*)(op))
#define PyTuple_GET_ITEM(op, i) PyTuple_GetItem((PyObject*)(op), (i))
#define PyTuple_SET_ITEM(op, i, v) PyTuple_SetItem((PyObject*)(op), (i), (v))

#undef PyFloat_AS_DOUBLE
#undef PyBytes_AS_STRING
#undef PyUnicode_GET_LENGTH
#define PyFloat_AS_DOUBLE(op) PyFloat_AsDouble((PyObject*)(op))
#define PyBytes_AS_STRING(op) PyBytes_AsString((PyObject*)(op))
#define PyUnicode_GET_LENGTH(op) PyUnicode_GetLength((PyObject*)(op))

#undef PyType_FastSubclass
#define PyType_FastSubclass(type, flag) ((PyType_GetFlags(type) & (flag)) != 0)
