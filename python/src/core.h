/*!
 * \file core.h
 * \brief Declarations shared by the files of the extension module tvmrt.runtime._core.
 *
 * The module makes calls of packed functions fast. It packs Python arguments into TVMValues, calls
 * with the GIL released, converts the results, and lets C call Python. A Python object owns one
 * reference of its handle. The public classes are in Python, derived from the types here.
 *
 * All functions need the GIL unless a comment states otherwise. In Python without a GIL (PEP 703),
 * state of the module is atomic, thread-local, or created before other threads can see it. Threads
 * may share an object as long as none changes it, as with NumPy arrays. Functions return 0 or a new
 * reference on success, -1 or NULL with an exception set on failure, as usual in Python's C API.
 */
#ifndef TVMRT_PYTHON_SRC_CORE_H_
#define TVMRT_PYTHON_SRC_CORE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <string.h>
#include <structmember.h>
#include <tvm/runtime/c_runtime_api.h>

#if defined(__GNUC__)
/* Keeps the stack frame of a rare path out of its caller. */
#define TVMRT_NOINLINE __attribute__((noinline))
#else
#define TVMRT_NOINLINE
#endif

/* A single pointer fits the static TLS space that glibc reserves, and is read without a call. musl
 * reserves none and refuses libraries that require it. */
#if defined(__GNUC__) && defined(__GLIBC__)
#define TVMRT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define TVMRT_THREAD_LOCAL _Thread_local
#endif

#if PY_VERSION_HEX < 0x030D0000
#define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
#define Py_IsFinalizing _Py_IsFinalizing
#endif
#if PY_VERSION_HEX < 0x030A0000
static inline PyObject* Py_NewRef(PyObject* object) {
  Py_INCREF(object);
  return object;
}
static inline PyObject* Py_XNewRef(PyObject* object) {
  Py_XINCREF(object);
  return object;
}
#endif

/* PyGILState_Check() returns 1 on every thread once a subinterpreter has been created. */
static inline int has_gil(void) {
  PyThreadState* state = PyGILState_GetThisThreadState();
  return state != NULL && state == PyThreadState_GetUnchecked();
}

/* While the interpreter exits, only the thread that ends it may run Python. */
static inline int python_has_ended(void) {
  return !Py_IsInitialized() || (Py_IsFinalizing() && !has_gil());
}

/*! \brief A packed function; called through vectorcall. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  TVMFunctionHandle handle; /* one reference, or NULL */
  PyObject* weakrefs;
  atomic_int keeps_gil; /* calls run with the GIL held */
} FunctionObject;

/*! \brief A module or any other reference-counted object; base of Module, Array, Map, ... */
typedef struct {
  PyObject_HEAD void* handle; /* one reference, or NULL */
} HandleObject;

/*! \brief A tensor: one reference of a managed tensor, or a view of other memory. */
typedef struct {
  PyObject_HEAD DLTensor* tensor; /* NULL after a borrowed view has ended */
  DLManagedTensor* foreign;       /* the view's memory, released by its deleter; NULL if borrowed */
  int is_view;                    /* passed as kTVMDLTensorHandle, without a reference */
  PyObject* weakrefs;
} TensorObject;

/*! \brief A device; base of tvmrt.runtime.Device. */
typedef struct {
  PyObject_HEAD DLDevice device;
} DeviceObject;

/*! \brief A data type; base of tvmrt.runtime.DataType. */
typedef struct {
  PyObject_HEAD DLDataType dtype;
} DataTypeObject;

extern PyTypeObject FunctionType, ObjectType, ModuleType, TensorType, DeviceType, DataTypeType,
    ArrayCallType, MemoryType;

/*!
 * \brief Classes and rare conversions that are implemented in Python.
 *
 * Set once by configure() when tvmrt.runtime is imported; every member is a strong reference.
 */
typedef struct {
  PyObject* module_class;   /* Module, derived from ModuleType */
  PyObject* tensor_class;   /* NDArray, derived from TensorType */
  PyObject* device_class;   /* Device, derived from DeviceType */
  PyObject* object_class;   /* object_class(type_index): a class derived from ObjectType, or a
                               callable that takes the Object and returns its replacement */
  PyObject* convert;        /* convert(value): a value of a type known to pack_value, (address,)
                               for a raw pointer, (None, object) for an object to move from */
  PyObject* own_tensor;     /* own_tensor(value): a managed NDArray with the same elements */
  PyObject* make_error;     /* make_error(text): the exception for an error text from C */
  PyObject* opaque_pointer; /* opaque_pointer(address): the Python object for a raw pointer */
  PyObject* numpy_array;    /* numpy.ndarray */
  PyObject* numpy_empty;    /* numpy.empty */
  PyObject* numpy_dtype;    /* numpy_dtype(code, bits, lanes): the numpy.dtype of one element */
  PyObject* unpack;         /* unpack(bytes, shape, code, bits): an array of bit-packed elements */
  PyObject* copy_from;      /* copy_from(tensor, source): a copy with conversions */
} Hooks;
extern Hooks hooks;

/*! \brief configure(**hooks): set members of Hooks by name. */
PyObject* core_configure(PyObject* self, PyObject* args, PyObject* kwargs);

/* ---- args.c: Python to C ---- */

enum {
  MAX_INLINE_ARGS = 8,    /* more arguments need an allocation */
  MAX_INLINE_BORROWS = 4, /* more buffers (NumPy arrays, bytes) need an allocation */
};

/*! \brief A Python buffer passed to C for one call, as a tensor or as bytes. */
typedef struct Borrow {
  Py_buffer view;
  union {
    DLTensor tensor;
    TVMByteArray bytes;
  } as;
  int64_t* strides;    /* in elements, if the view is not contiguous; else NULL */
  struct Borrow* next; /* the one acquired before */
  int on_heap;
} Borrow;

/*! \brief Arguments of one call, and everything that must live as long. */
typedef struct {
  TVMValue* values;
  int* codes;
  int count;
  int num_borrows;
  TVMFunctionHandle callee;
  Borrow* borrows;   /* the one acquired last */
  PyObject* objects; /* list of objects made by conversions, or NULL */
  TVMValue inline_values[MAX_INLINE_ARGS];
  int inline_codes[MAX_INLINE_ARGS];
  Borrow inline_borrows[MAX_INLINE_BORROWS];
} Args;

/*!
 * \brief Pack n Python values. On failure there is nothing to release.
 * \param callee The called function, borrowed; NULL if there is none.
 */
int args_pack(Args* args, TVMFunctionHandle callee, PyObject* const* values, Py_ssize_t n);
/*! \brief Release the borrows of args_pack(). */
void args_release(Args* args);
/*!
 * \brief Describe a contiguous buffer as a CPU tensor that borrows its memory.
 *
 * \param flags PyBUF_WRITABLE to require writable memory, else 0.
 */
int borrow_tensor(PyObject* source, Py_buffer* view, DLTensor* out, int flags);

/* ---- returns.c: C to Python ---- */

/*! \brief Convert a returned value; takes ownership of handles, also on failure. */
PyObject* value_to_python(TVMValue value, int code);
/*! \brief Create an object of a class derived from ObjectType or ModuleType; takes ownership of
 *  the handle. */
PyObject* make_handle_object(PyTypeObject* type, void* handle);
/*! \brief adopt(class, address): make_handle_object() for Python. */
PyObject* core_adopt(PyObject* self, PyObject* args);

/* ---- function.c ---- */

/*! \brief Create a PackedFunc; takes ownership of the handle, also on failure. */
PyObject* make_function(TVMFunctionHandle handle);
/*! \brief function_from_handle(address): make_function() for Python. */
PyObject* core_function_from_handle(PyObject* self, PyObject* address);

/*!
 * \brief Thread state with which a packed call on this thread released the GIL; NULL outside calls.
 *
 * With it, a callback acquires the GIL in half the time of PyGILState_Ensure(). A call that keeps
 * the GIL sets it to the running thread state.
 */
extern TVMRT_THREAD_LOCAL PyThreadState* released_state;

/* ---- callback.c ---- */

/*! \brief Create a packed function that calls a Python callable and owns a reference to it. */
int function_from_callable(PyObject* callable, TVMFunctionHandle* out);
/*! \brief function_from_callable() for Python. */
PyObject* core_function_from_callable(PyObject* self, PyObject* callable);

/* ---- tensor.c ---- */

/*! \brief Create an NDArray that owns one reference; takes ownership, also on failure. */
PyObject* make_tensor(TVMArrayHandle handle);
/*! \brief Create an NDArray that borrows a tensor; it must be ended before the tensor is freed. */
PyObject* make_borrowed_tensor(DLTensor* tensor);
/*! \brief tensor_from_handle(address): create an NDArray that takes ownership of a reference. */
PyObject* core_tensor_from_handle(PyObject* self, PyObject* address);
/*! \brief Return the name of a data type: "float32", "bool", "int8x4" ... */
PyObject* dtype_to_text(DLDataType dtype);
/*! \brief Return the bytes of all elements; only elements of 2 and 4 bits share bytes. */
size_t tensor_bytes(const DLTensor* tensor);

/* ---- dlpack.c ---- */

/*! \brief from_dlpack(source): create an NDArray that shares memory with an array or capsule. */
PyObject* core_from_dlpack(PyObject* self, PyObject* source);
/*! \brief An array over the memory of a tensor that nothing else changes; `object` is an NDArray. */
PyObject* core_array_over(PyObject* self, PyObject* object);
/*! \brief Methods of TensorType: __dlpack__(), __dlpack_device__(), to_dlpack(). */
PyObject* tensor_dlpack(PyObject* self, PyObject* const* values, Py_ssize_t n, PyObject* names);
PyObject* tensor_dlpack_device(PyObject* self, PyObject* none);
PyObject* tensor_to_dlpack(PyObject* self, PyObject* none);

/*! \brief Return the DLTensor of an NDArray for export; the object keeps owning its memory. */
DLTensor exported_tensor(PyObject* self);
/*! \brief Return whether an NDArray may be exported; else 0 with an exception set. */
int can_be_exported(PyObject* self);
/*! \brief Create an NDArray that shares a tensor's memory. *taken: whether it owns the tensor. */
PyObject* import_versioned_tensor(DLManagedTensorVersioned* versioned, int* taken);

/* ---- exchange.c ---- */

/*! \brief Add DLPack's exchange API to a class that is ready. */
int add_exchange_table(PyTypeObject* type);

/* ---- device.c ---- */

PyObject* make_device(DLDevice device);

/* ---- array_call.c ---- */

/*! \brief Create the strings that calls look up; called once when the module is created. */
int init_array_call(void);

/* ---- error.c ---- */

/*! \brief Return and clear the current exception; NULL if there is none. */
PyObject* take_exception(void);
/*! \brief Raise an exception object; takes ownership. */
void raise_exception(PyObject* exception);
/*! \brief Raise the last error of the runtime as an exception; always returns NULL. */
PyObject* raise_last_error(void);
/*! \brief Set the current exception as the runtime's last error, and clear it. */
void record_python_error(void);
/*! \brief Drop the exceptions recorded on this thread whose errors C has handled. */
void forget_python_error(void);
/*! \brief Number of threads with a recorded exception; exact with respect to the own thread. */
extern atomic_int num_recorded_errors;
static inline int has_recorded_errors(void) {
  return atomic_load_explicit(&num_recorded_errors, memory_order_relaxed) != 0;
}

#endif /* TVMRT_PYTHON_SRC_CORE_H_ */
