/* DLPack's exchange API: a table of C functions in the class, with which other libraries convert
   NDArrays without creating a capsule per object. */
#include "core.h"

/* As defined by DLPack from 1.3 on; functions return 0, or -1 with a Python exception set. */
typedef struct ExchangeHeader {
  DLPackVersion version;
  struct ExchangeHeader* previous; /* a table of an older major version */
} ExchangeHeader;

typedef struct {
  ExchangeHeader header;
  /* Runs without the GIL; reports errors by set_error. */
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*from_object)(void* object, DLManagedTensorVersioned** out);
  int (*to_object)(DLManagedTensorVersioned* tensor,
                   void** out);                       /* takes ownership, except on failure */
  int (*view_of_object)(void* object, DLTensor* out); /* optional */
  int (*current_stream)(int device_type, int32_t device_id, void** out);
} ExchangeTable;

/* ---- export ---- */

enum { MAX_STRIDES = 8 };
#if defined(Py_GIL_DISABLED)
enum { MAX_CACHED = 0 }; /* without a GIL, two threads could take the same block */
#else
enum { MAX_CACHED = 32 };
#endif

/* Strides are always set, because consumers would otherwise allocate memory to compute them. */
typedef struct {
  DLManagedTensorVersioned managed;
  int64_t strides[MAX_STRIDES];
} Given;

/* Blocks for reuse, protected by the GIL. */
static Given* waiting[MAX_CACHED + 1];
/* Consumers convert a tensor per call and release it soon, so reuse saves calls of malloc(). */
static int num_waiting;

/* Release the exported object. Runs on any thread. */
static void release_object(DLManagedTensorVersioned* managed) {
  PyGILState_STATE state = PyGILState_UNLOCKED;
  const int took = !has_gil();
  if (took) {
    if (python_has_ended()) return;
    state = PyGILState_Ensure();
  }
  Py_DECREF((PyObject*)managed->manager_ctx);
  if (num_waiting < MAX_CACHED) {
    waiting[num_waiting++] = (Given*)managed;
  } else {
    free(managed);
  }
  if (took) PyGILState_Release(state);
}

/* Tensors with more dimensions than MAX_STRIDES get no strides. */
static void fill_strides(Given* given) {
  DLTensor* tensor = &given->managed.dl_tensor;
  int64_t step = 1;
  if (tensor->strides != NULL || tensor->ndim > MAX_STRIDES) return;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    given->strides[i] = step;
    step *= tensor->shape[i];
  }
  tensor->strides = given->strides;
}

/* Export an object, with a new reference that release_object() releases. On success no exception
   may be set. */
static int from_object(void* object, DLManagedTensorVersioned** out) {
  DLManagedTensorVersioned* managed;
  Given* given;
  *out = NULL;
  if (!can_be_exported(object)) return -1;
  given = num_waiting > 0 ? waiting[--num_waiting] : malloc(sizeof(*given));
  if (given == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  managed = &given->managed; /* set by field: copying a struct that was just written is slow */
  managed->version.major = DLPACK_MAJOR_VERSION;
  managed->version.minor = DLPACK_MINOR_VERSION;
  managed->manager_ctx = Py_NewRef(object);
  managed->deleter = release_object;
  managed->flags = 0;
  managed->dl_tensor = *((TensorObject*)object)->tensor;
  if (managed->dl_tensor.dtype.code == kDLUInt && managed->dl_tensor.dtype.bits == 1) {
    managed->dl_tensor.dtype = exported_tensor(object).dtype;
  }
  fill_strides(given);
  *out = managed;
  return 0;
}

/* ---- import ---- */

/* On failure, the caller keeps ownership of the tensor. */
static int to_object(DLManagedTensorVersioned* tensor, void** out) {
  int taken;
  *out = import_versioned_tensor(tensor, &taken);
  return *out != NULL ? 0 : -1;
}

/* Deleter of tensors made by allocate(); runs on any thread, without the GIL. */
static void free_array(DLManagedTensorVersioned* managed) {
  (void)TVMArrayFree(managed->manager_ctx);
  free(managed);
}

/* Allocate a tensor in the runtime's memory, for results of other libraries' operators. */
static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                    void (*set_error)(void* context, const char* kind, const char* message)) {
  const int is_bool = prototype->dtype.code == kDLBool;
  TVMArrayHandle array = NULL;
  DLManagedTensorVersioned* managed = malloc(sizeof(*managed));
  *out = NULL;
  if (managed == NULL) {
    set_error(context, "MemoryError", "no memory for a tensor");
    return -1;
  }
  if (TVMArrayAlloc(prototype->shape, prototype->ndim, is_bool ? kDLUInt : prototype->dtype.code,
                    is_bool ? 1 : prototype->dtype.bits, prototype->dtype.lanes,
                    prototype->device.device_type, prototype->device.device_id, &array) != 0) {
    free(managed);
    set_error(context, "RuntimeError", TVMGetLastError());
    return -1;
  }
  *managed = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = array,
      .deleter = free_array,
      .dl_tensor = *array,
  };
  /* bool as in DLPack again */
  managed->dl_tensor.dtype = prototype->dtype;
  *out = managed;
  return 0;
}

/* Return the stream of TVMSetStream(). On the default one, a call returns with results ready. */
static int current_stream(int device_type, int32_t device_id, void** out) {
  *out = tvmrt_current_stream(device_type, device_id);
  return 0;
}

/* Not const, because capsules take non-const pointers. */
static ExchangeTable table = {
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    .allocate = allocate,
    .from_object = from_object,
    .to_object = to_object,
    .current_stream = current_stream,
};

/* Add the table under both names in use: a capsule as in the standard, and an earlier address. */
int add_exchange_table(PyTypeObject* type) {
  PyObject* capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
  PyObject* address = PyLong_FromVoidPtr(&table);
  int rc = -1;
  if (capsule != NULL && address != NULL &&
      PyDict_SetItemString(type->tp_dict, "__dlpack_c_exchange_api__", capsule) == 0 &&
      PyDict_SetItemString(type->tp_dict, "__c_dlpack_exchange_api__", address) == 0) {
    /* writing to the dict bypasses the type, which caches look-ups */
    PyType_Modified(type);
    rc = 0;
  }
  Py_XDECREF(capsule);
  Py_XDECREF(address);
  return rc;
}
