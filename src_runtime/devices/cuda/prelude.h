/*
 * The generated bodies are text of OpenCL C, one for all devices that run kernels; these macros make it
 * CUDA C++. Work groups have one dimension. The compiler takes functions as the device's by an option.
 */
#ifndef TVMRT_DEVICES_CUDA_PRELUDE_H_
#define TVMRT_DEVICES_CUDA_PRELUDE_H_

#define CUDA_PRELUDE                                                          \
  "typedef unsigned char uchar;\n"                                            \
  "typedef unsigned short ushort;\n"                                          \
  "typedef unsigned int uint;\n"                                              \
  "typedef unsigned long ulong;\n"                                            \
  "#define char signed char\n"                                                \
  "#define __kernel extern \"C\" __global__\n"                                \
  "#define __global\n"                                                        \
  "#define __local __shared__\n"                                              \
  "#define TVMRT_LOCAL_POINTER\n"                                             \
  "#define restrict __restrict__\n"                                           \
  "#define CLK_LOCAL_MEM_FENCE 0\n"                                           \
  "#define barrier(what) __syncthreads()\n"                                   \
  "#define get_global_id(d) ((int)(blockIdx.x * blockDim.x + threadIdx.x))\n" \
  "#define get_local_id(d) ((int)threadIdx.x)\n"                              \
  "#define get_group_id(d) ((int)blockIdx.x)\n"                               \
  "#define get_local_size(d) ((int)blockDim.x)\n"                             \
  "#ifndef INFINITY\n"                                                        \
  "#define INFINITY __int_as_float(0x7f800000)\n"                             \
  "#endif\n"                                                                  \
  "static inline int clamp(int x, int low, int high) {\n"                     \
  "  return x < low ? low : x > high ? high : x;\n"                           \
  "}\n"                                                                       \
  "static inline char as_char(uchar x) { return (char)x; }\n"                 \
  "static inline uchar as_uchar(uchar x) { return x; }\n"                     \
  "#line 1\n"

#endif
