/*!
 * \file core.h
 * \brief What the files of the extension module tvmrt.runtime._core share.
 *
 * The module makes calls of packed functions cheap: it packs Python arguments into TVMValues, calls
 * with the GIL released, converts what comes back, and lets C call Python. One Python object owns
 * one reference of the handle that it shows; the classes with the methods that people use are in
 * Python, derived from the types here. Everything here runs with the GIL held unless a comment says
 * otherwise. Without one (PEP 703) what the whole module shares is atomic, made before any thread can see
 * it, or not shared; one object is used by threads at once as far as nobody changes it, as numpy's arrays
 * are. Functions return 0 or a new reference on success, -1 or NULL with an exception set on
 * failure, as is usual in Python's C API.
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
/* Keeps the frame of a rarer path out of its caller. */
#define TVMRT_NOINLINE __attribute__((noinline))
#else
#define TVMRT_NOINLINE
#endif

/* One pointer fits the space that the loader of glibc keeps free, and is then read without a call; that
 * of musl keeps none, and loads no library that asks for it. */
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
#endif

/* PyGILState_Check() says yes to every thread once a subinterpreter has been made. */
static inline int has_gil(void) {
  PyThreadState* state = PyGILState_GetThisThreadState();
  return state != NULL && state == PyThreadState_GetUnchecked();
}

/* Once the interpreter is going, only the thread that ends it may still run Python. */
static inline int python_is_gone(void) {
  return !Py_IsInitialized() || (Py_IsFinalizing() && !has_gil());
}

/*! \brief A packed function; called through vectorcall. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  TVMFunctionHandle handle; /* one reference, or NULL */
  PyObject* weakrefs;
  atomic_int keeps_gil; /* calls run with the GIL held */
} FunctionObject;

/*! \brief A module or any other reference-counted object: base of Module, Array, Map, ... */
typedef struct {
  PyObject_HEAD void* handle; /* one reference, or NULL */
} HandleObject;

/*! \brief A tensor: either one reference of a managed tensor, or a view of somebody's memory. */
typedef struct {
  PyObject_HEAD DLTensor* tensor; /* NULL once a borrowed view has ended */
  DLManagedTensor* foreign;       /* the view's memory, released by its deleter; NULL if borrowed */
  int is_view; /* passed as kTVMDLTensorHandle, holds no reference of a container */
  PyObject* weakrefs;
} TensorObject;

/*! \brief A device: base of tvmrt.runtime.Device. */
typedef struct {
  PyObject_HEAD DLDevice device;
} DeviceObject;

/*! \brief A data type: base of tvmrt.runtime.DataType. */
typedef struct {
  PyObject_HEAD DLDataType dtype;
} DataTypeObject;

extern PyTypeObject FunctionType, ObjectType, ModuleType, TensorType, DeviceType, DataTypeType,
    ArrayCallType;

/*!
 * \brief What Python supplies: classes to make, and conversions too rare to be worth C.
 *
 * Set once by configure() while tvmrt.runtime is imported; every member is a strong reference.
 */
typedef struct {
  PyObject* module_class;   /* Module, derived from ModuleType */
  PyObject* tensor_class;   /* NDArray, derived from TensorType */
  PyObject* device_class;   /* Device, derived from DeviceType */
  PyObject* object_class;   /* object_class(type_index): a class derived from ObjectType, or a
                               callable that gets the Object and returns what people see */
  PyObject* convert;        /* convert(value): a value of a type that pack_value knows, (address,)
                               for a raw pointer, (None, object) for an object to move from */
  PyObject* own_tensor;     /* own_tensor(value): a managed NDArray with the same elements */
  PyObject* make_error;     /* make_error(text): the exception that a text from C stands for */
  PyObject* opaque_pointer; /* opaque_pointer(address): what a raw pointer is in Python */
  PyObject* numpy_array;    /* numpy.ndarray */
  PyObject* numpy_empty;    /* numpy.empty */
  PyObject* numpy_dtype;    /* numpy_dtype(code, bits, lanes): the numpy.dtype of one element */
  PyObject* unpack;         /* unpack(bytes, shape, code, bits): an array of packed elements */
  PyObject* copy_from;      /* copy_from(tensor, source): the copy with conversions */
} Hooks;
extern Hooks hooks;

/*! \brief configure(**hooks): supply members of Hooks by name. */
PyObject* core_configure(PyObject* self, PyObject* args, PyObject* kwargs);

/* ---- args.c: Python to C ---- */

enum {
  MAX_INLINE_ARGS = 8,    /* more arguments than this cost an allocation */
  MAX_INLINE_BORROWS = 4, /* so do more buffers (numpy arrays, bytes) than this */
};

/*! \brief A Python buffer shown to C for the time of one call, as a tensor or as bytes. */
typedef struct Borrow {
  Py_buffer view;
  union {
    DLTensor tensor;
    TVMByteArray bytes;
  } as;
  int64_t* strides;    /* in elements, where the view is not compact; else NULL */
  struct Borrow* next; /* the one taken before */
  int on_heap;
} Borrow;

/*! \brief Arguments of one call, and all that must live as long as it. */
typedef struct {
  TVMValue* values;
  int* codes;
  int count;
  int num_borrows;
  TVMFunctionHandle callee;
  Borrow* borrows;   /* the last one taken */
  PyObject* objects; /* list of objects made by conversions, or NULL */
  TVMValue inline_values[MAX_INLINE_ARGS];
  int inline_codes[MAX_INLINE_ARGS];
  Borrow inline_borrows[MAX_INLINE_BORROWS];
} Args;

/*!
 * \brief Pack n Python values. On failure nothing is left to release.
 * \param callee Who gets them, borrowed; NULL where nobody is called.
 */
int args_pack(Args* args, TVMFunctionHandle callee, PyObject* const* values, Py_ssize_t n);
/*! \brief End the borrows of args_pack(). */
void args_release(Args* args);
/*!
 * \brief Describe a contiguous buffer as a CPU tensor that borrows it.
 *
 * \param flags PyBUF_WRITABLE to insist on memory that may be written, else 0.
 */
int borrow_tensor(PyObject* source, Py_buffer* view, DLTensor* out, int flags);

/* ---- returns.c: C to Python ---- */

/*! \brief Convert a returned value; owned handles are taken over, also on failure. */
PyObject* value_to_python(TVMValue value, int code);
/*! \brief Make an object of a class derived from ObjectType or ModuleType; takes the handle over.
 */
PyObject* make_handle_object(PyTypeObject* type, void* handle);
/*! \brief adopt(class, address): the same for Python. */
PyObject* core_adopt(PyObject* self, PyObject* args);

/* ---- function.c ---- */

/*! \brief Make a PackedFunc; takes the handle over, also on failure. */
PyObject* make_function(TVMFunctionHandle handle);
/*! \brief function_from_handle(address): the same for Python. */
PyObject* core_function_from_handle(PyObject* self, PyObject* address);

/*!
 * \brief The thread state with which a packed call on this thread has given up the GIL; else NULL.
 *
 * With it a callback takes the GIL in half the time that PyGILState_Ensure() needs. In a call that keeps
 * the GIL it is the thread's state too, which callbacks find to be the running one.
 */
extern TVMRT_THREAD_LOCAL PyThreadState* released_state;

/* ---- callback.c ---- */

/*! \brief Make a packed function that calls a Python callable and owns a reference to it. */
int function_from_callable(PyObject* callable, TVMFunctionHandle* out);
/*! \brief function_from_callable(callable): the same for Python. */
PyObject* core_function_from_callable(PyObject* self, PyObject* callable);

/* ---- tensor.c ---- */

/*! \brief Make an NDArray that owns one reference; takes the handle over, also on failure. */
PyObject* make_tensor(TVMArrayHandle handle);
/*! \brief Make an NDArray that borrows; it must be ended before the tensor goes. */
PyObject* make_borrowed_tensor(DLTensor* tensor);
/*! \brief tensor_from_handle(address): an NDArray that takes over one reference. */
PyObject* core_tensor_from_handle(PyObject* self, PyObject* address);
/*! \brief "float32", "bool", "int8x4" ... */
PyObject* dtype_to_text(DLDataType dtype);
/*! \brief Bytes of all elements; a lane or element of less than 8 bits takes a whole byte. */
size_t tensor_bytes(const DLTensor* tensor);

/* ---- dlpack.c ---- */

/*! \brief from_dlpack(source): an NDArray that shares the memory of an array or capsule. */
PyObject* core_from_dlpack(PyObject* self, PyObject* source);
/*! \brief Methods of TensorType: __dlpack__(), __dlpack_device__(), to_dlpack(). */
PyObject* tensor_dlpack(PyObject* self, PyObject* const* values, Py_ssize_t n, PyObject* names);
PyObject* tensor_dlpack_device(PyObject* self, PyObject* none);
PyObject* tensor_to_dlpack(PyObject* self, PyObject* none);

/*! \brief The description of an NDArray for others; its memory stays the object's. */
DLTensor exported_tensor(PyObject* self);
/*! \brief Whether an NDArray may be given away; else 0 with an exception set. */
int can_be_exported(PyObject* self);
/*! \brief An NDArray that shares a tensor's memory. *taken: whether it owns the tensor now. */
PyObject* import_versioned_tensor(DLManagedTensorVersioned* versioned, int* taken);

/* ---- exchange.c ---- */

/*! \brief Let a class that is ready carry DLPack's exchange interface. */
int add_exchange_table(PyTypeObject* type);

/* ---- device.c ---- */

PyObject* make_device(DLDevice device);

/* ---- array_call.c ---- */

/*! \brief Names that its calls look up; once, while the module is made. */
int init_array_call(void);

/* ---- error.c ---- */

/*! \brief The current exception, cleared; NULL if there is none. */
PyObject* take_exception(void);
/*! \brief Raise an exception object; takes the reference. */
void raise_exception(PyObject* exception);
/*! \brief Raise what the last failing call of the runtime said; always returns NULL. */
PyObject* raise_last_error(void);
/*! \brief Hand the current exception to the runtime, as its last error, and clear it. */
void record_python_error(void);
/*! \brief Forget exceptions recorded on this thread that C has swallowed. */
void forget_python_error(void);
/*! \brief How many threads hold a recorded exception; a thread sees its own for certain. */
extern atomic_int num_recorded_errors;
static inline int has_recorded_errors(void) {
  return atomic_load_explicit(&num_recorded_errors, memory_order_relaxed) != 0;
}

#endif /* TVMRT_PYTHON_SRC_CORE_H_ */
