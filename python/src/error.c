/* Errors in both directions. The exception of a Python callback is kept while its text passes
   through C. If the text arrives on the same thread, the same exception is raised again, with its
   traceback. */
#include "core.h"

static _Thread_local PyObject* recorded_exception = NULL;
static _Thread_local PyObject* recorded_text = NULL;
/* For all threads; usually 0, which saves calls the access to thread-local variables. */
atomic_int num_recorded_errors = 0;

/* Needs the GIL. The counter is first, because releasing an exception may run Python code. */
void forget_python_error(void) {
  if (recorded_exception == NULL) return;
  (void)atomic_fetch_sub(&num_recorded_errors, 1);
  Py_CLEAR(recorded_exception);
  Py_CLEAR(recorded_text);
}

#if PY_VERSION_HEX >= 0x030C0000
PyObject* take_exception(void) { return PyErr_GetRaisedException(); }
void raise_exception(PyObject* exception) { PyErr_SetRaisedException(exception); }
#else
/* Return the exception as one object; before Python 3.12 it has three parts. */
PyObject* take_exception(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != NULL) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}
void raise_exception(PyObject* exception) {
  PyErr_Restore(Py_NewRef((PyObject*)Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
}
#endif

/* Return "Kind: message". The text of a KeyError is its key in quotes, which an exception made
   from the text would quote again; a string key is therefore used itself. */
static PyObject* text_of(PyObject* exception) {
  const char* kind = Py_TYPE(exception)->tp_name;
  PyObject* key = NULL;
  PyObject* text;
  if (Py_TYPE(exception)->tp_str == ((PyTypeObject*)PyExc_KeyError)->tp_str) {
    PyObject* args = PyObject_GetAttrString(exception, "args");
    if (args != NULL && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1) {
      key = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    }
    Py_XDECREF(args);
    PyErr_Clear();
  }
  text = key != NULL && PyUnicode_Check(key) ? PyUnicode_FromFormat("%s: %U", kind, key)
                                             : PyUnicode_FromFormat("%s: %S", kind, exception);
  Py_XDECREF(key);
  return text;
}

/* C gets the text; a Python caller of C gets the exception back by raise_last_error(). */
void record_python_error(void) {
  PyObject* exception = take_exception();
  PyObject* text;
  const char* utf8;
  forget_python_error();
  if (exception == NULL) {
    TVMPackedFuncSetLastError("SystemError: a Python function failed without an exception");
    return;
  }
  text = text_of(exception);
  utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
  PyErr_Clear(); /* a failure to create the text must not hide the exception */
  TVMPackedFuncSetLastError(utf8 ? utf8 : Py_TYPE(exception)->tp_name);
  if (utf8 == NULL) {
    Py_XDECREF(text);
    text = PyUnicode_FromString(Py_TYPE(exception)->tp_name);
  }
  if (released_state == NULL) { /* a thread of C: no Python code there could raise it again */
    Py_DECREF(exception);
    Py_XDECREF(text);
    return;
  }
  recorded_exception = exception;
  recorded_text = text;
  (void)atomic_fetch_add(&num_recorded_errors, 1);
}

/* Always returns NULL. If the error text equals the recorded one, the exception itself is raised
   again. If the text contains it, the exception becomes the cause of a new one. Otherwise the
   recorded exception is unrelated to this error. */
PyObject* raise_last_error(void) {
  const char* utf8 = TVMGetLastError();
  PyObject* cause = recorded_exception;
  PyObject* cause_text = recorded_text;
  PyObject *text, *exception;
  int found = 0;
  recorded_exception = recorded_text = NULL;
  if (cause != NULL) (void)atomic_fetch_sub(&num_recorded_errors, 1);
  text = PyUnicode_DecodeUTF8(utf8, (Py_ssize_t)strlen(utf8), "replace");
  if (text != NULL && cause_text != NULL) found = PyUnicode_Contains(text, cause_text);
  if (found == 1 && PyUnicode_GET_LENGTH(text) == PyUnicode_GET_LENGTH(cause_text)) {
    raise_exception(cause);
    cause = NULL;
  } else if (text != NULL && found >= 0) {
    exception = PyObject_CallFunctionObjArgs(hooks.make_error, text, NULL);
    if (exception != NULL && found == 1) {
      PyException_SetCause(exception, cause);
      cause = NULL;
    }
    if (exception != NULL) raise_exception(exception);
  }
  Py_XDECREF(text);
  Py_XDECREF(cause);
  Py_XDECREF(cause_text);
  return NULL;
}
