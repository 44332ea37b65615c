/*!
 * \file tvm/runtime/memory_device.h
 * \brief Memory devices: what the runtime asks of the memory that tensors lie in.
 *
 * The runtime has the CPU's. That of another type comes with a plug-in, which registers the global
 * function `device_api.<name>`, by the name of the type as in "opencl" or "hexagon"; it takes nothing
 * and returns the address of a tvmrt_memory_device, which stays valid for good, as a
 * kTVMOpaqueHandle (functions of c_runtime_api.h):
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
 * Accelerators, which compute regions of networks, are another thing: device.h.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_MEMORY_DEVICE_H_
#define TVM_RUNTIME_MEMORY_DEVICE_H_

#include <tvm/runtime/c_packed_func.h>

/*!
 * \brief The memory of one type of devices.
 *
 * Functions return 0, or -1 after TVMPackedFuncSetLastError(); they are called from any thread,
 * several at once. Those that are said to be optional may be NULL.
 */
typedef struct tvmrt_memory_device {
  size_t struct_bytes;          /*!< sizeof(tvmrt_memory_device); of another size it is refused. */
  const char* name;             /*!< "opencl" and the like. */
  int (*exists)(int device_id); /*!< 1 if there is such a device, else 0. */
  /*! Memory for a tensor; `align`, in bytes, is a power of two. `*out` is given to `free`. */
  int (*alloc)(DLDevice dev, size_t bytes, size_t align, void** out);
  int (*free)(DLDevice dev, void* ptr);
  /*! Copy bytes; one side may be host memory. Addresses include offsets. Without a stream (NULL) the
   * copy is complete on return. */
  int (*copy)(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
              TVMStreamHandle stream);
  int (*stream_create)(DLDevice dev, TVMStreamHandle* out); /*!< Optional. */
  int (*stream_free)(DLDevice dev, TVMStreamHandle stream); /*!< Optional. */
  int (*stream_sync)(DLDevice dev, TVMStreamHandle stream); /*!< Optional: wait for all of it. */
  /*! Optional: what comes on `dst` waits for what is on `src`. */
  int (*stream_wait)(DLDevice dev, TVMStreamHandle src, TVMStreamHandle dst);
} tvmrt_memory_device;

#endif /* TVM_RUNTIME_MEMORY_DEVICE_H_ */
