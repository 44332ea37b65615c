/* Convert Python values to TVMValues: exact and common types by a chain of comparisons, all others
   by the conversion hook in Python.

   Nothing is copied that C can read in place: arrays and bytes are borrowed as buffers, strings as
   UTF-8, objects as handles. Results of conversions are kept in a list. args_release() ends borrows
   and releases the list, so values are valid for one call, and C must retain values that it keeps. */
#include "core.h"

/* The shape of a buffer is used as a tensor's shape: both have 64 bits on supported hosts. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a 64-bit Python is needed");

/* ---- buffers ---- */

/* A call rarely has more than a few arrays, so these need no heap memory. The caller must free a
   Borrow that it does not keep. */
static Borrow* borrow_new(Args* args) {
  Borrow* borrow;
  if (args->num_borrows < MAX_INLINE_BORROWS) {
    borrow = &args->inline_borrows[args->num_borrows];
    borrow->on_heap = 0;
  } else {
    borrow = PyMem_Malloc(sizeof(*borrow));
    if (borrow == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    borrow->on_heap = 1;
  }
  borrow->strides = NULL;
  return borrow;
}

/* Add a borrow to the list that args_release() ends. */
static void borrow_keep(Args* args, Borrow* borrow) {
  borrow->next = args->borrows;
  args->borrows = borrow;
  args->num_borrows++;
}

/* Convert a buffer format to a type by the letter of the struct module and the item size; the byte
   order must be native. The letter alone is ambiguous: "l" has 4 bytes on some systems, else 8. */
static int dtype_of_format(const char* format, Py_ssize_t itemsize, DLDataType* out) {
  int code;
  /* default of the buffer protocol */
  if (format == NULL) format = "B";
  if (*format == '@' || *format == '=' || *format == (PY_LITTLE_ENDIAN ? '<' : '>')) format++;
  switch (*format) {
    case 'f':
    case 'd':
    case 'e':
      code = kDLFloat;
      break;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      code = kDLInt;
      break;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      code = kDLUInt;
      break;
    case '?': /* bool in TVM's ABI: an unsigned integer of one bit, stored in a byte */
      *out = (DLDataType){kDLUInt, 1, 1};
      return format[1] == '\0' && itemsize == 1 ? 0 : -1;
    case 'Z':
      code = kDLComplex;
      format++;
      if (*format != 'f' && *format != 'd') return -1;
      break;
    default:
      return -1;
  }
  if (format[1] != '\0' || itemsize > 16) return -1;
  *out = (DLDataType){(uint8_t)code, (uint8_t)(itemsize * 8), 1};
  return 0;
}

/* Describe a buffer as a tensor without strides. */
static int show_buffer(const Py_buffer* view, DLTensor* out) {
  if (dtype_of_format(view->format, view->itemsize, &out->dtype) != 0) {
    PyErr_Format(PyExc_TypeError, "buffer format '%s' has no tensor data type", view->format);
    return -1;
  }
  out->data = view->buf;
  out->device = (DLDevice){kDLCPU, 0};
  out->ndim = view->ndim;
  out->shape = (int64_t*)view->shape;
  out->strides = NULL;
  out->byte_offset = 0;
  return 0;
}

/* `flags` are added to the buffer request: PyBUF_WRITABLE for tensors that C may write. The view
   keeps the object alive until it is released. */
int borrow_tensor(PyObject* source, Py_buffer* view, DLTensor* out, int flags) {
  if (PyObject_GetBuffer(source, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) != 0) return -1;
  if (show_buffer(view, out) == 0) return 0;
  PyBuffer_Release(view);
  return -1;
}

/* ---- one value ---- */

static int pack_value(Args* args, int index, PyObject* value);

/* Keep an object made by a conversion until the call ends, since values point into it. */
static int keep_object(Args* args, PyObject* object) {
  if (args->objects == NULL && (args->objects = PyList_New(0)) == NULL) return -1;
  return PyList_Append(args->objects, object);
}

/* Convert the strides of a buffer, in bytes, to strides in elements. */
static int take_strides(Borrow* borrow) {
  const Py_buffer* view = &borrow->view;
  int64_t* strides = PyMem_Malloc(((size_t)view->ndim + 1) * sizeof(*strides));
  if (strides == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < view->ndim; i++) {
    if (view->strides[i] < 0 || view->strides[i] % view->itemsize != 0) {
      PyMem_Free(strides);
      PyErr_SetString(PyExc_ValueError,
                      "the array has strides that run backwards or split elements; pass a "
                      "contiguous copy of it");
      return -1;
    }
    strides[i] = view->strides[i] / view->itemsize;
  }
  borrow->strides = borrow->as.tensor.strides = strides;
  return 0;
}

/* Borrow a strided view; only functions of tvm-ffi accept these. Called with the error of
   borrow_tensor() set, which stays if the function takes none or the buffer is not available. */
static int borrow_strided(Args* args, Borrow* borrow, PyObject* value) {
  PyObject *type, *text, *trace;
  Py_buffer* view = &borrow->view;
  int rc;
  if (!tvmrt_func_is_strided(args->callee)) return -1;
  PyErr_Fetch(&type, &text, &trace);
  rc = PyObject_GetBuffer(value, view, PyBUF_STRIDED | PyBUF_FORMAT);
  if (rc != 0) PyErr_Clear();
  PyErr_Restore(type, text, trace);
  if (rc != 0) return -1;
  PyErr_Clear();
  rc = show_buffer(view, &borrow->as.tensor);
  if (rc == 0) rc = take_strides(borrow);
  if (rc != 0) PyBuffer_Release(view);
  return rc;
}

/* Require a writable buffer, because packed calls do not declare which tensors they write. */
static int pack_buffer(Args* args, int index, PyObject* value) {
  Borrow* borrow = borrow_new(args);
  if (borrow == NULL) return -1;
  if (borrow_tensor(value, &borrow->view, &borrow->as.tensor, PyBUF_WRITABLE) != 0 &&
      borrow_strided(args, borrow, value) != 0) {
    if (borrow->on_heap) PyMem_Free(borrow);
    return -1;
  }
  borrow_keep(args, borrow);
  args->values[index].v_handle = &borrow->as.tensor;
  args->codes[index] = kTVMDLTensorHandle;
  return 0;
}

/* The callee reads the object's own bytes, which cannot be resized while the buffer is held. */
static int pack_bytes(Args* args, int index, PyObject* value) {
  Borrow* borrow = borrow_new(args);
  if (borrow == NULL) return -1;
  if (PyObject_GetBuffer(value, &borrow->view, PyBUF_SIMPLE) != 0) {
    if (borrow->on_heap) PyMem_Free(borrow);
    return -1;
  }
  borrow_keep(args, borrow);
  borrow->as.bytes.data = borrow->view.buf;
  borrow->as.bytes.size = (size_t)borrow->view.len;
  args->values[index].v_handle = &borrow->as.bytes;
  args->codes[index] = kTVMBytes;
  return 0;
}

/* The function object holds the handle until the call ends; a callee that keeps it retains it. */
static int pack_callable(Args* args, int index, PyObject* value) {
  TVMFunctionHandle handle = NULL;
  PyObject* function;
  int rc;
  if (function_from_callable(value, &handle) != 0) return -1;
  function = make_function(handle);
  if (function == NULL) return -1;
  rc = keep_object(args, function);
  Py_DECREF(function);
  args->values[index].v_handle = handle;
  args->codes[index] = kTVMPackedFuncHandle;
  return rc;
}

/* Pass a view as a bare DLTensor, because it has no reference that the callee could keep. */
static int pack_tensor(Args* args, int index, TensorObject* tensor) {
  if (tensor->tensor == NULL) {
    PyErr_SetString(PyExc_ValueError,
                    "the tensor was borrowed for the time of a call that has ended; copy it there");
    return -1;
  }
  args->values[index].v_handle = tensor->tensor;
  args->codes[index] = tensor->is_view ? kTVMDLTensorHandle : kTVMNDArrayHandle;
  return 0;
}

/* Pass a borrowed handle; the argument's object holds it until the call ends. */
static int pack_handle(Args* args, int index, void* handle, int code) {
  args->values[index].v_handle = handle;
  args->codes[index] = handle != NULL ? code : kTVMNullptr;
  return 0;
}

/* Pass a data type as text, which TVM's functions expect. */
static int pack_dtype(Args* args, int index, PyObject* value) {
  PyObject* text = PyObject_Str(value);
  int rc = -1;
  if (text != NULL && keep_object(args, text) == 0) {
    args->values[index].v_str = PyUnicode_AsUTF8(text);
    args->codes[index] = kTVMStr;
    if (args->values[index].v_str != NULL) rc = 0;
  }
  Py_XDECREF(text);
  return rc;
}

/* (address,) is a raw pointer; (None, object) passes the object's own reference to the callee. No
   other tuples arrive here, because tuples given as arguments are converted to Arrays. */
static int pack_special(Args* args, int index, PyObject* tuple) {
  PyObject* moved;
  if (PyTuple_GET_SIZE(tuple) == 1) {
    void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(tuple, 0));
    if (address == NULL && PyErr_Occurred()) return -1;
    return pack_handle(args, index, address, kTVMOpaqueHandle);
  }
  moved = PyTuple_GET_ITEM(tuple, 1);
  if (!PyObject_TypeCheck(moved, &ObjectType)) {
    PyErr_Format(PyExc_TypeError, "only an Object can be moved into a call, not a %.100s",
                 Py_TYPE(moved)->tp_name);
    return -1;
  }
  /* the address of the field, which the callee sets to NULL */
  args->values[index].v_handle = &((HandleObject*)moved)->handle;
  args->codes[index] = kTVMObjectRValueRefArg;
  return 0;
}

/* Convert once: the hook returns one of the types above, or a tuple for pack_special(). */
static int pack_converted(Args* args, int index, PyObject* value) {
  PyObject* converted = PyObject_CallFunctionObjArgs(hooks.convert, value, NULL);
  int rc = -1;
  if (converted == NULL) return -1;
  if (keep_object(args, converted) != 0) {
    rc = -1;
  } else if (PyTuple_CheckExact(converted)) {
    rc = pack_special(args, index, converted);
  } else {
    rc = pack_value(args, index, converted);
  }
  Py_DECREF(converted);
  return rc;
}

/* An integer of more than 64 bits raises OverflowError, with the index of the argument. */
static int pack_int(Args* args, int index, PyObject* value) {
  args->values[index].v_int64 = PyLong_AsLongLong(value);
  args->codes[index] = kTVMArgInt;
  return args->values[index].v_int64 == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Reject strings that contain a NUL, because C would see only their beginning. */
static inline int pack_text(Args* args, int index, const char* text, Py_ssize_t length) {
  if (strlen(text) != (size_t)length) {
    PyErr_SetString(PyExc_ValueError, "a string with a NUL inside cannot be passed; pass bytes");
    return -1;
  }
  args->values[index].v_str = text;
  args->codes[index] = kTVMStr;
  return 0;
}

/* Not inlined: the address of its local variable would cost every caller a stack canary. */
static TVMRT_NOINLINE int pack_other_string(Args* args, int index, PyObject* value) {
  Py_ssize_t length;
  const char* text = PyUnicode_AsUTF8AndSize(value, &length);
  return text == NULL ? -1 : pack_text(args, index, text, length);
}

/* Borrow the UTF-8 of a string, which the string caches; ASCII strings are UTF-8 already. */
static inline int pack_string(Args* args, int index, PyObject* value) {
  if (!PyUnicode_IS_COMPACT_ASCII(value)) return pack_other_string(args, index, value);
  return pack_text(args, index, (const char*)PyUnicode_1BYTE_DATA(value),
                   PyUnicode_GET_LENGTH(value));
}

/* Check subclasses after exact types, and rare types after common ones, because each comparison
   delays all following ones. */
static TVMRT_NOINLINE int pack_uncommon(Args* args, int index, PyObject* value) {
  if (PyObject_TypeCheck(value, &TensorType)) {
    return pack_tensor(args, index, (TensorObject*)value);
  }
  if (PyLong_Check(value)) return pack_int(args, index, value); /* bool and IntEnum */
  if (PyUnicode_Check(value)) return pack_string(args, index, value);
  if (PyFloat_Check(value)) {
    args->values[index].v_float64 = PyFloat_AS_DOUBLE(value);
    args->codes[index] = kTVMArgFloat;
    return 0;
  }
  if (PyObject_TypeCheck(value, &ModuleType)) {
    return pack_handle(args, index, ((HandleObject*)value)->handle, kTVMModuleHandle);
  }
  if (PyObject_TypeCheck(value, &ObjectType)) {
    return pack_handle(args, index, ((HandleObject*)value)->handle, kTVMObjectHandle);
  }
  if (PyObject_TypeCheck(value, &DeviceType)) {
    args->values[index].v_device = ((DeviceObject*)value)->device;
    args->codes[index] = kDLDevice;
    return 0;
  }
  if (PyObject_TypeCheck(value, &DataTypeType)) return pack_dtype(args, index, value);
  if (PyBytes_Check(value) || PyByteArray_Check(value)) return pack_bytes(args, index, value);
  if (PyMemoryView_Check(value)) return pack_buffer(args, index, value);
  if (PyFunction_Check(value)) return pack_callable(args, index, value);
  return pack_converted(args, index, value);
}

/* Check types by their frequency in calls of networks: integers and tensors come first. */
static inline int pack_value(Args* args, int index, PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type) return pack_int(args, index, value);
  if (type == (PyTypeObject*)hooks.tensor_class) {
    return pack_tensor(args, index, (TensorObject*)value);
  }
  if (type == &PyUnicode_Type) return pack_string(args, index, value);
  if (type == (PyTypeObject*)hooks.numpy_array) return pack_buffer(args, index, value);
  if (value == Py_None) return pack_handle(args, index, NULL, kTVMNullptr);
  if (type == &PyFloat_Type) {
    args->values[index].v_float64 = PyFloat_AS_DOUBLE(value);
    args->codes[index] = kTVMArgFloat;
    return 0;
  }
  if (type == &FunctionType) {
    return pack_handle(args, index, ((FunctionObject*)value)->handle, kTVMPackedFuncHandle);
  }
  return pack_uncommon(args, index, value);
}

/* ---- all values ---- */

/* Add the index of the argument to the text of the current exception. */
static void name_argument(Py_ssize_t index) {
  PyObject* exception = take_exception();
  PyObject* type = (PyObject*)Py_TYPE(exception);
  /* callers do not need to know that the argument is a buffer */
  if (type == PyExc_BufferError) type = PyExc_ValueError;
  if (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError) {
    PyErr_Format(type, "argument %zd: %S", index, exception);
    Py_DECREF(exception);
  } else {
    raise_exception(exception);
  }
}

/* The limit is far below the size at which the allocations would overflow. */
static int args_allocate(Args* args, Py_ssize_t n) {
  if (n > INT_MAX / 16) {
    PyErr_SetString(PyExc_OverflowError, "more arguments than a packed function can take");
    return -1;
  }
  args->values = PyMem_Malloc((size_t)n * sizeof(*args->values));
  args->codes = PyMem_Malloc((size_t)n * sizeof(*args->codes));
  if (args->values != NULL && args->codes != NULL) return 0;
  PyMem_Free(args->values);
  PyMem_Free(args->codes);
  PyErr_NoMemory();
  return -1;
}

/* Set fields individually, because the inline arrays need no initialisation. */
int args_pack(Args* args, TVMFunctionHandle callee, PyObject* const* values, Py_ssize_t n) {
  args->values = args->inline_values;
  args->codes = args->inline_codes;
  args->num_borrows = 0;
  args->borrows = NULL;
  args->objects = NULL;
  args->count = (int)n;
  args->callee = callee;
  if (n > MAX_INLINE_ARGS && args_allocate(args, n) != 0) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (pack_value(args, (int)i, values[i]) != 0) {
      name_argument(i);
      args_release(args);
      return -1;
    }
  }
  return 0;
}

/* Called after the call, or after packing failed; lists and counters contain what was acquired. */
void args_release(Args* args) {
  while (args->borrows != NULL) {
    Borrow* borrow = args->borrows;
    args->borrows = borrow->next;
    PyBuffer_Release(&borrow->view);
    PyMem_Free(borrow->strides);
    if (borrow->on_heap) PyMem_Free(borrow);
  }
  Py_XDECREF(args->objects);
  if (args->values != args->inline_values) {
    PyMem_Free(args->values);
    PyMem_Free(args->codes);
  }
}
