/* Convert values returned by C to Python; owned handles become objects that release them.

   Strings and bytes are stored in the thread's slot until its next call, so they are copied here,
   before any Python code can make one. */
#include "core.h"

/* Strings of C, such as paths, may be invalid UTF-8; surrogateescape restores these bytes when the
   text is encoded again. */
static PyObject* string_to_python(const char* text) {
  if (text == NULL) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

/* Return a writable copy, as TVM's Python package does. The bytes from C are in the thread's
   slot. */
static PyObject* bytes_to_python(const TVMByteArray* bytes) {
  if (bytes == NULL) Py_RETURN_NONE;
  return PyByteArray_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
}

/* Python chooses the class, or a function that converts the object, because types are registered
   there. */
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

/* Not an integer, which could be passed back to C by mistake for an address. */
static PyObject* pointer_to_python(void* pointer) {
  PyObject* address = PyLong_FromVoidPtr(pointer);
  PyObject* result;
  if (address == NULL) return NULL;
  result = PyObject_CallFunctionObjArgs(hooks.opaque_pointer, address, NULL);
  Py_DECREF(address);
  return result;
}

/* Take ownership of handles in the value, also on failure. */
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
