/*
 * What the device "cuda" uses of NVIDIA's libraries: the driver (libcuda), the compiler (NVRTC) and
 * cuBLAS. Declared here, by their public documentation, under their own names, so that the build needs
 * no toolkit; all three are loaded at run time.
 */
#ifndef TVMRT_DEVICES_CUDA_NVIDIA_H_
#define TVMRT_DEVICES_CUDA_NVIDIA_H_

#include <stddef.h>
#include <stdint.h>

typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct _nvrtcProgram* nvrtcProgram;
typedef struct cublasContext* cublasHandle_t;
typedef uint64_t CUdeviceptr;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_READY = 600,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_INVALID_OPTION = 5,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1
};

/* X(name, parameters); all return an int, which is 0 for success. */
#define CUDA_DRIVER_CALLS(X)                                                                      \
  X(cuInit, (unsigned int flags))                                                                 \
  X(cuDriverGetVersion, (int* version))                                                           \
  X(cuGetErrorName, (int error, const char** text))                                               \
  X(cuGetErrorString, (int error, const char** text))                                             \
  X(cuDeviceGetCount, (int* count))                                                               \
  X(cuDeviceGet, (int* device, int ordinal))                                                      \
  X(cuDeviceGetName, (char* name, int bytes, int device))                                         \
  X(cuDeviceGetAttribute, (int* value, int attribute, int device))                                \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, int device))                                  \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                                   \
  X(cuCtxPushCurrent_v2, (CUcontext context))                                                     \
  X(cuCtxPopCurrent_v2, (CUcontext * context))                                                    \
  X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                         \
  X(cuMemFree_v2, (CUdeviceptr address))                                                          \
  X(cuMemAllocHost_v2, (void** address, size_t bytes))                                            \
  X(cuMemFreeHost, (void* address))                                                               \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))      \
  X(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))            \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
  X(cuStreamCreate, (CUstream * stream, unsigned int flags))                                      \
  X(cuStreamDestroy_v2, (CUstream stream))                                                        \
  X(cuStreamSynchronize, (CUstream stream))                                                       \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))                      \
  X(cuEventCreate, (CUevent * event, unsigned int flags))                                         \
  X(cuEventDestroy_v2, (CUevent event))                                                           \
  X(cuEventRecord, (CUevent event, CUstream stream))                                              \
  X(cuEventQuery, (CUevent event))                                                                \
  X(cuEventSynchronize, (CUevent event))                                                          \
  X(cuModuleLoadData, (CUmodule * module, const void* image))                                     \
  X(cuModuleUnload, (CUmodule module))                                                            \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))              \
  X(cuLaunchKernel,                                                                               \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,          \
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
     CUstream stream, void** parameters, void** extra))

#define CUDA_COMPILER_CALLS(X)                                                                   \
  X(nvrtcVersion, (int* major, int* minor))                                                      \
  X(nvrtcCreateProgram, (nvrtcProgram * program, const char* source, const char* name,           \
                         int num_headers, const char* const* headers, const char* const* names)) \
  X(nvrtcCompileProgram, (nvrtcProgram program, int num_options, const char* const* options))    \
  X(nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes))                                   \
  X(nvrtcGetCUBIN, (nvrtcProgram program, char* out))                                            \
  X(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes))                              \
  X(nvrtcGetProgramLog, (nvrtcProgram program, char* out))                                       \
  X(nvrtcDestroyProgram, (nvrtcProgram * program))

#define CUDA_PRODUCT_CALLS(X)                                                                \
  X(cublasCreate_v2, (cublasHandle_t * handle))                                              \
  X(cublasDestroy_v2, (cublasHandle_t handle))                                               \
  X(cublasSetStream_v2, (cublasHandle_t handle, CUstream stream))                            \
  X(cublasSgemmStridedBatched,                                                               \
    (cublasHandle_t handle, int transa, int transb, int m, int n, int k, const float* alpha, \
     const float* a, int lda, long long int stridea, const float* b, int ldb,                \
     long long int strideb, const float* beta, float* c, int ldc, long long int stridec,     \
     int count))

#define CUDA_DECLARE(name, parameters) int(*name) parameters;
typedef struct {
  CUDA_DRIVER_CALLS(CUDA_DECLARE)
} cuda_driver;
typedef struct {
  CUDA_COMPILER_CALLS(CUDA_DECLARE)
} cuda_compiler;
typedef struct {
  CUDA_PRODUCT_CALLS(CUDA_DECLARE)
} cuda_products;

#endif
