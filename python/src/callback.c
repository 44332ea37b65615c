/* Calls from C to Python: any callable as a packed function.

   C may call from any thread. A thread that runs a packed call for Python has a thread state; a
   thread of C gets one for the call. An exception becomes an error of C with its text. If the
   thread runs Python code further up the stack, the exception itself is kept for that code. */
#include "core.h"

/* Convert a borrowed argument: a counted object gets its own reference, a bare DLTensor becomes a
   view that ends with the call. */
static TVMRT_NOINLINE PyObject* uncommon_argument_to_python(TVMValue* value, int* code) {
  switch (*code) {
    case kTVMDLTensorHandle:
      return value->v_handle ? make_borrowed_tensor(value->v_handle) : Py_NewRef(Py_None);
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
    case kTVMNDArrayHandle:
    case kTVMObjectRValueRefArg:
      if (TVMCbArgToReturn(value, code) != 0) return raise_last_error();
      break;
    default:
      break;
  }
  return value_to_python(*value, *code);
}

/* End the views among the arguments after the call, even if the objects are still referenced. */
static TVMRT_NOINLINE void end_views(PyObject* const* objects, const int* codes, Py_ssize_t n) {
  Py_ssize_t i;
  for (i = 0; i < n; i++) {
    if (codes[i] == kTVMDLTensorHandle && PyObject_TypeCheck(objects[i], &TensorType)) {
      ((TensorObject*)objects[i])->tensor = NULL;
    }
  }
}

/* Destination of the result of a call. */
typedef struct {
  TVMValue* value;
  int* code;
} Return;

/* Pack the result, which is borrowed; the runtime takes its own reference or copy. */
static TVMRT_NOINLINE int return_packed(PyObject* result, Return ret) {
  Args args;
  int rc;
  if (args_pack(&args, NULL, &result, 1) != 0) return -1;
  if (args.codes[0] == kTVMDLTensorHandle) { /* borrowed memory cannot be returned: copy it */
    PyObject* owned = PyObject_CallFunctionObjArgs(hooks.own_tensor, result, NULL);
    args_release(&args);
    rc = owned ? return_packed(owned, ret) : -1;
    Py_XDECREF(owned);
    return rc;
  }
  rc = tvmrt_func_return(args.values, args.codes[0], ret.value, ret.code);
  if (rc != 0) raise_last_error();
  args_release(&args);
  return rc;
}

/* For None, the caller has set the result already. */
static inline int return_to_c(PyObject* result, Return ret) {
  if (PyLong_CheckExact(result)) { /* the most common type */
    const long long value = PyLong_AsLongLong(result);
    if (value == -1 && PyErr_Occurred()) return -1;
    ret.value->v_int64 = value;
    *ret.code = kTVMArgInt;
    return 0;
  }
  return result == Py_None ? 0 : return_packed(result, ret);
}

/* PyObject_Vectorcall() without its checks, which only detect bugs in extension modules. */
static inline PyObject* vectorcall(PyObject* callable, PyObject** objects, size_t n) {
  PyTypeObject* type = Py_TYPE(callable);
  vectorcallfunc function = NULL;
  n |= PY_VECTORCALL_ARGUMENTS_OFFSET; /* the callee may use the slot before the arguments */
  if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL)) {
    memcpy(&function, (char*)callable + type->tp_vectorcall_offset, sizeof(function));
  }
  if (function == NULL) return PyObject_Vectorcall(callable, objects, n, NULL);
  return function(callable, objects, n, NULL);
}

/* Release the references of the arguments; a callee that keeps one has its own reference. */
static void release_all(PyObject** objects, Py_ssize_t n) {
  while (n > 0) Py_DECREF(objects[--n]);
}

/* Return a result that may be a view or contain one, before the views end. Text is returned again
   after that, because destructors may have used the thread's slot for it. */
static TVMRT_NOINLINE int return_past_views(PyObject* result, Return ret, PyObject** objects,
                                            const int* codes, Py_ssize_t n) {
  int rc = return_to_c(result, ret);
  end_views(objects, codes, n);
  release_all(objects, n);
  if (rc == 0 && (*ret.code == kTVMStr || *ret.code == kTVMBytes)) rc = return_to_c(result, ret);
  return rc;
}

/* Call with `objects` as memory for the arguments. On failure, an exception is set and all created
   objects are released. */
static inline int call_with_objects(PyObject** objects, PyObject* callable, TVMValue* values,
                                    int* codes, Py_ssize_t n, Return ret) {
  PyObject* result = NULL;
  Py_ssize_t made = 0;
  int views = 0, rc = -1;
  for (; made < n; made++) {
    if (codes[made] == kTVMArgInt) { /* the most common type */
      objects[made] = PyLong_FromLongLong(values[made].v_int64);
    } else {
      views |= codes[made] == kTVMDLTensorHandle;
      objects[made] = uncommon_argument_to_python(&values[made], &codes[made]);
    }
    if (objects[made] == NULL) break;
  }
  if (made == n) result = vectorcall(callable, objects, (size_t)n);
  if (views && result != NULL) {
    rc = return_past_views(result, ret, objects, codes, made);
  } else {
    if (views) end_views(objects, codes, made);
    release_all(objects, made);
    if (result != NULL) rc = return_to_c(result, ret);
  }
  Py_XDECREF(result);
  if (rc == 0) return 0;
  record_python_error();
  return -2; /* the exception itself is kept by Python */
}

/* Not inlined, like other rare paths, so that the common path needs little stack on any thread. */
static TVMRT_NOINLINE int call_with_many(PyObject* callable, TVMValue* values, int* codes, int n,
                                         Return ret) {
  PyObject** objects = PyMem_New(PyObject*, (size_t)n + 1);
  int rc;
  if (objects == NULL) {
    PyErr_NoMemory();
    record_python_error();
    return -2;
  }
  rc = call_with_objects(objects + 1, callable, values, codes, n, ret);
  PyMem_Free(objects);
  return rc;
}

/* Call with few arguments on the stack, and a slot before them for the callee. */
static inline int call_with(PyObject* callable, TVMValue* values, int* codes, int n, Return ret) {
  PyObject* objects[MAX_INLINE_ARGS + 1];
  if (n > MAX_INLINE_ARGS) return call_with_many(callable, values, codes, n, ret);
  return call_with_objects(objects + 1, callable, values, codes, n, ret);
}

/* Call from a thread that is not in a packed call of Python, or that holds the GIL again. In the
   second case an exception may be pending, if a destructor calls this; it is preserved. */
static TVMRT_NOINLINE int call_from_foreign_thread(PyObject* callable, TVMValue* values, int* codes,
                                                   int n, Return ret) {
  PyGILState_STATE gil;
  PyObject* pending;
  int rc;
  if (python_has_ended()) {
    TVMPackedFuncSetLastError(
        "the Python interpreter has shut down; its functions cannot be called");
    return -1;
  }
  gil = PyGILState_Ensure();
  pending = take_exception();
  rc = call_with(callable, values, codes, n, ret);
  if (pending != NULL) raise_exception(pending);
  PyGILState_Release(gil);
  return rc;
}

/* TVMCPackedFunc. Runs on any thread, with or without the GIL. */
static int call_python(TVMValue* values, int* codes, int n, TVMValue* ret_value, int* ret_code,
                       void* callable) {
  const Return ret = {ret_value, ret_code};
  PyThreadState* state = released_state;
  int rc;
  /* other C code in between may have taken the GIL already */
  if (state == NULL || PyThreadState_GetUnchecked() == state) {
    return call_from_foreign_thread(callable, values, codes, n, ret);
  }
  /* the thread's own state, released in call_packed() */
  PyEval_RestoreThread(state);
  rc = call_with(callable, values, codes, n, ret);
  (void)PyEval_SaveThread();
  return rc;
}

/* TVMPackedCFuncFinalizer: called with the last reference of the function. This may be on any
   thread, long after the call that created it, or while Python exits. */
static void release_callable(void* callable) {
  PyGILState_STATE state;
  if (python_has_ended()) return;
  state = PyGILState_Ensure();
  Py_DECREF((PyObject*)callable);
  PyGILState_Release(state);
}

/* *out has one reference, owned by the caller; the function holds the callable. */
int function_from_callable(PyObject* callable, TVMFunctionHandle* out) {
  Py_INCREF(callable);
  if (tvmrt_func_create(call_python, callable, release_callable, out) == 0) return 0;
  Py_DECREF(callable);
  raise_last_error();
  return -1;
}

/* The number of arguments is not checked here; the callable does that when it is called. */
PyObject* core_function_from_callable(PyObject* self, PyObject* callable) {
  TVMFunctionHandle handle = NULL;
  (void)self;
  if (!PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "a %s cannot be called", Py_TYPE(callable)->tp_name);
  }
  if (function_from_callable(callable, &handle) != 0) return NULL;
  return make_function(handle);
}
