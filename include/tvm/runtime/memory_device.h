/*!
 * \file tvm/runtime/memory_device.h
 * \brief Memory devices: allocate, copy and synchronise the memory of tensors.
 *
 * The runtime implements the CPU's. Memory of another type comes with a plug-in, which registers
 * the global function `device_api.<name>`, with the name of the type such as "opencl" or "hexagon".
 * The function takes no arguments and returns the address of a tvmrt_memory_device, which must stay
 * valid until the process ends, as a kTVMOpaqueHandle (functions of c_runtime_api.h):
 *
 *     static const tvmrt_memory_device npu = {.struct_bytes = sizeof(npu), .name = "npu", ...};
 *     static int get_npu(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
 *                        void* resource) {
 *       TVMValue address = {.v_handle = (void*)&npu};
 *       int code = kTVMOpaqueHandle;
 *       return TVMCFuncSetReturn(ret, &address, &code, 1);
 *     }
 *     ...
 *     TVMFunctionHandle f;
 *     int rc = TVMFuncCreateFromCFunc(get_npu, NULL, NULL, &f);
 *     if (rc == 0) rc = TVMFuncRegisterGlobal("device_api.npu", f, 1);
 *
 * Accelerators, which compute regions of networks, are described in device.h.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_MEMORY_DEVICE_H_
#define TVM_RUNTIME_MEMORY_DEVICE_H_

#include <tvm/runtime/c_packed_func.h>

/*!
 * \brief The memory of one type of devices.
 *
 * Functions return 0, or -1 after TVMPackedFuncSetLastError(). They are called from any thread,
 * several at once. Functions marked as optional may be NULL.
 */
typedef struct tvmrt_memory_device {
  size_t struct_bytes;          /*!< sizeof(tvmrt_memory_device); another size is refused. */
  const char* name;             /*!< "opencl" and the like. */
  int (*exists)(int device_id); /*!< 1 if there is such a device, else 0. */
  /*! Allocate a tensor's memory; `align`, in bytes, is a power of two. Released by `free`. */
  int (*alloc)(DLDevice dev, size_t bytes, size_t align, void** out);
  int (*free)(DLDevice dev, void* ptr);
  /*! Copy bytes; one side may be host memory. Addresses include offsets. Without a stream (NULL) the
   * copy is complete on return. */
  int (*copy)(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
              TVMStreamHandle stream);
  int (*stream_create)(DLDevice dev, TVMStreamHandle* out); /*!< Optional. */
  int (*stream_free)(DLDevice dev, TVMStreamHandle stream); /*!< Optional. */
  int (*stream_sync)(DLDevice dev, TVMStreamHandle stream); /*!< Optional: wait for all its work. */
  /*! Optional: later work on `dst` waits for the current work on `src`. */
  int (*stream_wait)(DLDevice dev, TVMStreamHandle src, TVMStreamHandle dst);
} tvmrt_memory_device;

#endif /* TVM_RUNTIME_MEMORY_DEVICE_H_ */
