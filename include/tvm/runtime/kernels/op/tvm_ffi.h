/*!
 * \file tvm_ffi.h
 * \brief A network as a function of tensors with the calling convention of tvm-ffi.
 *
 * Generated code has one such function f(inputs..., outputs...). Tensors are DLTensors or objects
 * that hold one, in the caller's memory, compact and with the network's types and shapes; otherwise
 * the error names the tensor. Nothing is kept after the call.
 *
 * Neither headers nor a library of tvm-ffi are needed: the structures below follow its ABI (0.1).
 * Its one function that raises an error is looked up when the library is loaded. A process without
 * libtvm_runtime uses the single-threaded definitions here for the runtime functions that generated
 * code calls. They are weak: if the runtime is loaded first, the loader uses the runtime's.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_TVM_FFI_H_
#define TVM_RUNTIME_KERNELS_OP_TVM_FFI_H_

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

enum {
  TVMRT_FFI_DLTENSOR = 7,
  TVMRT_FFI_TENSOR = 70,
  TVMRT_FFI_HEADER_BYTES = 24, /* of an object; a tensor's DLTensor follows */
  TVMRT_FFI_BOOL = 6,          /* DLPack's type code, with 8 bits; here a 1-bit unsigned integer */
  TVMRT_FFI_TEXT_BYTES = 600,
};

/*! \brief A value; 0 is None. */
typedef struct tvmrt_ffi_any {
  int32_t type_index;
  uint32_t small_size;
  union {
    int64_t v_int64;
    void* v_ptr;
  } u;
} tvmrt_ffi_any;

/*! \brief An input or output of the network. */
typedef struct tvmrt_ffi_port {
  const char* name;
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape; /*!< Extents; -1 if dynamic. */
} tvmrt_ffi_port;

/*! \brief A network, and memory for one call of its packed main function. */
typedef struct tvmrt_ffi_network {
  const char* name;
  const tvmrt_ffi_port* ports; /*!< Inputs, then outputs. */
  int32_t num_inputs;
  int32_t num_ports;
  uint64_t workspace_bytes; /*!< 0: none. */
  int32_t (*main)(TVMValue* args, int* type_codes, int num_args, TVMValue* out_ret_value,
                  int* out_ret_tcode, void* resource_handle);
  DLTensor* tensors; /*!< One per port, and one for the workspace. */
  TVMValue* values;  /*!< One per port, and two more. */
  int* codes;        /*!< One per value. */
  int64_t* extents;  /*!< One per axis of the ports. */
} tvmrt_ffi_network;

#if defined(__GNUC__)
#define TVMRT_FFI_WEAK __attribute__((weak, visibility("default")))
#else
#define TVMRT_FFI_WEAK
#endif

/* NULL in a process without tvm-ffi. */
extern void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) TVMRT_FFI_WEAK;

/* Raise "Kind: message", or a RuntimeError if the text starts with no kind; return -1. */
static int tvmrt_ffi_raise(const char* text) {
  char kind[64];
  const char* colon = strstr(text, ": ");
  size_t size = colon == NULL ? 0 : (size_t)(colon - text);
  if (TVMFFIErrorSetRaisedFromCStr == NULL) return -1;
  if (size < 5 || size >= sizeof(kind) || strncmp(colon - 5, "Error", 5) != 0 ||
      memchr(text, ' ', size) != NULL) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", text);
    return -1;
  }
  memcpy(kind, text, size);
  kind[size] = '\0';
  TVMFFIErrorSetRaisedFromCStr(kind, colon + 2);
  return -1;
}

static const char* tvmrt_ffi_kind(const tvmrt_ffi_network* net, int i) {
  return i < net->num_inputs ? "input" : "output";
}

static int tvmrt_ffi_refuse(const tvmrt_ffi_network* net, int i, const char* error,
                            const char* what) {
  char text[TVMRT_FFI_TEXT_BYTES];
  (void)snprintf(text, sizeof(text), "%s: %.80s: argument %d, %s '%.80s', %s.", error, net->name, i,
                 tvmrt_ffi_kind(net, i), net->ports[i].name, what);
  return tvmrt_ffi_raise(text);
}

/* "[2, 3]", with "any" for -1; truncated to the buffer. */
static void tvmrt_ffi_print_shape(const int64_t* shape, int ndim, char* out, size_t bytes) {
  size_t size = (size_t)snprintf(out, bytes, "[");
  for (int i = 0; i < ndim && size < bytes; ++i) {
    const char* gap = i == 0 ? "" : ", ";
    const int added = shape[i] < 0
                          ? snprintf(out + size, bytes - size, "%sany", gap)
                          : snprintf(out + size, bytes - size, "%s%" PRId64, gap, shape[i]);
    size += (size_t)added;
  }
  if (size < bytes) (void)snprintf(out + size, bytes - size, "]");
}

static int tvmrt_ffi_refuse_shape(const tvmrt_ffi_network* net, int i, const int64_t* given,
                                  int ndim, const int64_t* wanted, int rank) {
  char has[160], wants[160], what[400];
  tvmrt_ffi_print_shape(given, ndim, has, sizeof(has));
  tvmrt_ffi_print_shape(wanted, rank, wants, sizeof(wants));
  (void)snprintf(what, sizeof(what), "has the shape %s, expected %s", has, wants);
  return tvmrt_ffi_refuse(net, i, "ValueError", what);
}

static int tvmrt_ffi_is_compact(const DLTensor* tensor) {
  int64_t step = 1;
  int compact = 1;
  if (tensor->strides == NULL) return 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] == 0) return 1;
    if (tensor->shape[i] != 1 && tensor->strides[i] != step) compact = 0;
    step *= tensor->shape[i];
  }
  return compact;
}

static int tvmrt_ffi_check_type(const tvmrt_ffi_network* net, int i, const DLTensor* tensor) {
  const DLDataType want = net->ports[i].dtype;
  char what[160];
  DLDataType has = tensor->dtype;
  if (has.code == TVMRT_FFI_BOOL && has.bits == 8) {
    has.code = kDLUInt;
    has.bits = 1;
  }
  if (has.code == want.code && has.bits == want.bits && has.lanes == want.lanes) return 0;
  (void)snprintf(what, sizeof(what),
                 "has DLPack type code %d with %d bits, expected code %d with %d bits", has.code,
                 has.bits, want.code, want.bits);
  return tvmrt_ffi_refuse(net, i, "TypeError", what);
}

static int tvmrt_ffi_check(const tvmrt_ffi_network* net, int i, const DLTensor* tensor) {
  const tvmrt_ffi_port* port = &net->ports[i];
  const uintptr_t bytes = (port->dtype.bits + 7u) / 8u;
  int fits = tensor->ndim == port->ndim;
  int64_t count = 1;
  if (tensor->device.device_type != kDLCPU) {
    return tvmrt_ffi_refuse(net, i, "ValueError", "is not in CPU memory; pass a CPU tensor");
  }
  if (tvmrt_ffi_check_type(net, i, tensor) != 0) return -1;
  for (int axis = 0; fits && axis < port->ndim; ++axis) {
    fits = tensor->shape[axis] >= 0 &&
           (port->shape[axis] < 0 || tensor->shape[axis] == port->shape[axis]);
    if (tensor->shape[axis] == 0) count = 0;
  }
  if (!fits) {
    return tvmrt_ffi_refuse_shape(net, i, tensor->shape, tensor->ndim, port->shape, port->ndim);
  }
  if (!tvmrt_ffi_is_compact(tensor)) {
    return tvmrt_ffi_refuse(net, i, "ValueError", "is not contiguous; pass a contiguous copy");
  }
  if (count != 0 && (tensor->data == NULL ||
                     ((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset) % bytes != 0)) {
    return tvmrt_ffi_refuse(net, i, "ValueError",
                            "is not aligned to its element size; pass an aligned copy");
  }
  return 0;
}

/* Convert the tensors for the packed function; shapes are copies, which it may change. */
static int tvmrt_ffi_take(const tvmrt_ffi_network* net, const tvmrt_ffi_any* args) {
  int64_t* extents = net->extents;
  for (int i = 0; i < net->num_ports; ++i) {
    const tvmrt_ffi_port* port = &net->ports[i];
    const DLTensor* tensor = (const DLTensor*)args[i].u.v_ptr;
    if (args[i].type_index == TVMRT_FFI_TENSOR && tensor != NULL) {
      tensor = (const DLTensor*)(const void*)((const char*)tensor + TVMRT_FFI_HEADER_BYTES);
    } else if (args[i].type_index != TVMRT_FFI_DLTENSOR || tensor == NULL) {
      return tvmrt_ffi_refuse(net, i, "TypeError", "is not a tensor");
    }
    if (tvmrt_ffi_check(net, i, tensor) != 0) return -1;
    for (int axis = 0; axis < port->ndim; ++axis) extents[axis] = tensor->shape[axis];
    net->tensors[i] = *tensor;
    net->tensors[i].dtype = port->dtype;
    net->tensors[i].shape = extents;
    net->tensors[i].strides = NULL;
    net->values[i].v_handle = &net->tensors[i];
    net->codes[i] = kTVMDLTensorHandle;
    extents += port->ndim;
  }
  return 0;
}

/* Compare the outputs' extents of the run with those of the caller's tensors. */
static int tvmrt_ffi_compare(const tvmrt_ffi_network* net, const tvmrt_ffi_any* args) {
  for (int i = net->num_inputs; i < net->num_ports; ++i) {
    const size_t skip = args[i].type_index == TVMRT_FFI_TENSOR ? TVMRT_FFI_HEADER_BYTES : 0;
    const DLTensor* given = (const DLTensor*)(const void*)((const char*)args[i].u.v_ptr + skip);
    const DLTensor* found = &net->tensors[i];
    for (int axis = 0; axis < found->ndim; ++axis) {
      if (found->shape[axis] == given->shape[axis]) continue;
      return tvmrt_ffi_refuse_shape(net, i, given->shape, given->ndim, found->shape, found->ndim);
    }
  }
  return 0;
}

/* Run the network with a separate workspace: concurrent calls are allowed. */
static int tvmrt_ffi_run(const tvmrt_ffi_network* net) {
  int64_t bytes = (int64_t)net->workspace_bytes;
  int count = net->num_ports;
  DLTensor* workspace = &net->tensors[count];
  TVMValue ret;
  int ret_code = kTVMNullptr;
  int rc;
  memset(workspace, 0, sizeof(*workspace));
  if (bytes != 0) {
    workspace->data = TVMBackendAllocWorkspace(kDLCPU, 0, net->workspace_bytes, kDLUInt, 8);
    if (workspace->data == NULL) return tvmrt_ffi_raise("MemoryError: no memory for the workspace");
    workspace->device.device_type = kDLCPU;
    workspace->ndim = 1;
    workspace->dtype.code = kDLUInt;
    workspace->dtype.bits = 8;
    workspace->dtype.lanes = 1;
    workspace->shape = &bytes;
    net->values[count].v_handle = workspace; /* placeholder for the library's constants */
    net->codes[count++] = kTVMDLTensorHandle;
    net->values[count].v_handle = workspace;
    net->codes[count++] = kTVMDLTensorHandle;
  }
  ret.v_int64 = 0;
  rc = (int)net->main(net->values, net->codes, count, &ret, &ret_code, NULL);
  if (workspace->data != NULL) (void)TVMBackendFreeWorkspace(kDLCPU, 0, workspace->data);
  return rc == 0 ? 0 : tvmrt_ffi_raise(TVMGetLastError());
}

/*! \brief Implementation of a network's tvm-ffi function. */
static int tvmrt_ffi_call(const tvmrt_ffi_network* net, const tvmrt_ffi_any* args, int32_t num_args,
                          tvmrt_ffi_any* result) {
  result->type_index = 0;
  result->small_size = 0;
  result->u.v_int64 = 0;
  if (num_args != net->num_ports) {
    char text[TVMRT_FFI_TEXT_BYTES];
    (void)snprintf(text, sizeof(text),
                   "TypeError: %.80s expected %d tensors (%d inputs, %d outputs), got %d.",
                   net->name, (int)net->num_ports, (int)net->num_inputs,
                   (int)(net->num_ports - net->num_inputs), (int)num_args);
    return tvmrt_ffi_raise(text);
  }
  if (tvmrt_ffi_take(net, args) != 0 || tvmrt_ffi_run(net) != 0) return -1;
  return tvmrt_ffi_compare(net, args);
}

/* ---- without libtvm_runtime ---- */

#if defined(__GNUC__)
static __thread char tvmrt_ffi_error[TVMRT_FFI_TEXT_BYTES];

TVMRT_FFI_WEAK void TVMAPISetLastError(const char* text) {
  (void)snprintf(tvmrt_ffi_error, sizeof(tvmrt_ffi_error), "%s", text);
}

TVMRT_FFI_WEAK const char* TVMGetLastError(void) { return tvmrt_ffi_error; }

/* Aligned like the runtime's; the address returned by malloc() is stored before the memory. */
TVMRT_FFI_WEAK void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                              int dtype_code_hint, int dtype_bits_hint) {
  enum { ALIGN = 64 };
  char* block = nbytes > SIZE_MAX - 2 * ALIGN ? NULL : (char*)malloc((size_t)nbytes + 2 * ALIGN);
  char* memory;
  (void)device_type;
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  if (block == NULL) {
    TVMAPISetLastError("MemoryError: no memory for the workspace");
    return NULL;
  }
  memory = block + 2 * ALIGN - (uintptr_t)block % ALIGN;
  memcpy(memory - sizeof(block), &block, sizeof(block));
  return memory;
}

TVMRT_FFI_WEAK int TVMBackendFreeWorkspace(int device_type, int device_id, void* memory) {
  char* block;
  (void)device_type;
  (void)device_id;
  memcpy(&block, (char*)memory - sizeof(block), sizeof(block));
  free(block);
  return 0;
}

TVMRT_FFI_WEAK int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  TVMParallelGroupEnv env;
  (void)num_task; /* a lambda splits its work by env.num_task, whatever was requested */
  env.sync_handle = NULL;
  env.num_task = 1;
  return flambda(0, &env, cdata) == 0 ? 0 : -1;
}

TVMRT_FFI_WEAK int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv) {
  (void)task_id;
  (void)penv;
  return 0;
}
#endif

#endif /* TVM_RUNTIME_KERNELS_OP_TVM_FFI_H_ */
