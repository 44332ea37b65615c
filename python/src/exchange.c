/* DLPack's exchange interface: what other libraries' C calls with an NDArray in hand, by a table that the
   class carries, instead of asking each object for a capsule. */
#include "core.h"

/* As DLPack has it from 1.3 on; functions return 0, or -1 with a Python exception set. */
typedef struct ExchangeHeader {
  DLPackVersion version;
  struct ExchangeHeader* previous; /* a table of an older major version */
} ExchangeHeader;

typedef struct {
  ExchangeHeader header;
  /* Needs no GIL; says what is wrong by set_error. */
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*from_object)(void* object, DLManagedTensorVersioned** out);
  int (*to_object)(DLManagedTensorVersioned* tensor,
                   void** out);                       /* takes it over, unless it fails */
  int (*view_of_object)(void* object, DLTensor* out); /* optional */
  int (*current_stream)(int device_type, int32_t device_id, void** out);
} ExchangeTable;

/* ---- to others ---- */

enum { MAX_STRIDES = 8 };
#if defined(Py_GIL_DISABLED)
enum { MAX_WAITING = 0 }; /* nothing keeps two threads from one block */
#else
enum { MAX_WAITING = 32 };
#endif

/* Strides are given too, as others would compute them with memory of their own. */
typedef struct {
  DLManagedTensorVersioned managed;
  int64_t strides[MAX_STRIDES];
} Given;

/* Blocks that wait for the next call; under the GIL. */
static Given* waiting[MAX_WAITING + 1];
/* Others take a tensor for each call and end it soon: blocks in hand spare them malloc(). */
static int num_waiting;

/* Runs on any thread. */
static void release_object(DLManagedTensorVersioned* managed) {
  PyGILState_STATE state = PyGILState_UNLOCKED;
  const int took = !has_gil();
  if (took) {
    if (python_is_gone()) return;
    state = PyGILState_Ensure();
  }
  Py_DECREF((PyObject*)managed->manager_ctx);
  if (num_waiting < MAX_WAITING) {
    waiting[num_waiting++] = (Given*)managed;
  } else {
    free(managed);
  }
  if (took) PyGILState_Release(state);
}

/* For more dimensions than there is room for, readers have to compute them. */
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

/* No exception of Python's on success, and a new reference of the object, which release_object()
   gives back. */
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
  managed = &given->managed; /* field by field: a struct that was just written is slow to copy */
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

/* ---- from others ---- */

/* What cannot be an NDArray stays the caller's, who makes something else of it or ends it. */
static int to_object(DLManagedTensorVersioned* tensor, void** out) {
  int taken;
  *out = import_versioned_tensor(tensor, &taken);
  return *out != NULL ? 0 : -1;
}

/* The deleter of what allocate() made: runs on any thread, without the GIL. */
static void free_array(DLManagedTensorVersioned* managed) {
  (void)TVMArrayFree(managed->manager_ctx);
  free(managed);
}

/* A tensor of the runtime's own memory, for results of other libraries' operators. */
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
  /* bool again, as DLPack says it */
  managed->dl_tensor.dtype = prototype->dtype;
  *out = managed;
  return 0;
}

/* That of TVMSetStream(); on the default one what the runtime computes is ready when a call returns. */
static int current_stream(int device_type, int32_t device_id, void** out) {
  *out = tvmrt_current_stream(device_type, device_id);
  return 0;
}

/* Not const, as capsules take their pointers. */
static ExchangeTable table = {
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    .allocate = allocate,
    .from_object = from_object,
    .to_object = to_object,
    .current_stream = current_stream,
};

/* Under both names that libraries ask for: a capsule in the standard, a number before it. */
int add_exchange_table(PyTypeObject* type) {
  PyObject* capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
  PyObject* address = PyLong_FromVoidPtr(&table);
  int rc = -1;
  if (capsule != NULL && address != NULL &&
      PyDict_SetItemString(type->tp_dict, "__dlpack_c_exchange_api__", capsule) == 0 &&
      PyDict_SetItemString(type->tp_dict, "__c_dlpack_exchange_api__", address) == 0) {
    /* the dict was written to past the type, which caches look-ups */
    PyType_Modified(type);
    rc = 0;
  }
  Py_XDECREF(capsule);
  Py_XDECREF(address);
  return rc;
}
