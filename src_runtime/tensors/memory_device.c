/* Memory devices: the CPU, and the C functions for memory and streams.
 *
 * Tensors may lie in memory of any device that registers functions for it; only the CPU is always
 * available. A device is identified by DLPack's type number. Nothing is locked: the structs of
 * devices are static, and stay valid after their device is unregistered; their functions then
 * fail. */
#include "memory_device.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../core/hooks.h"
#include "../core/thread_pool.h"
#include "../platform/system.h"

/* From here on, types of other machines: session number times this, plus the type. */
enum { REMOTE_TYPES = 128 };

/* All numbers from 0 on are the same CPU; negative ones are invalid. */
static int cpu_exists(int device_id) { return device_id >= 0; }

/* Never NULL for 0 bytes: empty tensors have an address. */
static int cpu_alloc(DLDevice dev, size_t bytes, size_t align, void** out) {
  (void)dev;
  /* required by aligned allocators */
  if (align < sizeof(void*)) align = sizeof(void*);
  /* Small blocks come from the heap, whose padding is known to be unused. */
  *out = tvmrt__aligned_alloc(align, bytes == 0 ? 1 : bytes);
  if (*out != NULL) return 0;
  return tvmrt__fail_memory(bytes);
}

static int cpu_free(DLDevice dev, void* ptr) {
  (void)dev;
  tvmrt__aligned_free(ptr);
  return 0;
}

/* Minimum size of parallel copies, and size that a thread copies in two microseconds. */
enum { SHARED_BYTES = 128 << 10, PART_BYTES = 24 << 10, MAX_PARTS = 256 };

typedef struct {
  char* to;
  const char* from;
  size_t bytes;
} copy_job;

/* In whole cache lines, as tensors are aligned. */
static int copy_part(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  const copy_job* job = cdata;
  const uint64_t lines = job->bytes / 64, tasks = (uint64_t)env->num_task, i = (uint64_t)task_id;
  const size_t begin = (size_t)(lines * i / tasks * 64);
  const size_t end = i + 1 == tasks ? job->bytes : (size_t)(lines * (i + 1) / tasks * 64);
  memcpy(job->to + begin, job->from + begin, end - begin);
  return 0;
}

/* Inputs of networks are split among threads like their layers will be: each thread then has part
 * of its input in its cache, and the workers are awake. memmove(), since views of one tensor may
 * overlap. */
static int cpu_copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                    TVMStreamHandle stream) {
  (void)from_dev;
  (void)to_dev;
  (void)stream;
  copy_job job = {to, from, bytes};
  const uintptr_t target = (uintptr_t)to, source = (uintptr_t)from;
  const size_t distance = (size_t)(target < source ? source - target : target - source);
  if (bytes == 0 || from == to) return 0;
  if (bytes >= SHARED_BYTES && distance >= bytes && tvmrt__has_workers()) {
    const size_t parts = bytes / PART_BYTES;
    return TVMBackendParallelLaunch(copy_part, &job, (int)(parts < MAX_PARTS ? parts : MAX_PARTS));
  }
  memmove(to, from, bytes);
  return 0;
}

/* Stream functions are NULL: CPU operations are complete when the call returns. */
static const tvmrt_memory_device cpu_api = {
    .struct_bytes = sizeof(cpu_api),
    .name = "cpu",
    .exists = cpu_exists,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
};

/* TVM's names; "unknown" for other types. */
const char* tvmrt__memory_device_name(int device_type) {
  static const char* const names[TVMDeviceExtType_End] = {
      [kDLCPU] = "cpu",
      [kDLCUDA] = "cuda",
      [kDLCUDAHost] = "cuda_host",
      [kDLOpenCL] = "opencl",
      [kDLVulkan] = "vulkan",
      [kDLMetal] = "metal",
      [kDLVPI] = "vpi",
      [kDLROCM] = "rocm",
      [kDLROCMHost] = "rocm_host",
      [kDLExtDev] = "ext_dev",
      [kDLCUDAManaged] = "cuda_managed",
      [kDLOneAPI] = "oneapi",
      [kDLWebGPU] = "webgpu",
      [kDLHexagon] = "hexagon",
      [kDLAOCL] = "aocl",
      [kDLSDAccel] = "sdaccel",
      [kOpenGL] = "opengl",
      [kDLMicroDev] = "microdev",
  };
  if (device_type >= REMOTE_TYPES) return "rpc";
  if (device_type < 0 || device_type >= TVMDeviceExtType_End || names[device_type] == NULL) {
    return "unknown";
  }
  return names[device_type];
}

/* Devices of other types come with plug-ins, which register "device_api.<name>" as TVM's do. The
 * result is not cached: a plug-in may be loaded at any time. */
static const tvmrt_memory_device* find_api(int device_type) {
  const char* name = tvmrt__memory_device_name(device_type);
  TVMFunctionHandle function = NULL;
  TVMValue found;
  char key[64];
  int code = kTVMNullptr;
  (void)snprintf(key, sizeof(key), "device_api.%s", name);
  if (TVMFuncGetGlobal(key, &function) != 0 || function == NULL) {
    if (!tvmrt__hooks.start_device(name)) return NULL;
    if (TVMFuncGetGlobal(key, &function) != 0 || function == NULL) return NULL;
  }
  if (TVMFuncCall(function, NULL, NULL, 0, &found, &code) != 0) code = kTVMNullptr;
  /* the struct stays valid, as required by its header */
  (void)TVMFuncFree(function);
  return code == kTVMOpaqueHandle ? found.v_handle : NULL;
}

/* NULL with the error text set. The device owns the struct. */
const tvmrt_memory_device* tvmrt__memory_device(int device_type) {
  const tvmrt_memory_device* api;
  if (device_type == kDLCPU) return &cpu_api;
  api = find_api(device_type);
  if (api != NULL && api->struct_bytes == sizeof(*api)) return api;
  if (api != NULL) {
    (void)tvmrt__fail_value(
        "device_api.%s: struct_bytes is not %zu: compile the device with this runtime's "
        "tvm/runtime/memory_device.h.",
        tvmrt__memory_device_name(device_type), sizeof(*api));
    return NULL;
  }
  (void)tvmrt__fail_value("this runtime has no device of type %s (%d); it has: cpu (1).",
                          tvmrt__memory_device_name(device_type), device_type);
  return NULL;
}

/* From the two numbers in TVM's C functions. */
static DLDevice make_device(int device_type, int device_id) {
  DLDevice dev;
  dev.device_type = (DLDeviceType)device_type;
  dev.device_id = device_id;
  return dev;
}

/* A device without stream functions executes in call order: NULL is its only stream. */
int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  const tvmrt_memory_device* api = tvmrt__memory_device(device_type);
  *out = NULL;
  if (api == NULL) return -1;
  if (api->stream_create == NULL) return 0;
  return api->stream_create(make_device(device_type, device_id), out);
}

/* NULL is the default stream, the only one of a device without stream functions. */
int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  const tvmrt_memory_device* api = tvmrt__memory_device(device_type);
  if (api == NULL) return -1;
  if (api->stream_free == NULL) return 0;
  return api->stream_free(make_device(device_type, device_id), stream);
}

/* Success if the device has no streams, so callers need not check for them. */
int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  const tvmrt_memory_device* api = tvmrt__memory_device(device_type);
  if (api == NULL) return -1;
  if (api->stream_sync == NULL) return 0;
  return api->stream_sync(make_device(device_type, device_id), stream);
}

/* `dst` waits for the work on `src` so far; a no-op if a device has one stream. */
int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                               TVMStreamHandle dst) {
  const tvmrt_memory_device* api = tvmrt__memory_device(device_type);
  if (api == NULL) return -1;
  if (api->stream_wait == NULL) return 0;
  return api->stream_wait(make_device(device_type, device_id), src, dst);
}

/* *out_data is owned; released by TVMDeviceFreeDataSpace(). The type is a hint of TVM's that no
 * device here needs. */
int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void** out_data) {
  const tvmrt_memory_device* api = tvmrt__memory_device(dev.device_type);
  (void)type_hint;
  *out_data = NULL;
  if (api == NULL) return -1;
  /* callers of TVM leave the choice to the runtime */
  if (alignment == 0) alignment = TVMRT_ALLOC_ALIGN_BYTES;
  if ((alignment & (alignment - 1)) != 0) {
    return tvmrt__fail_value("the alignment %zu is not a power of two.", alignment);
  }
  return api->alloc(dev, nbytes, alignment, out_data);
}

/* An unregistered device cannot free: its memory is already released. */
int TVMDeviceFreeDataSpace(DLDevice dev, void* ptr) {
  const tvmrt_memory_device* api = tvmrt__memory_device(dev.device_type);
  if (api == NULL) return -1;
  return ptr == NULL ? 0 : api->free(dev, ptr);
}

/* Whether memory of this type is available; no error if not. */
static bool device_exists(int device_type, int device_id) {
  const tvmrt_memory_device* api = device_type == kDLCPU ? &cpu_api : find_api(device_type);
  const bool is_known = api != NULL && api->struct_bytes == sizeof(*api);
  const bool result = is_known && api->exists(device_id) != 0;
  tvmrt__forget_error();
  return result;
}

/* Attributes other than existence are None, as TVM's callers expect for unknown ones. */
TVMRT_NATIVE(get_device_attr) {
  int64_t type;
  int64_t id;
  int64_t kind;
  TVMRT_COUNTED_ARGS(3, 3);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &type));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &id));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 2, &kind));
  /* memory devices only know "exists"; which devices another machine has besides CPUs is unknown */
  if (kind != 0 || (type >= REMOTE_TYPES && type % REMOTE_TYPES != kDLCPU)) return 0;
  return tvmrt__ret_int(out, out_code, device_exists((int)type, (int)id));
}

/* (type, id, stream | None): set the stream of the calling thread. */
TVMRT_NATIVE(set_stream) {
  int64_t type;
  int64_t id;
  TVMRT_COUNTED_ARGS(3, 3);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &type));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &id));
  /* None has no defined value */
  return TVMSetStream((int)type, (int)id, tvmrt__arg_is_null(&in, 2) ? NULL : args[2].v_handle);
}

/* Generated code calls it before each function; memory needs no current device, so only its
 * existence is checked. */
TVMRT_NATIVE(set_device) {
  int64_t type;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &type));
  return tvmrt__memory_device((int)type) == NULL ? -1 : 0;
}

/* As for other devices, so that tools can query all alike. */
TVMRT_NATIVE(cpu_handle) {
  TVMRT_GLOBAL_ARGS;
  out->v_handle = (void*)(uintptr_t)&cpu_api;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

/* (name) -> 1 or 0. TVM's compilers call this before they choose a target. */
TVMRT_NATIVE(runtime_enabled) {
  static const char* const enabled[] = {"cpu", "c", "llvm"}; /* their libraries can run here */
  const char* name;
  size_t i;
  int64_t found = 0;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  for (i = 0; i < sizeof(enabled) / sizeof(enabled[0]); ++i) found |= !strcmp(name, enabled[i]);
  return tvmrt__ret_int(out, out_code, found);
}

#define FUNCTIONS(X)                          \
  X("runtime.GetDeviceAttr", get_device_attr) \
  X("runtime.TVMSetStream", set_stream)       \
  X("__tvm_set_device", set_device)           \
  X("device_api.cpu", cpu_handle)             \
  X("runtime.RuntimeEnabled", runtime_enabled)
const tvmrt_builtins tvmrt__memory_device_builtins = TVMRT_BUILTINS(FUNCTIONS);
