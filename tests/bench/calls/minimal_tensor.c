/* Two minimal Python types. Tensor offers DLPack's exchange interface: one constant
   tensor, a block of a ring, a reference of the object. Kept hands out a tensor of tvm-ffi's that it was
   made with. What tvm-ffi takes for them, it takes for all. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlpack/dlpack.h>

enum { BLOCKS = 64 /* more than are in use at once */ };

typedef struct Table {
  DLPackVersion version;
  struct Table* previous;
  void* allocate;
  int (*from_object)(void* object, DLManagedTensorVersioned** out);
  int (*to_object)(DLManagedTensorVersioned* tensor, void** out);
  int (*view_of_object)(void* object, DLTensor* out);
  int (*current_stream)(int device_type, int32_t device_id, void** out);
} Table;

static float data[4] __attribute__((aligned(64)));
static int64_t shape[1] = {4}, strides[1] = {1};
static DLManagedTensorVersioned blocks[BLOCKS];
static unsigned next_block;

static void release(DLManagedTensorVersioned* managed) {
  Py_DECREF((PyObject*)managed->manager_ctx);
}

static int view_of_object(void* object, DLTensor* out) {
  (void)object;
  *out = (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape,
                    .strides = strides};
  return 0;
}

static int from_object(void* object, DLManagedTensorVersioned** out) {
  DLManagedTensorVersioned* managed = &blocks[next_block++ % BLOCKS];
  *managed = (DLManagedTensorVersioned){
      .version = {1, 3}, .manager_ctx = object, .deleter = release, .flags = 0};
  Py_INCREF((PyObject*)object);
  *out = managed;
  return view_of_object(object, &managed->dl_tensor);
}

static int to_object(DLManagedTensorVersioned* tensor, void** out) {
  (void)tensor;
  *out = NULL;
  PyErr_SetString(PyExc_TypeError, "this type only gives");
  return -1;
}

static int current_stream(int device_type, int32_t device_id, void** out) {
  (void)device_type;
  (void)device_id;
  *out = NULL;
  return 0;
}

static Table table = {{1, 3}, NULL, NULL, from_object, to_object, view_of_object, current_stream};

static PyTypeObject MinimalType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "minimal_tensor.Tensor",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
};

typedef struct {
  PyObject_HEAD PyObject* tensor;
} Kept;

static PyObject* kept_tensor(PyObject* self, PyObject* unused) {
  (void)unused;
  return Py_NewRef(((Kept*)self)->tensor);
}

static int kept_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* tensor;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &tensor)) return -1;
  Py_XSETREF(((Kept*)self)->tensor, Py_NewRef(tensor));
  return 0;
}

static void kept_dealloc(PyObject* self) {
  Py_XDECREF(((Kept*)self)->tensor);
  PyObject_Free(self);
}

static PyMethodDef kept_methods[] = {
    {"__tvm_ffi_object__", kept_tensor, METH_NOARGS, "The tensor."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject KeptType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "minimal_tensor.Kept",
    .tp_basicsize = sizeof(Kept),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = kept_init,
    .tp_dealloc = kept_dealloc,
    .tp_methods = kept_methods,
};

static PyModuleDef minimal_module = {PyModuleDef_HEAD_INIT, .m_name = "minimal_tensor",
                                     .m_size = -1};

PyMODINIT_FUNC PyInit_minimal_tensor(void) {
  PyObject* module = PyModule_Create(&minimal_module);
  PyObject* capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
  PyObject* address = PyLong_FromVoidPtr(&table); /* the older name has it as a number */
  if (module == NULL || capsule == NULL || address == NULL || PyType_Ready(&MinimalType) != 0 ||
      PyType_Ready(&KeptType) != 0 ||
      PyDict_SetItemString(MinimalType.tp_dict, "__dlpack_c_exchange_api__", capsule) != 0 ||
      PyDict_SetItemString(MinimalType.tp_dict, "__c_dlpack_exchange_api__", address) != 0 ||
      PyModule_AddObjectRef(module, "Tensor", (PyObject*)&MinimalType) != 0 ||
      PyModule_AddObjectRef(module, "Kept", (PyObject*)&KeptType) != 0) {
    return NULL;
  }
  PyType_Modified(&MinimalType);
  return module;
}
