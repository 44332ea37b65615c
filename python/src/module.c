/* The extension module: its functions, its types, and the hooks that Python sets.

   Types are static and hooks global, so they exist once per process, in its main interpreter. Only
   tvmrt.runtime imports this module, and it sets the hooks before any function can be called. */

#include <dlfcn.h>

#include "core.h"

Hooks hooks;

/* ---- hooks ---- */

typedef struct {
  const char* name;
  PyObject** slot;
} Hook;

/* Map the names of configure() to hooks. */
static const Hook kHooks[] = {
    {"module_class", &hooks.module_class},
    {"tensor_class", &hooks.tensor_class},
    {"device_class", &hooks.device_class},
    {"object_class", &hooks.object_class},
    {"convert", &hooks.convert},
    {"own_tensor", &hooks.own_tensor},
    {"make_error", &hooks.make_error},
    {"opaque_pointer", &hooks.opaque_pointer},
    {"numpy_array", &hooks.numpy_array},
    {"numpy_empty", &hooks.numpy_empty},
    {"numpy_dtype", &hooks.numpy_dtype},
    {"copy_from", &hooks.copy_from},
    {"unpack", &hooks.unpack},
};

/* C creates objects of these classes with its own structs, so they must derive from its types. */
static PyTypeObject* base_of_hook(const char* name) {
  if (strcmp(name, "module_class") == 0) return &ModuleType;
  if (strcmp(name, "tensor_class") == 0) return &TensorType;
  if (strcmp(name, "device_class") == 0) return &DeviceType;
  return NULL;
}

/* Called when tvmrt.runtime is imported. The value is kept for the lifetime of the process. */
static int set_hook(const char* name, PyObject* value) {
  PyTypeObject* base = base_of_hook(name);
  if (base != NULL && !(PyType_Check(value) && PyType_IsSubtype((PyTypeObject*)value, base))) {
    PyErr_Format(PyExc_TypeError, "%s must be derived from %s", name, base->tp_name);
    return -1;
  }
  for (size_t i = 0; i < sizeof(kHooks) / sizeof(kHooks[0]); i++) {
    if (strcmp(kHooks[i].name, name) == 0) {
      Py_XSETREF(*kHooks[i].slot, Py_NewRef(value));
      return 0;
    }
  }
  PyErr_Format(PyExc_TypeError, "there is no hook named '%s'", name);
  return -1;
}

/* Take hooks by name, because there are many. */
PyObject* core_configure(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject *name, *value;
  Py_ssize_t position = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, ":configure")) return NULL;
  while (kwargs != NULL && PyDict_Next(kwargs, &position, &name, &value)) {
    const char* text = PyUnicode_AsUTF8(name);
    if (text == NULL || set_hook(text, value) != 0) return NULL;
  }
  Py_RETURN_NONE;
}

/* ---- the library ---- */

/* Libraries of generated code resolve the runtime's functions among the global symbols. */
static PyObject* make_library_global(PyObject* self, PyObject* none) {
  Dl_info info;
  (void)self;
  (void)none;
  if (dladdr((void*)(uintptr_t)TVMFuncCall, &info) == 0 || info.dli_fname == NULL) {
    PyErr_SetString(PyExc_OSError, "the file of libtvm_runtime cannot be found");
    return NULL;
  }
  /* never closed: the library stays loaded until the process exits */
  if (dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) == NULL) {
    return PyErr_Format(PyExc_OSError, "cannot make %s global: %s", info.dli_fname, dlerror());
  }
  return PyUnicode_DecodeFSDefault(info.dli_fname);
}

/* Register functions of the interpreter for long-running C, mainly for Ctrl-C. Names unknown to
   the runtime are not an error. */
static void register_interpreter(void) {
  static const struct {
    const char* name;
    void (*function)(void);
  } kFunctions[] = {
      {"PyErr_CheckSignals", (void (*)(void))PyErr_CheckSignals},
      {"Py_IncRef", (void (*)(void))Py_IncRef},
      {"Py_DecRef", (void (*)(void))Py_DecRef},
      {"PyGILState_Ensure", (void (*)(void))PyGILState_Ensure},
      {"PyGILState_Release", (void (*)(void))PyGILState_Release},
  };
  for (size_t i = 0; i < sizeof(kFunctions) / sizeof(kFunctions[0]); i++) {
    (void)TVMBackendRegisterEnvCAPI(kFunctions[i].name, (void*)(uintptr_t)kFunctions[i].function);
  }
}

/* ---- the module ---- */

/* The functions for Python; all others are called from C. */
static PyMethodDef core_methods[] = {
    {"configure", (PyCFunction)(void (*)(void))core_configure, METH_VARARGS | METH_KEYWORDS,
     "Supply the classes and conversions that are in Python, by name."},
    {"make_library_global", make_library_global, METH_NOARGS,
     "Open libtvm_runtime for the libraries loaded later; its path."},
    {"adopt", core_adopt, METH_VARARGS, "adopt(class, address): take over one reference."},
    {"function_from_handle", core_function_from_handle, METH_O,
     "The PackedFunc that takes over one reference; None for 0."},
    {"function_from_callable", core_function_from_callable, METH_O,
     "A PackedFunc that calls a Python callable."},
    {"tensor_from_handle", core_tensor_from_handle, METH_O,
     "The NDArray that takes over one reference; None for 0."},
    {"from_dlpack", core_from_dlpack, METH_O,
     "An NDArray that shares the memory of a DLPack tensor, capsule or numpy array."},
    {"array_over", core_array_over, METH_O,
     "A numpy array over the memory of an NDArray, which nothing else may change; a copy if numpy\n"
     "cannot use the memory."},
    {NULL, NULL, 0, NULL},
};

static const struct {
  const char* name;
  PyTypeObject* type;
} kTypes[] = {
    {"PackedFunc", &FunctionType}, {"Object", &ObjectType}, {"Module", &ModuleType},
    {"Tensor", &TensorType},       {"Device", &DeviceType}, {"DataType", &DataTypeType},
    {"ArrayCall", &ArrayCallType}, {"Memory", &MemoryType},
};

/* Hooks and types exist once per process, and callbacks acquire the GIL of the main interpreter. */
static int reject_subinterpreters(void) {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return 0;
  PyErr_SetString(PyExc_ImportError,
                  "tvmrt.runtime works in a process's main interpreter only; import it there, or "
                  "start a process instead of the subinterpreter");
  return -1;
}

/* Types must be ready before the exchange table is added to one. */
static int core_exec(PyObject* module) {
  if (reject_subinterpreters() != 0) return -1;
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); i++) {
    PyObject* type = (PyObject*)kTypes[i].type;
    if (PyType_Ready(kTypes[i].type) != 0 ||
        PyObject_SetAttrString(module, kTypes[i].name, type) != 0) {
      return -1;
    }
  }
  if (add_exchange_table(&TensorType) != 0 || init_array_call() != 0) return -1;
  register_interpreter();
  return 0;
}

/* Multi-phase initialisation, because only a slot can declare that the module needs no GIL. */
static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, (void*)(uintptr_t)core_exec},
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "Calls between Python and packed functions.",
    .m_methods = core_methods,
    .m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void); /* Python finds it by name */

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
