/* PackedFunc: calls from Python to C. */
#include "core.h"

/* State of this thread while C runs for it, with or without the GIL; NULL outside of calls.
   Callbacks use it to acquire the GIL faster than PyGILState_Ensure(), which looks the state up.
   Calls inside callbacks restore the outer value. */
TVMRT_THREAD_LOCAL PyThreadState* released_state = NULL;

/* Call with packed arguments; releases the GIL unless the function keeps it. */
static inline PyObject* call_packed(const FunctionObject* function, TVMValue* values, int* codes,
                                    int count) {
  PyThreadState *state, *outer = released_state;
  TVMValue value;
  int code, rc;
  /* relaxed: a call concurrent with a change may use either value */
  if (atomic_load_explicit(&function->keeps_gil, memory_order_relaxed)) {
    released_state = PyThreadState_GetUnchecked();
    rc = TVMFuncCall(function->handle, values, codes, count, &value, &code);
    released_state = outer;
  } else {
    released_state = state = PyEval_SaveThread();
    rc = TVMFuncCall(function->handle, values, codes, count, &value, &code);
    released_state = outer;
    PyEval_RestoreThread(state);
  }
  if (rc != 0) return raise_last_error();
  /* C has handled the error of a callback. Its exception is dropped only after the result is
     converted, because its destructor may overwrite a text in the thread's slot. */
  if (has_recorded_errors()) {
    PyObject* result = value_to_python(value, code);
    forget_python_error();
    return result;
  }
  return code == kTVMNullptr ? Py_NewRef(Py_None) : value_to_python(value, code);
}

/* Separate from calls without arguments, which then need no stack space for them. Functions that
   take addresses of local variables have a stack canary; this way there is one per call. */
static TVMRT_NOINLINE PyObject* call_with_arguments(const FunctionObject* function,
                                                    PyObject* const* values, Py_ssize_t n) {
  PyObject* result;
  Args args;
  if (args_pack(&args, function->handle, values, n) != 0) return NULL;
  result = call_packed(function, args.values, args.codes, args.count);
  args_release(&args);
  return result;
}

/* There is nothing to pack; C gets empty arrays. */
static TVMRT_NOINLINE PyObject* call_without_arguments(const FunctionObject* function) {
  TVMValue none;
  int no_code;
  return call_packed(function, &none, &no_code, 0);
}

/* The vectorcall slot, which Python calls without a tuple of arguments. */
static PyObject* function_vectorcall(PyObject* self, PyObject* const* values, size_t nargsf,
                                     PyObject* names) {
  const FunctionObject* function = (const FunctionObject*)self;
  Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  if (names != NULL && PyTuple_GET_SIZE(names) != 0) {
    PyErr_SetString(PyExc_TypeError, "a packed function takes no keyword arguments");
    return NULL;
  }
  if (n == 0) return call_without_arguments(function);
  return call_with_arguments(function, values, n);
}

/* Take ownership of the handle, also on failure. */
PyObject* make_function(TVMFunctionHandle handle) {
  FunctionObject* self;
  if (handle == NULL) Py_RETURN_NONE;
  self = PyObject_New(FunctionObject, &FunctionType);
  if (self == NULL) {
    TVMFuncFree(handle);
    return NULL;
  }
  self->vectorcall = function_vectorcall;
  self->handle = handle;
  self->weakrefs = NULL;
  atomic_init(&self->keeps_gil, tvmrt_func_is_short(handle));
  return (PyObject*)self;
}

/* Take an address returned by C with a reference, which the object then owns. */
PyObject* core_function_from_handle(PyObject* self, PyObject* address) {
  void* handle = PyLong_AsVoidPtr(address);
  (void)self;
  if (handle == NULL && PyErr_Occurred()) return NULL;
  return make_function(handle);
}

/* Releasing the last reference may run a finaliser of C, which acquires the GIL if needed. */
static void function_dealloc(PyObject* self) {
  FunctionObject* function = (FunctionObject*)self;
  if (function->weakrefs != NULL) PyObject_ClearWeakRefs(self);
  TVMFuncFree(function->handle);
  PyObject_Free(self);
}

/* The object keeps its reference; code that stores the address must retain the handle. */
static PyObject* function_get_handle(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((FunctionObject*)self)->handle);
}

static PyObject* function_repr(PyObject* self) {
  return PyUnicode_FromFormat("<tvmrt.runtime.PackedFunc at %p>", ((FunctionObject*)self)->handle);
}

/* Two objects with the same handle are equal. */
static PyObject* function_richcompare(PyObject* left, PyObject* right, int op) {
  int equal;
  if (!Py_IS_TYPE(right, &FunctionType) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  equal = ((FunctionObject*)left)->handle == ((FunctionObject*)right)->handle;
  return PyBool_FromLong(equal == (op == Py_EQ));
}

/* Equal functions have the same handle, so its address is the hash. */
static Py_hash_t function_hash(PyObject* self) {
  return _Py_HashPointer(((FunctionObject*)self)->handle);
}

/* Raise an error with advice, since pickling would fail later with a less helpful one. */
static PyObject* function_reduce(PyObject* self, PyObject* none) {
  (void)self;
  (void)none;
  PyErr_SetString(PyExc_TypeError,
                  "a packed function is an address in this process and cannot be pickled; "
                  "pickle the module and ask it for the function");
  return NULL;
}

/* The setting belongs to the object; other objects of the same function are not affected. */
static PyObject* function_get_release_gil(PyObject* self, void* closure) {
  (void)closure;
  return PyBool_FromLong(!atomic_load(&((FunctionObject*)self)->keeps_gil));
}

/* Takes effect with the next call; calls in progress use the value that they have read. */
static int function_set_release_gil(PyObject* self, PyObject* value, void* closure) {
  const int release = value == NULL ? -1 : PyObject_IsTrue(value);
  (void)closure;
  if (value == NULL) PyErr_SetString(PyExc_AttributeError, "release_gil cannot be deleted");
  if (release < 0) return -1;
  atomic_store(&((FunctionObject*)self)->keeps_gil, !release);
  return 0;
}

static PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef function_getset[] = {
    {"handle", function_get_handle, NULL, "Address of the C handle; the object owns one reference.",
     NULL},
    {"release_gil", function_get_release_gil, function_set_release_gil,
     "Whether other Python threads run during a call: True, but for functions of the runtime that "
     "are "
     "known to be short. Where it is False a call takes a fraction of the time; such a function "
     "must "
     "not wait for a thread that needs Python. It belongs to this object, not to the function.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject FunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime.PackedFunc",
    .tp_doc =
        "A function with the packed calling convention.\n\n"
        "Call it with None, numbers, str, bytes, NDArray, contiguous numpy arrays (passed\n"
        "without a copy, for the time of the call), Device, DataType, Module, PackedFunc,\n"
        "callables, lists, tuples and dicts. The GIL is released while C runs, unless release_gil "
        "is False. An error\n"
        "in C is raised as the exception type that its text names, else as TVMError.",
    .tp_basicsize = sizeof(FunctionObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(FunctionObject, vectorcall),
    .tp_weaklistoffset = offsetof(FunctionObject, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = function_dealloc,
    .tp_repr = function_repr,
    .tp_richcompare = function_richcompare,
    .tp_hash = function_hash,
    .tp_methods = function_methods,
    .tp_getset = function_getset,
};
