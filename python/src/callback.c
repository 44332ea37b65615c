/* The call from C to Python: any callable as a packed function. */
#include "core.h"

/* Once the interpreter is going, only the thread that ends it may still run Python. */
static int python_is_gone(void) {
  return !Py_IsInitialized() || (Py_IsFinalizing() && !PyGILState_Check());
}

typedef struct {
  PyThreadState* state; /* taken back from the packed call that this thread is in, or NULL: */
  PyGILState_STATE gil; /* then this is what has to be restored */
} Entry;

/* 0, or -1 if no Python can run on this thread any more. */
static int enter_python(Entry* entry) {
  entry->state = released_state;
  /* C called by others in between may have taken the GIL already */
  if (entry->state != NULL && PyThreadState_GetUnchecked() != entry->state) {
    PyEval_RestoreThread(entry->state);
    return 0;
  }
  entry->state = NULL;
  if (python_is_gone()) return -1;
  entry->gil = PyGILState_Ensure();
  return 0;
}

static void leave_python(Entry entry) {
  if (entry.state != NULL) {
    (void)PyEval_SaveThread();
  } else {
    PyGILState_Release(entry.gil);
  }
}

/* Arguments are borrowed: what is counted gets a reference of its own, a bare DLTensor a view that
   ends with the call. */
static PyObject* argument_to_python(TVMValue* value, int* code) {
  switch (*code) {
    case kTVMArgInt:
      return PyLong_FromLongLong(value->v_int64);
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

static void end_argument(PyObject* object, int code) {
  if (code == kTVMDLTensorHandle && PyObject_TypeCheck(object, &TensorType)) {
    ((TensorObject*)object)->tensor = NULL;
  }
  Py_DECREF(object);
}

static int set_value(TVMValue* value, int* code, TVMRetValueHandle ret) {
  if (TVMCFuncSetReturn(ret, value, code, 1) == 0) return 0;
  raise_last_error();
  return -1;
}

static int set_packed_return(PyObject* result, TVMRetValueHandle ret) {
  Args args;
  int rc;
  if (args_pack(&args, &result, 1) != 0) return -1;
  if (args.codes[0] == kTVMDLTensorHandle) { /* borrowed memory cannot be returned: own a copy */
    PyObject* owned = PyObject_CallFunctionObjArgs(hooks.own_tensor, result, NULL);
    args_release(&args);
    rc = owned ? set_packed_return(owned, ret) : -1;
    Py_XDECREF(owned);
    return rc;
  }
  rc = set_value(args.values, args.codes, ret);
  args_release(&args);
  return rc;
}

static int set_return(PyObject* result, TVMRetValueHandle ret) {
  if (result == Py_None) return 0;
  if (PyLong_CheckExact(result)) { /* the commonest of all */
    TVMValue value = {.v_int64 = PyLong_AsLongLong(result)};
    int code = kTVMArgInt;
    if (value.v_int64 == -1 && PyErr_Occurred()) return -1;
    return set_value(&value, &code, ret);
  }
  return set_packed_return(result, ret);
}

static int call_with(PyObject* callable, PyObject** objects, TVMValue* values, int* codes, int n,
                     TVMRetValueHandle ret) {
  PyObject* result = NULL;
  int made = 0, rc = -1;
  while (made < n && (objects[made] = argument_to_python(&values[made], &codes[made])) != NULL) {
    made++;
  }
  if (made == n) {
    result =
        PyObject_Vectorcall(callable, objects, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
  }
  if (result != NULL) rc = set_return(result, ret);
  Py_XDECREF(result);
  while (made-- > 0) end_argument(objects[made], codes[made]);
  if (rc != 0) record_python_error();
  return rc;
}

/* TVMRuntimeCPackedFunc. Runs on any thread, with or without the GIL. */
static int call_python(TVMValue* values, int* codes, int n, TVMRetValueHandle ret, void* callable) {
  PyObject* inline_objects[MAX_INLINE_ARGS + 1];
  PyObject** objects = inline_objects;
  Entry entry = {NULL, PyGILState_UNLOCKED};
  int rc;
  if (enter_python(&entry) != 0) {
    TVMPackedFuncSetLastError("the Python interpreter has ended and its functions with it");
    return -1;
  }
  if (n > MAX_INLINE_ARGS) objects = PyMem_New(PyObject*, (size_t)n + 1);
  if (objects != NULL) {
    /* the slot before the arguments is lent to the callee, as vectorcall allows */
    rc = call_with(callable, objects + 1, values, codes, n, ret);
  } else {
    PyErr_NoMemory();
    record_python_error();
    rc = -1;
  }
  if (objects != inline_objects) PyMem_Free(objects);
  leave_python(entry);
  return rc == 0 ? 0 : -2; /* -2: the exception itself is kept on this side */
}

/* TVMRuntimeCPackedFuncFinalizer: the last reference of the function is gone. */
static void release_callable(void* callable) {
  PyGILState_STATE state;
  if (python_is_gone()) return;
  state = PyGILState_Ensure();
  Py_DECREF((PyObject*)callable);
  PyGILState_Release(state);
}

int function_from_callable(PyObject* callable, TVMFunctionHandle* out) {
  Py_INCREF(callable);
  if (TVMFuncCreateFromCFunc(call_python, callable, release_callable, out) == 0) return 0;
  Py_DECREF(callable);
  raise_last_error();
  return -1;
}

PyObject* core_function_from_callable(PyObject* self, PyObject* callable) {
  TVMFunctionHandle handle = NULL;
  (void)self;
  if (!PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "a %s cannot be called", Py_TYPE(callable)->tp_name);
  }
  if (function_from_callable(callable, &handle) != 0) return NULL;
  return make_function(handle);
}
