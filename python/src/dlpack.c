/* DLPack in both directions, without copies: tensors of other libraries as NDArray, and vice versa.

   There are two kinds of capsules, with different names and structs: the old one, and from DLPack
   1.0 on one with a version and flags. A capsule is consumed once: the consumer renames it. An
   unused capsule releases its tensor itself. */
#include "core.h"

enum { ZERO_COPY_ALIGN_BYTES = 64 }; /* alignment of managed tensors of the runtime */

static const char kUnversionedName[] = "dltensor";
static const char kUnversionedUsed[] = "used_dltensor";
static const char kVersionedName[] = "dltensor_versioned";
static const char kVersionedUsed[] = "used_dltensor_versioned";

/* ---- import ---- */

/* Return whether a tensor is aligned as the runtime requires; others become views. */
static int is_aligned(const DLTensor* tensor) {
  return ((uintptr_t)tensor->data + tensor->byte_offset) % ZERO_COPY_ALIGN_BYTES == 0;
}

/* Extents of 1 may have any stride, and so may tensors without elements. */
static int is_compact(const DLTensor* tensor) {
  int64_t expected = 1;
  if (tensor->strides == NULL) return 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] == 0) return 1;
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return 0;
    expected *= tensor->shape[i];
  }
  return 1;
}

/* Create a view of memory that is less aligned than the runtime's own tensors. Any function that
   takes a DLTensor accepts it. Takes ownership of `foreign` on success. */
static PyObject* wrap_foreign(DLManagedTensor* foreign) {
  PyObject* self;
  /* bool in TVM's ABI, see exported_tensor() */
  if (foreign->dl_tensor.dtype.code == kDLBool) {
    foreign->dl_tensor.dtype = (DLDataType){kDLUInt, 1, foreign->dl_tensor.dtype.lanes};
  }
  foreign->dl_tensor.strides = NULL; /* contiguous, as the caller has checked */
  self = make_borrowed_tensor(&foreign->dl_tensor);
  if (self != NULL) ((TensorObject*)self)->foreign = foreign;
  return self;
}

/* Set *taken if `foreign` has a new owner, which may happen even on failure. */
static PyObject* import_managed(DLManagedTensor* foreign, int* taken) {
  TVMArrayHandle handle = NULL;
  *taken = 0;
  if (!is_compact(&foreign->dl_tensor)) {
    PyErr_SetString(PyExc_ValueError, "the array is not contiguous; pass a contiguous copy of it");
    return NULL;
  }
  if (foreign->dl_tensor.device.device_type == kDLCPU && !is_aligned(&foreign->dl_tensor)) {
    PyObject* view = wrap_foreign(foreign);
    *taken = view != NULL;
    return view;
  }
  /* takes ownership only on success */
  if (TVMArrayFromDLPack(foreign, &handle) != 0) return raise_last_error();
  *taken = 1;
  return make_tensor(handle);
}

/* ---- NumPy arrays, by the buffer protocol ---- */

typedef struct {
  DLManagedTensor managed;
  Py_buffer view;
} BufferManager;

static void release_buffer(DLManagedTensor* managed) { /* any thread */
  PyGILState_STATE state;
  if (python_has_ended()) return;
  state = PyGILState_Ensure();
  PyBuffer_Release(&((BufferManager*)managed)->view);
  PyMem_Free(managed);
  PyGILState_Release(state);
}

/* Import a NumPy array by its buffer, which the deleter releases. */
static PyObject* import_buffer(PyObject* source) {
  BufferManager* manager = PyMem_Malloc(sizeof(*manager));
  PyObject* result;
  int taken;
  if (manager == NULL) return PyErr_NoMemory();
  if (borrow_tensor(source, &manager->view, &manager->managed.dl_tensor, PyBUF_WRITABLE) != 0) {
    PyMem_Free(manager);
    return NULL;
  }
  /* the deleter needs only the struct itself */
  manager->managed.manager_ctx = NULL;
  manager->managed.deleter = release_buffer;
  result = import_managed(&manager->managed, &taken);
  if (!taken) {
    PyBuffer_Release(&manager->view);
    PyMem_Free(manager);
  }
  return result;
}

/* ---- capsules ---- */

/* Free the outer struct; the producer's deleter releases the inner one. */
static void release_versioned(DLManagedTensor* managed) {
  DLManagedTensorVersioned* versioned = managed->manager_ctx;
  if (versioned->deleter != NULL) versioned->deleter(versioned);
  free(managed);
}

/* Rename a capsule whose tensor was consumed, so that it cannot be used again. */
static PyObject* end_import(PyObject* capsule, const char* used, PyObject* result, int taken) {
  /* renaming must not run with an exception set */
  PyObject* exception = result == NULL ? take_exception() : NULL;
  if (taken && PyCapsule_SetName(capsule, used) != 0) Py_CLEAR(result);
  if (exception != NULL) raise_exception(exception);
  return result;
}

/* Wrap a versioned tensor in an unversioned struct, the only one that the runtime accepts. */
PyObject* import_versioned_tensor(DLManagedTensorVersioned* versioned, int* taken) {
  DLManagedTensor* managed;
  PyObject* result;
  *taken = 0;
  if (versioned->version.major > DLPACK_MAJOR_VERSION) {
    return PyErr_Format(PyExc_BufferError, "DLPack %u is newer than %d, the supported version",
                        versioned->version.major, DLPACK_MAJOR_VERSION);
  }
  managed = malloc(sizeof(*managed)); /* freed without the GIL, by the owner of the tensor */
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (DLManagedTensor){versioned->dl_tensor, versioned, release_versioned};
  result = import_managed(managed, taken);
  /* lint: the owner that drops the tensor that took it frees it */
  if (!*taken) free(managed);
  return result;
}

/* Import a capsule of the new kind, which can be used once. */
static PyObject* import_versioned(PyObject* capsule) {
  DLManagedTensorVersioned* versioned = PyCapsule_GetPointer(capsule, kVersionedName);
  PyObject* result;
  int taken;
  if (versioned == NULL) return NULL;
  result = import_versioned_tensor(versioned, &taken);
  return end_import(capsule, kVersionedUsed, result, taken);
}

/* The name of a capsule shows the kind of its struct, and whether it was used. */
static PyObject* import_capsule(PyObject* capsule) {
  DLManagedTensor* managed;
  PyObject* result;
  int taken;
  if (PyCapsule_IsValid(capsule, kVersionedName)) return import_versioned(capsule);
  if (!PyCapsule_IsValid(capsule, kUnversionedName)) {
    PyErr_SetString(PyExc_ValueError,
                    "the capsule is not a DLPack tensor, or was used before; ask for a fresh one");
    return NULL;
  }
  managed = PyCapsule_GetPointer(capsule, kUnversionedName);
  result = import_managed(managed, &taken);
  return end_import(capsule, kUnversionedUsed, result, taken);
}

/* Call __dlpack__() of a producer; those before the 2023 standard accept no max_version. */
static PyObject* request_capsule(PyObject* source) {
  PyObject* method = PyObject_GetAttrString(source, "__dlpack__");
  PyObject *empty, *kwargs, *capsule = NULL;
  if (method == NULL) {
    PyErr_Format(PyExc_TypeError, "a %s offers no DLPack tensor", Py_TYPE(source)->tp_name);
    return NULL;
  }
  empty = PyTuple_New(0);
  kwargs = Py_BuildValue("{s(ii)}", "max_version", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  if (empty != NULL && kwargs != NULL) {
    capsule = PyObject_Call(method, empty, kwargs);
    /* the TypeError may have another cause, which the second call then reports */
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(method);
    }
  }
  Py_XDECREF(kwargs);
  Py_XDECREF(empty);
  Py_DECREF(method);
  return capsule;
}

/* Import NumPy arrays by their buffer, others by a capsule. */
PyObject* core_from_dlpack(PyObject* self, PyObject* source) {
  PyObject *capsule, *result;
  (void)self;
  if (PyCapsule_CheckExact(source)) return import_capsule(source);
  if (Py_IS_TYPE(source, (PyTypeObject*)hooks.numpy_array)) {
    result = import_buffer(source);
    if (result != NULL || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
    PyErr_Clear(); /* an element type that the buffer protocol lacks */
  }
  capsule = request_capsule(source);
  if (capsule == NULL) return NULL;
  if (PyCapsule_CheckExact(capsule)) {
    result = import_capsule(capsule);
  } else {
    result = PyErr_Format(PyExc_TypeError, "__dlpack__() of a %s returned no capsule",
                          Py_TYPE(source)->tp_name);
  }
  Py_DECREF(capsule);
  return result;
}

/* ---- export ---- */

/* Release the Python object that owns exported memory. Runs on any thread, once per export. */
static void release_owner(PyObject* owner) {
  PyGILState_STATE state;
  if (python_has_ended()) return;
  if (has_gil()) {
    Py_DECREF(owner);
    return;
  }
  state = PyGILState_Ensure();
  Py_DECREF(owner);
  PyGILState_Release(state);
}

/* bool is an unsigned integer of one bit in TVM's ABI, but a type of its own in DLPack. */
DLTensor exported_tensor(PyObject* self) {
  DLTensor tensor = *((TensorObject*)self)->tensor;
  if (tensor.dtype.code == kDLUInt && tensor.dtype.bits == 1) {
    tensor.dtype = (DLDataType){kDLBool, 8, tensor.dtype.lanes};
  }
  return tensor;
}

/* A tensor borrowed for a call ends with the call, so it cannot be exported. A tensor imported by
   DLPack can, because this object keeps its owner alive. */
int can_be_exported(PyObject* self) {
  TensorObject* object = (TensorObject*)self;
  if (object->tensor != NULL && (!object->is_view || object->foreign != NULL)) return 1;
  PyErr_SetString(PyExc_ValueError, "a tensor borrowed for one call cannot be given away");
  return 0;
}

static void release_export(DLManagedTensor* managed) {
  release_owner(managed->manager_ctx);
  free(managed);
}

/* A used capsule has another name, and its tensor another owner. */
static void drop_unused_capsule(PyObject* capsule) {
  DLManagedTensor* managed;
  if (!PyCapsule_IsValid(capsule, kUnversionedName)) return;
  managed = PyCapsule_GetPointer(capsule, kUnversionedName);
  if (managed->deleter != NULL) managed->deleter(managed);
}

/* Export to consumers that do not support versioned capsules. */
PyObject* tensor_to_dlpack(PyObject* self, PyObject* none) {
  DLManagedTensor* managed;
  PyObject* capsule;
  (void)none;
  if (!can_be_exported(self)) return NULL;
  managed = malloc(sizeof(*managed));
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (DLManagedTensor){exported_tensor(self), Py_NewRef(self), release_export};
  capsule = PyCapsule_New(managed, kUnversionedName, drop_unused_capsule);
  if (capsule == NULL) release_export(managed);
  return capsule;
}

static void release_versioned_export(DLManagedTensorVersioned* managed) {
  release_owner(managed->manager_ctx);
  free(managed);
}

static void drop_unused_versioned(PyObject* capsule) {
  DLManagedTensorVersioned* versioned;
  if (!PyCapsule_IsValid(capsule, kVersionedName)) return;
  versioned = PyCapsule_GetPointer(capsule, kVersionedName);
  if (versioned->deleter != NULL) versioned->deleter(versioned);
}

/* The struct holds a reference of the object, which its deleter releases. */
static PyObject* to_versioned(PyObject* self, uint64_t flags) {
  DLManagedTensorVersioned* managed;
  PyObject* capsule;
  if (!can_be_exported(self)) return NULL;
  managed = malloc(sizeof(*managed));
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = Py_NewRef(self),
      .deleter = release_versioned_export,
      .flags = flags,
      .dl_tensor = exported_tensor(self),
  };
  capsule = PyCapsule_New(managed, kVersionedName, drop_unused_versioned);
  if (capsule == NULL) release_versioned_export(managed);
  return capsule;
}

/* Options of __dlpack__() with an effect here. `stream` applies only to devices with streams, and
   `dl_device` can only be the device of the tensor. */
typedef struct {
  int major; /* newest DLPack version that the consumer supports */
  int copy;
} ExportOptions;

/* Reject options of newer standards, because they would have no effect. */
static int read_export_option(PyObject* name, PyObject* value, ExportOptions* options) {
  if (value == Py_None) return 0;
  if (PyUnicode_CompareWithASCIIString(name, "max_version") == 0) {
    if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) {
      PyErr_SetString(PyExc_TypeError, "max_version is a tuple (major, minor)");
      return -1;
    }
    options->major = (int)PyLong_AsLong(PyTuple_GET_ITEM(value, 0));
    return options->major == -1 && PyErr_Occurred() ? -1 : 0;
  }
  if (PyUnicode_CompareWithASCIIString(name, "copy") == 0) {
    options->copy = PyObject_IsTrue(value);
    return options->copy < 0 ? -1 : 0;
  }
  if (PyUnicode_CompareWithASCIIString(name, "stream") == 0 ||
      PyUnicode_CompareWithASCIIString(name, "dl_device") == 0) {
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "__dlpack__() has no option '%U'", name);
  return -1;
}

/* Consumers without versioned tensors get the old kind, which cannot be marked as a copy. */
static PyObject* export_tensor(PyObject* self, const ExportOptions* options) {
  uint64_t flags = options->copy ? DLPACK_FLAG_BITMASK_IS_COPIED : 0;
  if (options->major >= DLPACK_MAJOR_VERSION) return to_versioned(self, flags);
  return tensor_to_dlpack(self, NULL);
}

/* Copy by the class's own method, which supports devices; the capsule owns the copy. */
static PyObject* export_copy(PyObject* self, const ExportOptions* options) {
  PyObject* device = PyObject_GetAttrString(self, "device");
  PyObject* copy = device != NULL ? PyObject_CallMethod(self, "copyto", "O", device) : NULL;
  PyObject* capsule = copy != NULL ? export_tensor(copy, options) : NULL;
  Py_XDECREF(device);
  Py_XDECREF(copy);
  return capsule;
}

/* Take options by keyword only, as in the array API standard. */
PyObject* tensor_dlpack(PyObject* self, PyObject* const* values, Py_ssize_t n, PyObject* names) {
  ExportOptions options = {0, 0};
  Py_ssize_t num_names = names != NULL ? PyTuple_GET_SIZE(names) : 0;
  if (n != 0) {
    PyErr_SetString(PyExc_TypeError, "__dlpack__() takes keyword arguments only");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < num_names; i++) {
    if (read_export_option(PyTuple_GET_ITEM(names, i), values[i], &options) != 0) return NULL;
  }
  return options.copy ? export_copy(self, &options) : export_tensor(self, &options);
}

/* Return DLPack's device type and id, which tell a consumer how to read the tensor. */
PyObject* tensor_dlpack_device(PyObject* self, PyObject* none) {
  DLTensor* tensor = ((TensorObject*)self)->tensor;
  (void)none;
  if (tensor == NULL) {
    PyErr_SetString(PyExc_ValueError, "the tensor was borrowed for a call that has ended");
    return NULL;
  }
  return Py_BuildValue("ii", (int)tensor->device.device_type, (int)tensor->device.device_id);
}
