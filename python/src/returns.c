/* What C returns, as Python values; owned handles become objects that release them.

   Texts and bytes lie in the thread's slot until its next call, so they are copied here, before any
   Python code can make one. */
#include "core.h"

/* Texts of C may be no UTF-8, as paths are; what is not comes back as it was when it is encoded
   again. */
static PyObject* string_to_python(const char* text) {
  if (text == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

/* A copy that can be written to, as TVM's front end gives it. What C returned lies in the thread's
   slot. */
static PyObject* bytes_to_python(const TVMByteArray* bytes) {
  if (bytes == NULL) Py_RETURN_NONE;
  return PyByteArray_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
}

/* The class, or a function that makes something else of the object, is Python's to say: it knows
   types that were registered there. */
static TVMRT_NOINLINE PyObject* object_to_python(void* handle) {
  unsigned type_index = 0;
  PyObject *index, *maker, *object, *result;
  if (TVMObjectGetTypeIndex(handle, &type_index) != 0) {
    TVMObjectFree(handle);
    return raise_last_error();
  }
  index = PyLong_FromUnsignedLong(type_index);
  maker = index ? PyObject_CallFunctionObjArgs(hooks.object_class, index, NULL) : NULL;
  Py_XDECREF(index);
  if (maker == NULL) {
    TVMObjectFree(handle);
    return NULL;
  }
  if (PyType_Check(maker) && PyType_IsSubtype((PyTypeObject*)maker, &ObjectType)) {
    result = make_handle_object((PyTypeObject*)maker, handle);
  } else {
    object = make_handle_object(&ObjectType, handle);
    result = object ? PyObject_CallFunctionObjArgs(maker, object, NULL) : NULL;
    Py_XDECREF(object);
  }
  Py_DECREF(maker);
  return result;
}

/* Not a number: what is no address must not be passed back as one. */
static PyObject* pointer_to_python(void* pointer) {
  PyObject* address = PyLong_FromVoidPtr(pointer);
  PyObject* result;
  if (address == NULL) return NULL;
  result = PyObject_CallFunctionObjArgs(hooks.opaque_pointer, address, NULL);
  Py_DECREF(address);
  return result;
}

/* Takes over what the value owns, also on failure. */
PyObject* value_to_python(TVMValue value, int code) {
  switch (code) {
    case kTVMNullptr:
      Py_RETURN_NONE;
    case kTVMArgInt:
      return PyLong_FromLongLong(value.v_int64);
    case kTVMArgFloat:
      return PyFloat_FromDouble(value.v_float64);
    case kTVMNDArrayHandle:
      return make_tensor(value.v_handle);
    case kTVMStr:
      return string_to_python(value.v_str);
    case kTVMBytes:
      return bytes_to_python(value.v_handle);
    case kTVMModuleHandle:
      return make_handle_object((PyTypeObject*)hooks.module_class, value.v_handle);
    case kTVMPackedFuncHandle:
      return make_function(value.v_handle);
    case kTVMObjectHandle:
      return object_to_python(value.v_handle);
    case kTVMArgBool:
      return PyBool_FromLong(value.v_int64 != 0);
    case kDLDevice:
      return make_device(value.v_device);
    case kTVMDataType:
      return dtype_to_text(value.v_type); /* as from TVMFuncCall() */
    case kTVMOpaqueHandle:
      return pointer_to_python(value.v_handle);
    case kTVMDLTensorHandle:
      PyErr_SetString(PyExc_TypeError,
                      "a DLTensor was returned: nobody says how long it lives; return an NDArray");
      return NULL;
    default:
      return PyErr_Format(PyExc_TypeError, "a value with the unknown type code %d was returned",
                          code);
  }
}
