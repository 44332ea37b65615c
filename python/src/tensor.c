/* NDArray: the tensor type, its attributes, and the copies that inference makes on every run.

   An object has one DLTensor of three kinds: a managed tensor with its own reference, memory
   imported by DLPack and released by its deleter, or memory borrowed for one callback. In the last
   case Python may still hold the object after the callback: then `tensor` is NULL, and every use
   raises an error. */
#include "core.h"

enum { COPY_WITHOUT_GIL_BYTES = 1 << 16 }; /* below, releasing the GIL takes longer than a copy */

/* ---- construction and destruction ---- */

/* Create an object of the Python class, so that its methods are available even if C creates
   it. */
static TensorObject* tensor_allocate(void) {
  PyTypeObject* type = (PyTypeObject*)hooks.tensor_class;
  return (TensorObject*)type->tp_alloc(type, 0); /* zeroed */
}

/* Take ownership of the handle, also on failure; returns None for NULL. */
PyObject* make_tensor(TVMArrayHandle handle) {
  TensorObject* self;
  if (handle == NULL) Py_RETURN_NONE;
  self = tensor_allocate();
  if (self == NULL) {
    TVMArrayFree(handle);
    return NULL;
  }
  self->tensor = handle;
  return (PyObject*)self;
}

/* Retain nothing: the caller sets `tensor` to NULL when the memory ends, or `foreign` to its
   owner. */
PyObject* make_borrowed_tensor(DLTensor* tensor) {
  TensorObject* self = tensor_allocate();
  if (self == NULL) return NULL;
  self->tensor = tensor;
  self->is_view = 1;
  return (PyObject*)self;
}

/* make_tensor() for an address from Python. */
PyObject* core_tensor_from_handle(PyObject* self, PyObject* address) {
  void* handle = PyLong_AsVoidPtr(address);
  (void)self;
  if (handle == NULL && PyErr_Occurred()) return NULL;
  return make_tensor(handle);
}

/* Release memory imported by DLPack with its deleter, and managed tensors by their reference;
   borrowed memory has another owner. */
static void tensor_dealloc(PyObject* object) {
  TensorObject* self = (TensorObject*)object;
  PyTypeObject* type = Py_TYPE(object);
  if (self->weakrefs != NULL) PyObject_ClearWeakRefs(object);
  if (self->foreign != NULL) {
    if (self->foreign->deleter != NULL) self->foreign->deleter(self->foreign);
  } else if (!self->is_view) {
    TVMArrayFree(self->tensor);
  }
  type->tp_free(object);
}

/* ---- attributes ---- */

/* Called for each use, because a view may have ended since the last one. */
static DLTensor* tensor_of(PyObject* self) {
  DLTensor* tensor = ((TensorObject*)self)->tensor;
  if (tensor == NULL) {
    PyErr_SetString(PyExc_ValueError,
                    "the tensor was borrowed for the time of a call that has ended; copy it there");
  }
  return tensor;
}

/* Return a new tuple of integers; NULL with an exception set. */
static PyObject* extents_to_tuple(const int64_t* extents, int n) {
  PyObject* tuple = PyTuple_New(n);
  for (int i = 0; tuple != NULL && i < n; i++) {
    PyObject* extent = PyLong_FromLongLong(extents[i]);
    if (extent == NULL) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SET_ITEM(tuple, i, extent);
    }
  }
  return tuple;
}

static PyObject* tensor_get_shape(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  return tensor ? extents_to_tuple(tensor->shape, tensor->ndim) : NULL;
}

/* Return strides in elements, as in DLPack; None if the tensor is contiguous. */
static PyObject* tensor_get_strides(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  if (tensor == NULL) return NULL;
  if (tensor->strides == NULL) Py_RETURN_NONE;
  return extents_to_tuple(tensor->strides, tensor->ndim);
}

static PyObject* tensor_get_ndim(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  return tensor ? PyLong_FromLong(tensor->ndim) : NULL;
}

/* Names of DLPack's type codes; the missing ones have no name here. Repeats the list of
   core/dtype.c, because a call into C on each access of a dtype would take longer than creating the
   text. */
static const char* dtype_base(DLDataType dtype) {
  static const char* const names[] = {
      [0] = "int",
      [1] = "uint",
      [2] = "float",
      [3] = "handle",
      [4] = "bfloat",
      [5] = "complex",
      [6] = "e4m3_float",
      [7] = "e5m2_float",
      [11] = "e4m3fnuz_float",
      [13] = "e5m2fnuz_float",
      [14] = "e8m0fnu_float",
      [17] = "e2m1_float",
  };
  return dtype.code < sizeof(names) / sizeof(names[0]) ? names[dtype.code] : NULL;
}

/* Return the text of a type without a cache; see tensor_get_dtype(). */
TVMRT_NOINLINE PyObject* dtype_to_text(DLDataType dtype) {
  const char* base = dtype_base(dtype);
  char lanes[8] = "";
  if (dtype.lanes > 1) (void)snprintf(lanes, sizeof(lanes), "x%u", (unsigned)dtype.lanes);
  if (base == NULL) {
    return PyUnicode_FromFormat("custom[%u]%u%s", (unsigned)dtype.code, (unsigned)dtype.bits,
                                lanes);
  }
  if (dtype.code == kDLUInt && dtype.bits == 1) return PyUnicode_FromFormat("bool%s", lanes);
  if (dtype.code == kDLOpaqueHandle) {
    return PyUnicode_FromString(dtype.bits == 0 && dtype.lanes == 0 ? "void" : "handle");
  }
  return PyUnicode_FromFormat("%s%u%s", base, (unsigned)dtype.bits, lanes);
}

/* Cache of Python objects by element type. It needs no lock: if two threads create an object at the
   same time, both use the one that is stored first. */
enum { NUM_CODES = 18, NUM_SIZES = 129 };
typedef _Atomic(PyObject*) dtype_cache[NUM_CODES][NUM_SIZES];

/* Return the cache entry of a type; NULL for rare types, which are not cached. */
static _Atomic(PyObject*)* cache_entry(dtype_cache cache, DLDataType dtype) {
  const int is_common = dtype.lanes == 1 && dtype.code < NUM_CODES && dtype.bits < NUM_SIZES;
  return is_common ? &cache[dtype.code][dtype.bits] : NULL;
}

/* Store `made`, which may be NULL, unless another thread was first; returns a borrowed object. */
static PyObject* store_in_cache(_Atomic(PyObject*)* entry, PyObject* made) {
  PyObject* found = NULL;
  if (made == NULL || atomic_compare_exchange_strong(entry, &found, made)) return made;
  Py_DECREF(made);
  return found;
}

/* Return a cached object, because creating the text would take longer than a call of a small
   network. */
static PyObject* tensor_get_dtype(PyObject* self, void* closure) {
  static dtype_cache texts;
  DLTensor* tensor = tensor_of(self);
  _Atomic(PyObject*)* entry;
  PyObject* text;
  (void)closure;
  if (tensor == NULL) return NULL;
  entry = cache_entry(texts, tensor->dtype);
  if (entry == NULL) return dtype_to_text(tensor->dtype);
  text = atomic_load_explicit(entry, memory_order_acquire);
  if (text == NULL) text = store_in_cache(entry, dtype_to_text(tensor->dtype));
  return text == NULL ? NULL : Py_NewRef(text);
}

static PyObject* tensor_get_device(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  return tensor ? make_device(tensor->device) : NULL;
}

/* Return 0 for a view that has ended. */
static PyObject* tensor_get_handle(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((TensorObject*)self)->tensor);
}

static PyObject* tensor_get_data(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  return tensor ? PyLong_FromVoidPtr((char*)tensor->data + tensor->byte_offset) : NULL;
}

static PyObject* tensor_get_is_view(PyObject* self, void* closure) {
  (void)closure;
  return PyBool_FromLong(((TensorObject*)self)->is_view);
}

/* Return whether elements share bytes: elements of 2 and 4 bits do, bools do not. */
static int is_packed(DLDataType dtype) {
  return dtype.bits * dtype.lanes == 2 || dtype.bits * dtype.lanes == 4;
}

/* Divide before multiplying, because the number of bits could overflow where the bytes do not. */
size_t tensor_bytes(const DLTensor* tensor) {
  size_t bits = (size_t)tensor->dtype.bits * tensor->dtype.lanes;
  size_t count = 1;
  for (int i = 0; i < tensor->ndim; i++) count *= (size_t)tensor->shape[i];
  if (is_packed(tensor->dtype)) return count / 8 * bits + (count % 8 * bits + 7) / 8;
  return (size_t)((tensor->dtype.bits + 7) / 8) * tensor->dtype.lanes * count;
}

static PyObject* tensor_get_nbytes(PyObject* self, void* closure) {
  DLTensor* tensor = tensor_of(self);
  (void)closure;
  return tensor ? PyLong_FromSize_t(tensor_bytes(tensor)) : NULL;
}

/* ---- copies ---- */

/* Return whether memcpy() can copy it; the runtime copies tensors with strides or on devices. */
static int is_plain_host(const DLTensor* tensor) {
  return tensor->device.device_type == kDLCPU && tensor->strides == NULL;
}

/* Release the GIL for copies from devices, which may need it, and for large ones. The runtime
   splits these among its threads, mostly by the parts that each has computed. The caller keeps both
   sides alive, so other threads may run meanwhile. */
static int copy_to_host(DLTensor* tensor, void* to, size_t bytes) {
  int rc;
  if (is_plain_host(tensor) && bytes < COPY_WITHOUT_GIL_BYTES) {
    memcpy(to, (char*)tensor->data + tensor->byte_offset, bytes);
    return 0;
  }
  Py_BEGIN_ALLOW_THREADS rc = TVMArrayCopyToBytes(tensor, to, bytes);
  Py_END_ALLOW_THREADS if (rc != 0) raise_last_error();
  return rc;
}

static PyObject* numpy_dtype_of(DLDataType dtype) { /* borrowed */
  static dtype_cache known;
  _Atomic(PyObject*)* entry = cache_entry(known, dtype);
  PyObject* made;
  if (entry != NULL) {
    PyObject* found = atomic_load_explicit(entry, memory_order_acquire);
    if (found != NULL) return found;
    made = PyObject_CallFunction(hooks.numpy_dtype, "iii", dtype.code, dtype.bits, 1);
    return store_in_cache(entry, made);
  }
  made = PyObject_CallFunction(hooks.numpy_dtype, "iii", dtype.code, dtype.bits, dtype.lanes);
  if (made == NULL) return NULL;
  PyErr_SetString(PyExc_TypeError, "a tensor of vectors cannot be a numpy array; view its lanes");
  Py_DECREF(made);
  return NULL;
}

/* Not initialised: either every element is overwritten, or the array is dropped. */
static PyObject* new_numpy_array(const DLTensor* tensor) {
  PyObject* values[2];
  PyObject* array;
  values[1] = numpy_dtype_of(tensor->dtype);
  if (values[1] == NULL) return NULL;
  values[0] = extents_to_tuple(tensor->shape, tensor->ndim);
  if (values[0] == NULL) return NULL;
  array = PyObject_Vectorcall(hooks.numpy_empty, values, 2, NULL);
  Py_DECREF(values[0]);
  return array;
}

/* Return packed elements as an array, in which each element has its own byte, as in NumPy. */
static PyObject* numpy_of_packed(DLTensor* tensor) {
  PyObject* bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)tensor_bytes(tensor));
  PyObject* extents;
  PyObject* array = NULL;
  if (bytes == NULL) return NULL;
  extents = extents_to_tuple(tensor->shape, tensor->ndim);
  if (extents != NULL &&
      copy_to_host(tensor, PyBytes_AS_STRING(bytes), tensor_bytes(tensor)) == 0) {
    array = PyObject_CallFunction(hooks.unpack, "OOii", bytes, extents, tensor->dtype.code,
                                  tensor->dtype.bits);
  }
  Py_XDECREF(extents);
  Py_DECREF(bytes);
  return array;
}

/* Return a copy, which later runs of the network do not change. */
static PyObject* tensor_numpy(PyObject* self, PyObject* none) {
  DLTensor* tensor = tensor_of(self);
  PyObject* array;
  Py_buffer view;
  int rc;
  (void)none;
  if (tensor == NULL) return NULL;
  if (is_packed(tensor->dtype)) return numpy_of_packed(tensor);
  array = new_numpy_array(tensor);
  if (array == NULL) return NULL;
  /* types that packages add to NumPy have no buffer; their bytes do */
  if (PyObject_GetBuffer(array, &view, PyBUF_WRITABLE) != 0) { /* bfloat16 and its like */
    PyObject* bytes;
    PyErr_Clear();
    bytes = PyObject_CallMethod(array, "view", "s", "uint8");
    if (bytes == NULL || PyObject_GetBuffer(bytes, &view, PyBUF_WRITABLE) != 0) {
      Py_XDECREF(bytes);
      Py_DECREF(array);
      return NULL;
    }
    Py_DECREF(bytes); /* the view holds it */
  }
  /* the dtype, which comes from Python, determines how much is written */
  if ((size_t)view.len == tensor_bytes(tensor)) {
    rc = copy_to_host(tensor, view.buf, (size_t)view.len);
  } else {
    PyErr_SetString(PyExc_SystemError, "the numpy type of the elements has another size");
    rc = -1;
  }
  PyBuffer_Release(&view);
  if (rc != 0) Py_CLEAR(array);
  return array;
}

/* ---- arrays without a copy ---- */

/* The memory of a tensor, for an array: NDArray itself has no buffer, because NumPy would then share
   the memory of tensors that later runs overwrite. */
typedef struct {
  PyObject_HEAD PyObject* tensor;
} MemoryObject;

static int memory_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  const DLTensor* tensor = ((TensorObject*)((MemoryObject*)self)->tensor)->tensor;
  char* data = (char*)tensor->data + tensor->byte_offset;
  return PyBuffer_FillInfo(view, self, data, (Py_ssize_t)tensor_bytes(tensor), 0, flags);
}

static void memory_dealloc(PyObject* self) {
  Py_XDECREF(((MemoryObject*)self)->tensor);
  Py_TYPE(self)->tp_free(self);
}

static PyBufferProcs memory_as_buffer = {.bf_getbuffer = memory_getbuffer};

PyTypeObject MemoryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Memory",
    .tp_doc = "The memory of a result.",
    .tp_basicsize = sizeof(MemoryObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = memory_dealloc,
    .tp_as_buffer = &memory_as_buffer,
};

/* Packed elements, and tensors elsewhere, are copied. */
PyObject* core_array_over(PyObject* module, PyObject* object) {
  DLTensor* tensor;
  PyObject *array = NULL, *values[3];
  (void)module;
  if (!PyObject_TypeCheck(object, &TensorType)) {
    return PyErr_Format(PyExc_TypeError, "%s is not a tensor", Py_TYPE(object)->tp_name);
  }
  tensor = tensor_of(object);
  if (tensor == NULL) return NULL;
  if (!is_plain_host(tensor) || is_packed(tensor->dtype) || ((TensorObject*)object)->is_view) {
    return tensor_numpy(object, NULL);
  }
  values[1] = numpy_dtype_of(tensor->dtype);
  if (values[1] == NULL) return NULL;
  values[0] = extents_to_tuple(tensor->shape, tensor->ndim);
  values[2] = MemoryType.tp_alloc(&MemoryType, 0);
  if (values[2] != NULL) ((MemoryObject*)values[2])->tensor = Py_NewRef(object);
  if (values[0] != NULL && values[2] != NULL) {
    array = PyObject_Vectorcall(hooks.numpy_array, values, 3, NULL);
  }
  Py_XDECREF(values[0]);
  Py_XDECREF(values[2]);
  return array;
}

/* Compare exactly; broadcasting is left to the general path. */
static int same_shape(const DLTensor* a, const DLTensor* b) {
  if (a->ndim != b->ndim) return 0;
  for (int i = 0; i < a->ndim; i++) {
    if (a->shape[i] != b->shape[i]) return 0;
  }
  return 1;
}

/* Copy to a tensor that is_plain_host(); releases the GIL for large ones, like copy_to_host(). */
static int copy_from_host(DLTensor* tensor, void* from, size_t bytes) {
  int rc;
  if (bytes < COPY_WITHOUT_GIL_BYTES) {
    memcpy((char*)tensor->data + tensor->byte_offset, from, bytes);
    return 0;
  }
  Py_BEGIN_ALLOW_THREADS rc = TVMArrayCopyFromBytes(tensor, from, bytes);
  Py_END_ALLOW_THREADS if (rc != 0) raise_last_error();
  return rc;
}

/* 1 if copied, 0 if the general path must be taken, -1 with an exception set */
static int copy_same_kind(DLTensor* to, PyObject* source) {
  Py_buffer view;
  DLTensor from;
  int fits;
  if (!is_plain_host(to) || !Py_IS_TYPE(source, (PyTypeObject*)hooks.numpy_array)) return 0;
  if (borrow_tensor(source, &view, &from, 0) != 0) {
    PyErr_Clear();
    return 0;
  }
  fits = memcmp(&from.dtype, &to->dtype, sizeof(from.dtype)) == 0 && same_shape(&from, to);
  if (fits && copy_from_host(to, from.data, (size_t)view.len) != 0) fits = -1;
  PyBuffer_Release(&view);
  return fits;
}

/* Inputs are nearly always arrays of the tensor's type; Python handles conversions. */
static PyObject* tensor_copyfrom(PyObject* self, PyObject* source) {
  DLTensor* tensor = tensor_of(self);
  const int copied = tensor == NULL ? -1 : copy_same_kind(tensor, source);
  if (copied != 0) return copied > 0 ? Py_NewRef(self) : NULL;
  return PyObject_CallFunctionObjArgs(hooks.copy_from, self, source, NULL);
}

/* Return whether both have the same C tensor; does not compare elements. */
static PyObject* tensor_same_as(PyObject* self, PyObject* other) {
  if (!PyObject_TypeCheck(other, &TensorType)) Py_RETURN_FALSE;
  return PyBool_FromLong(((TensorObject*)self)->tensor == ((TensorObject*)other)->tensor);
}

static PyMethodDef tensor_methods[] = {
    {"numpy", tensor_numpy, METH_NOARGS, "A new numpy array with the tensor's elements."},
    {"asnumpy", tensor_numpy, METH_NOARGS, "The old name of numpy()."},
    {"copyfrom", tensor_copyfrom, METH_O,
     "Copy from a tensor or anything that numpy takes; the shape must be the same, the elements\n"
     "are converted to the tensor's type."},
    {"same_as", tensor_same_as, METH_O, "Whether both show the same C tensor."},
    {"to_dlpack", tensor_to_dlpack, METH_NOARGS, "A DLPack capsule that shares the memory."},
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS,
     "A DLPack capsule that shares the memory, as the array API standard asks for it."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(device type, device id)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_getset[] = {
    {"shape", tensor_get_shape, NULL, "Extents, a tuple.", NULL},
    {"strides", tensor_get_strides, NULL, "Strides in elements; None if compact.", NULL},
    {"ndim", tensor_get_ndim, NULL, "Number of dimensions.", NULL},
    {"dtype", tensor_get_dtype, NULL, "Element type as text, such as 'float32'.", NULL},
    {"device", tensor_get_device, NULL, "Where the memory is.", NULL},
    {"handle", tensor_get_handle, NULL, "Address of the DLTensor.", NULL},
    {"data_address", tensor_get_data, NULL, "Address of the first element.", NULL},
    {"nbytes", tensor_get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"is_view", tensor_get_is_view, NULL, "Whether the memory is somebody else's.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject TensorType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.Tensor",
    .tp_doc = "Base of tvmrt.nd.NDArray.",
    .tp_basicsize = sizeof(TensorObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_weaklistoffset = offsetof(TensorObject, weakrefs),
    .tp_dealloc = tensor_dealloc,
    .tp_methods = tensor_methods,
    .tp_getset = tensor_getset,
};
