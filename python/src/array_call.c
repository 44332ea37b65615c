/* ArrayCall: runs an executor on NumPy arrays, from inputs to outputs, in one call. For small
   networks, separate calls from Python would take longer than the network. Large inputs are used in
   place where the executor can, and large outputs become arrays without a copy. */
#include "core.h"

/* An input or output of the executor. */
typedef struct {
  int64_t number;
  PyObject* shape;       /* a tuple of ints */
  PyObject* array_dtype; /* the unique NumPy dtype object of the type */
  DLDataType dtype;
  int is_large; /* copying would take long */
} ArrayPort;

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  FunctionObject *set_input, *run, *get_output;
  FunctionObject *bind_input, *take_output; /* for large arrays; may be NULL */
  size_t large_bytes;
  Py_ssize_t num_inputs, num_ports;
  ArrayPort* ports; /* inputs, then outputs */
} ArrayCallObject;

/* An array borrowed for one call. */
typedef struct {
  PyObject* made;       /* the array of an output, NULL for inputs */
  TVMArrayHandle taken; /* the tensor of a large output, without an array yet */
  Py_buffer view;       /* obj is NULL until the buffer is acquired */
  DLTensor tensor;
} ArraySlot;

static PyObject* dtype_name; /* "dtype" */

/* Called once when the module is created; the string is never released. */
int init_array_call(void) {
  /* interned, because looking up an attribute by a C string creates a new string each time */
  dtype_name = PyUnicode_InternFromString("dtype");
  return dtype_name == NULL ? -1 : 0;
}

/* Compare the shape with Python integers without creating new ones. */
static int matches_shape(const ArrayPort* port, const Py_buffer* view) {
  if (view->ndim != PyTuple_GET_SIZE(port->shape)) return 0;
  for (int i = 0; i < view->ndim; i++) {
    if (view->shape[i] != PyLong_AsSsize_t(PyTuple_GET_ITEM(port->shape, i))) return 0;
  }
  return 1;
}

/* Acquire a buffer. The element type was compared by NumPy's dtype object, so the format, which
   NumPy would have to generate, is not requested. */
static int acquire_buffer(const ArrayPort* port, PyObject* array, ArraySlot* slot, int flags) {
  if (PyObject_GetBuffer(array, &slot->view, PyBUF_C_CONTIGUOUS | flags) != 0) return -1;
  slot->tensor = (DLTensor){
      .data = slot->view.buf,
      .device = {kDLCPU, 0},
      .ndim = slot->view.ndim,
      .dtype = port->dtype,
      .shape = (int64_t*)slot->view.shape,
  };
  return 0;
}

/* Return whether the value is an array of exactly the port's type and shape. Other values are left
   to the general path, which converts them or reports an error. */
static int take_input(const ArrayPort* port, PyObject* value, ArraySlot* slot) {
  PyObject* dtype;
  if (Py_TYPE(value) != (PyTypeObject*)hooks.numpy_array) return 0;
  dtype = PyObject_GetAttr(value, dtype_name);
  Py_XDECREF(dtype); /* still alive if it is the port's */
  if (dtype == port->array_dtype && acquire_buffer(port, value, slot, 0) == 0)
    return matches_shape(port, &slot->view);
  PyErr_Clear();
  return 0;
}

/* Create a new array for each call, because callers keep them; large outputs bring memory. */
static int make_output(const ArrayPort* port, ArraySlot* slot) {
  PyObject* const args[] = {port->shape, port->array_dtype};
  slot->made = PyObject_Vectorcall(hooks.numpy_empty, args, 2, NULL);
  return slot->made == NULL ? -1 : acquire_buffer(port, slot->made, slot, PyBUF_WRITABLE);
}

/* Call one of the executor's own functions, which check shapes and devices as for any caller. */
static int pass(const FunctionObject* function, const ArrayPort* port, ArraySlot* slot) {
  TVMValue result, values[2] = {{.v_int64 = port->number}, {.v_handle = &slot->tensor}};
  int code, codes[2] = {kTVMArgInt, kTVMDLTensorHandle};
  return TVMFuncCall(function->handle, values, codes, 2, &result, &code);
}

/* Use a large input in place if the executor can: the array lives longer than the run, and the next
   call replaces it. */
static int set_input(const ArrayCallObject* self, const ArrayPort* port, ArraySlot* slot) {
  if (port->is_large && self->bind_input != NULL && pass(self->bind_input, port, slot) == 0) {
    return 0;
  }
  return pass(self->set_input, port, slot);
}

static int get_output(const ArrayCallObject* self, const ArrayPort* port, ArraySlot* slot) {
  TVMValue result, number = {.v_int64 = port->number};
  int code, number_code = kTVMArgInt;
  if (slot->made != NULL) return pass(self->get_output, port, slot);
  if (TVMFuncCall(self->take_output->handle, &number, &number_code, 1, &result, &code) != 0) {
    return -1;
  }
  slot->taken = result.v_handle;
  return 0;
}

/* Run without the GIL; one release for all calls makes this fast. Each call borrows the `values`
   only while it runs. */
static int run_network(const ArrayCallObject* self, ArraySlot* slots) {
  TVMValue none;
  int rc = 0, code;
  Py_ssize_t i;
  for (i = 0; rc == 0 && i < self->num_inputs; i++) {
    rc = set_input(self, &self->ports[i], &slots[i]);
  }
  if (rc == 0) rc = TVMFuncCall(self->run->handle, &none, &code, 0, &none, &code);
  for (; rc == 0 && i < self->num_ports; i++) {
    rc = get_output(self, &self->ports[i], &slots[i]);
  }
  return rc;
}

/* Make the arrays of large outputs. */
static int show_taken(const ArrayCallObject* self, ArraySlot* slots) {
  for (Py_ssize_t i = self->num_inputs; i < self->num_ports; i++) {
    PyObject* tensor;
    if (slots[i].taken == NULL) continue;
    tensor = make_tensor(slots[i].taken);
    slots[i].taken = NULL; /* it was moved, also on failure */
    if (tensor == NULL) return -1;
    slots[i].made = core_array_over(NULL, tensor);
    Py_DECREF(tensor);
    if (slots[i].made == NULL) return -1;
  }
  return 0;
}

/* Return a single output as it is, and several outputs as a tuple. */
static PyObject* results_of(const ArrayCallObject* self, const ArraySlot* slots) {
  const Py_ssize_t count = self->num_ports - self->num_inputs;
  PyObject* results;
  if (count == 1) return Py_NewRef(slots[self->num_inputs].made);
  results = PyTuple_New(count);
  for (Py_ssize_t i = 0; results != NULL && i < count; i++) {
    PyTuple_SET_ITEM(results, i, Py_NewRef(slots[self->num_inputs + i].made));
  }
  return results;
}

/* The caller releases all acquired slots in every case. */
static PyObject* call_with_slots(const ArrayCallObject* self, PyObject* const* values,
                                 ArraySlot* slots) {
  PyThreadState *state, *outer = released_state;
  int rc;
  Py_ssize_t i;
  for (i = 0; i < self->num_inputs; i++) {
    if (!take_input(&self->ports[i], values[i], &slots[i])) Py_RETURN_NOTIMPLEMENTED;
  }
  for (; i < self->num_ports; i++) {
    if (self->take_output != NULL && self->ports[i].is_large) continue;
    if (make_output(&self->ports[i], &slots[i]) != 0) return NULL;
  }
  /* callbacks on this thread use it to take the GIL back */
  released_state = state = PyEval_SaveThread();
  rc = run_network(self, slots);
  released_state = outer;
  PyEval_RestoreThread(state);
  if (rc != 0) return raise_last_error();
  /* left by callbacks whose errors C has handled */
  if (has_recorded_errors()) forget_python_error();
  return show_taken(self, slots) == 0 ? results_of(self, slots) : NULL;
}

/* Return NotImplemented if the caller must take the general path, which converts or reports. */
static PyObject* array_call_vectorcall(PyObject* object, PyObject* const* values, size_t nargsf,
                                       PyObject* names) {
  const ArrayCallObject* self = (const ArrayCallObject*)object;
  PyObject* result;
  ArraySlot* slots;
  if (names != NULL || PyVectorcall_NARGS(nargsf) != self->num_inputs) Py_RETURN_NOTIMPLEMENTED;
  /* zeroed, so that releasing unused slots does nothing */
  slots = PyMem_Calloc((size_t)self->num_ports + 1, sizeof(*slots));
  if (slots == NULL) return PyErr_NoMemory();
  result = call_with_slots(self, values, slots);
  for (Py_ssize_t i = 0; i < self->num_ports; i++) {
    PyBuffer_Release(&slots[i].view);
    Py_XDECREF(slots[i].made);
    if (slots[i].taken != NULL) (void)TVMArrayFree(slots[i].taken);
  }
  PyMem_Free(slots);
  return result;
}

/* ---- construction and destruction ---- */

/* Read (number, shape, NumPy dtype, DataType); the port holds references. */
static int read_port(PyObject* desc, ArrayPort* port) {
  DataTypeObject* dtype;
  long long number;
  if (!PyArg_ParseTuple(desc, "LO!OO!:port", &number, &PyTuple_Type, &port->shape,
                        &port->array_dtype, &DataTypeType, &dtype)) {
    /* borrowed at this point, so the destructor must not release them */
    port->shape = port->array_dtype = NULL;
    return -1;
  }
  Py_INCREF(port->shape);
  Py_INCREF(port->array_dtype);
  port->number = number;
  port->dtype = dtype->dtype;
  return 0;
}

/* Return whether the port's array has at least this number of bytes; -1 with an exception set. */
static int has_bytes(const ArrayPort* port, size_t least) {
  const int element_bytes = (port->dtype.bits + 7) / 8;
  double bytes = element_bytes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(port->shape); i++) {
    bytes *= (double)PyLong_AsSsize_t(PyTuple_GET_ITEM(port->shape, i));
  }
  return PyErr_Occurred() ? -1 : bytes >= (double)least;
}

/* Count ports while reading them, so that a failure releases only those that were read. */
static int read_ports(ArrayCallObject* self, PyObject* inputs, PyObject* outputs) {
  const Py_ssize_t num_inputs = PyTuple_GET_SIZE(inputs);
  const Py_ssize_t count = num_inputs + PyTuple_GET_SIZE(outputs);
  self->num_inputs = num_inputs;
  self->ports = PyMem_Calloc((size_t)count + 1, sizeof(*self->ports));
  if (self->ports == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* desc =
        i < num_inputs ? PyTuple_GET_ITEM(inputs, i) : PyTuple_GET_ITEM(outputs, i - num_inputs);
    /* set before reading, because the destructor releases partly read ports as well */
    self->num_ports = i + 1;
    if (read_port(desc, &self->ports[i]) != 0) return -1;
    self->ports[i].is_large = has_bytes(&self->ports[i], self->large_bytes);
    if (self->ports[i].is_large < 0) return -1;
  }
  return 0;
}

/* Take positional arguments only; called only by this package. */
static PyObject* array_call_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *set_input, *run, *get_output, *inputs, *outputs;
  PyObject *bind_input = NULL, *take_output = NULL;
  Py_ssize_t large_bytes = 0;
  ArrayCallObject* self;
  if (kwargs != NULL ||
      !PyArg_ParseTuple(args, "O!O!O!O!O!|O!O!n:ArrayCall", &FunctionType, &set_input,
                        &FunctionType, &run, &FunctionType, &get_output, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &outputs, &FunctionType, &bind_input, &FunctionType,
                        &take_output, &large_bytes)) {
    return NULL;
  }
  self = (ArrayCallObject*)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->vectorcall = array_call_vectorcall;
  self->set_input = (FunctionObject*)Py_NewRef(set_input);
  self->run = (FunctionObject*)Py_NewRef(run);
  self->get_output = (FunctionObject*)Py_NewRef(get_output);
  self->bind_input = (FunctionObject*)Py_XNewRef(bind_input);
  self->take_output = (FunctionObject*)Py_XNewRef(take_output);
  self->large_bytes = (size_t)large_bytes;
  if (read_ports(self, inputs, outputs) == 0) return (PyObject*)self;
  Py_DECREF(self);
  return NULL;
}

/* Also destroys partly constructed objects, whose missing members are NULL. */
static void array_call_dealloc(PyObject* object) {
  ArrayCallObject* self = (ArrayCallObject*)object;
  for (Py_ssize_t i = 0; i < self->num_ports; i++) {
    Py_XDECREF(self->ports[i].shape);
    Py_XDECREF(self->ports[i].array_dtype);
  }
  PyMem_Free(self->ports);
  Py_XDECREF(self->set_input);
  Py_XDECREF(self->run);
  Py_XDECREF(self->get_output);
  Py_XDECREF(self->bind_input);
  Py_XDECREF(self->take_output);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject ArrayCallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tvmrt.runtime._core.ArrayCall",
    .tp_doc =
        "ArrayCall(set_input, run, get_output, inputs, outputs[, bind_input, take_output,\n"
        "large_bytes]): an executor as a function.\n\n"
        "Inputs and outputs are tuples of (number, shape, numpy.dtype, DataType). A call with\n"
        "contiguous numpy arrays of just these gives new arrays, one or a tuple; with anything\n"
        "else NotImplemented. Arrays of `large_bytes` or more are bound and taken without a copy.\n"
        "As the executor, it serves one thread at a time.",
    .tp_basicsize = sizeof(ArrayCallObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(ArrayCallObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = array_call_new,
    .tp_dealloc = array_call_dealloc,
};
