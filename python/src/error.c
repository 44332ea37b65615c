/* Errors in both directions. The exception of a Python callback is kept while its text travels
   through C; when the text comes out on the same thread the same exception is raised again, with
   its traceback. */
#include "core.h"

static _Thread_local PyObject* recorded_exception = NULL;
static _Thread_local PyObject* recorded_text = NULL;
/* Of all threads: that it is 0, as nearly always, spares calls a look at the thread's own. */
atomic_int num_recorded_errors = 0;

/* With the GIL. The count first, since ending an exception may run Python code that looks at it. */
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
/* An exception as one object, before Python 3.12 made of three. */
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

/* "Kind: message". A KeyError's own text is its key in quotes, which whoever makes an exception of
   the text would put in quotes again: so the key itself, where it is text. */
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

/* C gets the text; whoever called C from Python gets the exception back, by raise_last_error(). */
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
  PyErr_Clear(); /* a text that cannot be made must not hide the exception */
  TVMPackedFuncSetLastError(utf8 ? utf8 : Py_TYPE(exception)->tp_name);
  if (utf8 == NULL) {
    Py_XDECREF(text);
    text = PyUnicode_FromString(Py_TYPE(exception)->tp_name);
  }
  if (released_state == NULL) { /* a thread of C's: nobody there could raise it again */
    Py_DECREF(exception);
    Py_XDECREF(text);
    return;
  }
  recorded_exception = exception;
  recorded_text = text;
  (void)atomic_fetch_add(&num_recorded_errors, 1);
}

/* Always NULL. Where the text is just what was recorded nobody has added to it, and the exception
   itself is raised; where it has become part of a longer one it is that one's cause; else it has
   nothing to do with this error. */
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
