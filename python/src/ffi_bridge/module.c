/* The extension module: it opens libtvm_ffi, and tells the addresses that C may call. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "convert.h"
#include "library.h"
#include "register.h"

/* Raise the error text as an ImportError: without the library there is nothing to import. */
static PyObject* raise_import_error(void) {
  PyErr_SetString(PyExc_ImportError, TVMGetLastError());
  return NULL;
}

static PyObject* open_library(PyObject* self, PyObject* args) {
  FfiVersion version;
  PyObject* path;
  int rc;
  (void)self;
  if (!PyArg_ParseTuple(args, "O&:open", PyUnicode_FSConverter, &path)) return NULL;
  rc = bridge_open(PyBytes_AS_STRING(path), &version);
  Py_DECREF(path);
  if (rc != 0 || bridge_register_makers() != 0) return raise_import_error();
  return Py_BuildValue("III", version.major, version.minor, version.patch);
}

static PyMethodDef methods[] = {
    {"open", open_library, METH_VARARGS,
     "open(path): join the library of tvm-ffi; its version as (major, minor, patch)."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_tvm_ffi_bridge",
    .m_doc = "Functions of tvm-ffi for classic callers, and the other way round.",
    .m_size = -1,
    .m_methods = methods,
};

static int add_address(PyObject* module, const char* name, uintptr_t address) {
  PyObject* number = PyLong_FromUnsignedLongLong(address);
  int rc = number != NULL ? PyObject_SetAttrString(module, name, number) : -1;
  Py_XDECREF(number);
  return rc;
}

PyMODINIT_FUNC PyInit__tvm_ffi_bridge(void); /* Python finds it by name */

PyMODINIT_FUNC PyInit__tvm_ffi_bridge(void) {
  PyObject* module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  if (add_address(module, "SAFE_CALL", (uintptr_t)bridge_safe_call) != 0 ||
      add_address(module, "PACKED_CALL", (uintptr_t)bridge_packed_call) != 0) {
    Py_CLEAR(module);
  }
  return module;
}
