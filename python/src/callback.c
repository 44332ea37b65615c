/* The call from C to Python: any callable as a packed function.

   C may call from any thread: from one that Python has lent it for the time of a packed call, whose
   state is at hand, or from one of its own, which gets a state for the call. An exception ends as an
   error of C with its text, and is kept for the Python code around, where there is any on this
   thread. */
#include "core.h"

/* Arguments are borrowed: what is counted gets a reference of its own, a bare DLTensor a view that
   ends with the call. */
static TVMRT_NOINLINE PyObject* other_argument_to_python(TVMValue* value, int* code) {
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

/* The views among the arguments end with the call, whoever still holds the objects. */
static TVMRT_NOINLINE void end_views(PyObject* const* objects, const int* codes, Py_ssize_t n) {
  Py_ssize_t i;
  for (i = 0; i < n; i++) {
    if (codes[i] == kTVMDLTensorHandle && PyObject_TypeCheck(objects[i], &TensorType)) {
      ((TensorObject*)objects[i])->tensor = NULL;
    }
  }
}

/* Where the result of a call belongs. */
typedef struct {
  TVMValue* value;
  int* code;
} Return;

/* What is packed borrows from the result; the runtime takes a reference or a copy of its own. */
static TVMRT_NOINLINE int return_packed(PyObject* result, Return ret) {
  Args args;
  int rc;
  if (args_pack(&args, NULL, &result, 1) != 0) return -1;
  if (args.codes[0] == kTVMDLTensorHandle) { /* borrowed memory cannot be returned: own a copy */
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

/* None is what the caller has set already. */
static inline int return_to_c(PyObject* result, Return ret) {
  if (PyLong_CheckExact(result)) { /* the commonest of all */
    const long long value = PyLong_AsLongLong(result);
    if (value == -1 && PyErr_Occurred()) return -1;
    ret.value->v_int64 = value;
    *ret.code = kTVMArgInt;
    return 0;
  }
  return result == Py_None ? 0 : return_packed(result, ret);
}

/* PyObject_Vectorcall() without its checks, which find faults of extension modules. */
static inline PyObject* vectorcall(PyObject* callable, PyObject** objects, size_t n) {
  PyTypeObject* type = Py_TYPE(callable);
  vectorcallfunc function = NULL;
  n |= PY_VECTORCALL_ARGUMENTS_OFFSET; /* the slot before the arguments is lent to the callee */
  if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL)) {
    memcpy(&function, (char*)callable + type->tp_vectorcall_offset, sizeof(function));
  }
  if (function == NULL) return PyObject_Vectorcall(callable, objects, n, NULL);
  return function(callable, objects, n, NULL);
}

/* The arguments' own references, in any case: a callee that keeps one has taken its own. */
static void release_all(PyObject** objects, Py_ssize_t n) {
  while (n > 0) Py_DECREF(objects[--n]);
}

/* The result may be one of the views, or hold one: it is returned while they last. Text is so once
   more after them, as what ends with them may have used the thread's slot for it. */
static TVMRT_NOINLINE int return_past_views(PyObject* result, Return ret, PyObject** objects,
                                            const int* codes, Py_ssize_t n) {
  int rc = return_to_c(result, ret);
  end_views(objects, codes, n);
  release_all(objects, n);
  if (rc == 0 && (*ret.code == kTVMStr || *ret.code == kTVMBytes)) rc = return_to_c(result, ret);
  return rc;
}

/* Call with arguments for which there is room in `objects`. What fails on the way has an exception,
   and whatever was made is released. */
static inline int call_in(PyObject** objects, PyObject* callable, TVMValue* values, int* codes,
                          Py_ssize_t n, Return ret) {
  PyObject* result = NULL;
  Py_ssize_t made = 0;
  int views = 0, rc = -1;
  for (; made < n; made++) {
    if (codes[made] == kTVMArgInt) { /* the commonest of all */
      objects[made] = PyLong_FromLongLong(values[made].v_int64);
    } else {
      views |= codes[made] == kTVMDLTensorHandle;
      objects[made] = other_argument_to_python(&values[made], &codes[made]);
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
  return -2; /* the exception itself is kept on this side */
}

/* Not inlined, nor are other rare ways: the common one has a small frame, on any thread's stack. */
static TVMRT_NOINLINE int call_with_many(PyObject* callable, TVMValue* values, int* codes, int n,
                                         Return ret) {
  PyObject** objects = PyMem_New(PyObject*, (size_t)n + 1);
  int rc;
  if (objects == NULL) {
    PyErr_NoMemory();
    record_python_error();
    return -2;
  }
  rc = call_in(objects + 1, callable, values, codes, n, ret);
  PyMem_Free(objects);
  return rc;
}

/* Room on the stack for calls of few arguments, and a slot before them for the callee. */
static inline int call_with(PyObject* callable, TVMValue* values, int* codes, int n, Return ret) {
  PyObject* objects[MAX_INLINE_ARGS + 1];
  if (n > MAX_INLINE_ARGS) return call_with_many(callable, values, codes, n, ret);
  return call_in(objects + 1, callable, values, codes, n, ret);
}

/* On a thread that is in no packed call of Python's, or that has the GIL again. There an exception may
   be on its way, past an object whose end calls this: it goes on. */
static TVMRT_NOINLINE int call_from_outside(PyObject* callable, TVMValue* values, int* codes, int n,
                                            Return ret) {
  PyGILState_STATE gil;
  PyObject* pending;
  int rc;
  if (python_is_gone()) {
    TVMPackedFuncSetLastError("the Python interpreter has ended and its functions with it");
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
  /* C called by others in between may have taken the GIL already */
  if (state == NULL || PyThreadState_GetUnchecked() == state) {
    return call_from_outside(callable, values, codes, n, ret);
  }
  /* the thread's own state, which it has let go of in call_packed() */
  PyEval_RestoreThread(state);
  rc = call_with(callable, values, codes, n, ret);
  (void)PyEval_SaveThread();
  return rc;
}

/* TVMPackedCFuncFinalizer: the last reference of the function is gone. It may come from any thread,
   long after the call that made it, and while Python ends. */
static void release_callable(void* callable) {
  PyGILState_STATE state;
  if (python_is_gone()) return;
  state = PyGILState_Ensure();
  Py_DECREF((PyObject*)callable);
  PyGILState_Release(state);
}

/* *out has one reference, which is the caller's; the function holds the callable. */
int function_from_callable(PyObject* callable, TVMFunctionHandle* out) {
  Py_INCREF(callable);
  if (tvmrt_func_create(call_python, callable, release_callable, out) == 0) return 0;
  Py_DECREF(callable);
  raise_last_error();
  return -1;
}

/* A number of arguments is not asked for: the callable says so itself when it is called. */
PyObject* core_function_from_callable(PyObject* self, PyObject* callable) {
  TVMFunctionHandle handle = NULL;
  (void)self;
  if (!PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "a %s cannot be called", Py_TYPE(callable)->tp_name);
  }
  if (function_from_callable(callable, &handle) != 0) return NULL;
  return make_function(handle);
}
