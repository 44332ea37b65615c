/*!
 * \file parallel.h
 * \brief Work sharing among threads, scratch memory, and build features of kernels.
 *
 * Code that defines TVMRT_FREESTANDING before it includes a kernel is for a machine without an
 * operating system. Kernels then run on the calling thread alone, set no error texts and take
 * scratch memory from the buffer given to tvmrt_scratch_provide(); they need no library. With
 * TVMRT_BOARD in addition, the code uses no named instruction of a host processor, wherever it is
 * compiled, and includes no header that does: archives for boards have none.
 *
 * Other features can be disabled, each by its macro:
 *
 *     TVMRT_NO_NCHW_INPUT        tvmrt_row_plan.planes: NCHW input of few channels (window.h)
 *     TVMRT_NO_SHARED_TAIL   tvmrt_tiles_f32.last: two tiles share the tail of a row (tile/gemm_f32.h)
 *     TVMRT_NO_PREFETCH      prefetch of cache lines ahead of tiles
 *     TVMRT_NO_WIDE_LOOPS    loops over several vectors at a time
 *
 * A struct member that belongs to a feature is missing in a build without it, so that code which
 * needs the feature does not compile. Generated code defines these macros before it includes
 * anything of this folder, from a table that its generator uses too:
 * tvmrt.compiler.codegen.kernel_features.
 */
#ifndef TVM_RUNTIME_KERNELS_PARALLEL_H_
#define TVM_RUNTIME_KERNELS_PARALLEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

/*!
 * \brief Minimum work in nanoseconds of one core for two threads.
 *
 * A launch takes 0.6 microseconds with an awake worker, and each cache line passed between steps of
 * one thread and of two takes 10 nanoseconds: consecutive shared layers win from some 2
 * microseconds on. python/tvmrt/compiler/codegen/c/initializers.py has the same constant.
 */
#define TVMRT_PARALLEL_MIN_NS 2000L

/*!
 * \brief Minimum work in multiply-adds of float layers with windows: a core does four per vector
 * lane and nanosecond.
 */
#ifndef TVMRT_PARALLEL_MIN_MACS
#define TVMRT_PARALLEL_MIN_MACS (TVMRT_PARALLEL_MIN_NS * 4 * TVMRT_SIMD_LANES_F32)
#endif

/*!
 * \brief Minimum work of a matmul. Its operands come from steps that were divided differently, or
 * not at all, so half of them moves to another core.
 */
#define TVMRT_PARALLEL_MIN_PRODUCT (5 * TVMRT_PARALLEL_MIN_MACS)

/*! \brief Minimum floats of a memory-bound step for two threads. */
#ifndef TVMRT_PARALLEL_MIN_FLOATS
#define TVMRT_PARALLEL_MIN_FLOATS 100000
#endif

/*! \brief Start of task's part of [0, extent), in units; task + 1 gives its end. */
static inline int64_t tvmrt_task_begin(int64_t extent, int64_t unit, int task, int num_task) {
  const int64_t units = (extent + unit - 1) / unit;
  const int64_t begin = units * task / num_task * unit;
  return begin < extent ? begin : extent;
}

/*!
 * \brief Time of the largest task if `extent` units are distributed among tasks: 1 is ideal, 2
 * twice the ideal time.
 */
static inline float tvmrt_task_imbalance(int64_t extent, int num_task) {
  return (float)((extent + num_task - 1) / num_task * num_task) / (float)(extent > 0 ? extent : 1);
}

/*!
 * \brief Whether tasks divide a layer's channels instead of its pixels.
 *
 * By channels, a task reads all of the input. Other cores have written a part of it, and have to
 * reclaim those cache lines when they write there again. By pixels, it reads all weights. Both are
 * added as parts of a task's time: a cache line of inputs counts as 1000 multiplications. Weights
 * arrive while others are multiplied: with 14 x 14 pixels there is hardly any wait, with 7 x 7 a
 * quarter of the time.
 * \param channels The imbalance if channels are divided.
 * \param pixels The imbalance if pixels are divided.
 * \param products Multiplications per input.
 * \param outputs Pixels of the output, the multiplications per weight.
 */
static inline int tvmrt_splits_channels(float channels, float pixels, float products, float outputs,
                                        int num_task) {
  const float others = (float)(num_task - 1), few = 24.0f / outputs;
  return channels + 64.0f * others / products < pixels + few * few * others;
}

/*!
 * \brief Accepted extra time of the largest task by rows compared with channels, as a part of the
 * ideal time, if channels only read their own inputs: in depthwise layers, and if tasks have whole
 * groups.
 *
 * The layers around such a layer divide pixels. By channels, half of its data comes from another
 * core's cache, which takes several times as long as the nine multiplications of a line.
 */
#define TVMRT_OWN_ROWS_FIRST 0.1f

/*!
 * \brief Give the C compiler the bounds of a dynamic size, so that it can resolve decisions that
 * are the same for all sizes: work that is never worth a thread is computed in place.
 */
#ifdef __GNUC__
#define TVMRT_ASSUME_BOUNDS(size, lower, upper)                        \
  do {                                                                 \
    if ((size) < (lower) || (size) > (upper)) __builtin_unreachable(); \
  } while (0)
#else
#define TVMRT_ASSUME_BOUNDS(size, lower, upper) ((void)0)
#endif

/*!
 * \brief Run lambda on the calling thread if work < threshold, else on two threads, and one more
 * for each further multiple.
 * \param work The amount of work, in the unit of threshold.
 * \return 0, or -1 if a task failed or no thread could be started.
 */
static inline int tvmrt_launch(FTVMParallelLambda lambda, void* closure, int64_t work,
                               int64_t threshold) {
#ifndef TVMRT_FREESTANDING
  if (work >= threshold) {
    const int64_t requested = 1 + work / (threshold > 0 ? threshold : 1);
    return TVMBackendParallelLaunch(lambda, closure,
                                    requested < INT32_MAX ? (int)requested : INT32_MAX);
  }
#else
  (void)work;
  (void)threshold;
#endif
  TVMParallelGroupEnv alone = {0, 1};
#if !defined(TVMRT_FREESTANDING) && defined(__GNUC__)
  /* If the work is dynamic, call the task through its address: inlining would copy the kernel into
   * every function. */
  if (!__builtin_constant_p(work >= threshold)) {
    __asm__("" : "+r"(lambda));
    return lambda(0, &alone, closure);
  }
#endif
  return lambda(0, &alone, closure);
}

/*!
 * \brief Copy a constant struct, to which dynamic extents are added, with memcpy().
 *
 * A compiler that sees its members would store each with separate instructions.
 */
static inline void tvmrt_copy_struct(void* to, const void* from, size_t bytes) {
#ifdef __GNUC__
  __asm__("" : "+r"(from));
#endif
  memcpy(to, from, bytes);
}

/*!
 * \brief Allocate scratch memory of this thread, at least 64-byte aligned if the runtime's is;
 * NULL if there is none left.
 */
#ifdef TVMRT_FREESTANDING
static struct {
  uint8_t* next;
  size_t left; /* bytes from next on, a multiple of 16 */
} tvmrt_provided_scratch;

/*!
 * \brief Provide memory for the kernels that this file calls next.
 * \param memory [in] Aligned to 16 bytes; borrowed until the next call.
 */
static inline void tvmrt_scratch_provide(uint8_t* memory, int64_t bytes) {
  tvmrt_provided_scratch.next = memory;
  tvmrt_provided_scratch.left = (size_t)bytes & ~(size_t)15;
}

static inline void* tvmrt_scratch_alloc(int64_t bytes) {
  uint8_t* const scratch = tvmrt_provided_scratch.next;
  const size_t requested = (size_t)bytes; /* 32 bits on small processors */
  if ((int64_t)requested != bytes || requested > tvmrt_provided_scratch.left) return NULL;
  const size_t whole = (requested + 15) & ~(size_t)15;
  tvmrt_provided_scratch.next = scratch + whole;
  tvmrt_provided_scratch.left -= whole;
  return scratch;
}

static inline int tvmrt_scratch_free(void* scratch) {
  if (scratch == NULL) return 0;
  tvmrt_provided_scratch.left += (size_t)(tvmrt_provided_scratch.next - (uint8_t*)scratch);
  tvmrt_provided_scratch.next = (uint8_t*)scratch;
  return 0;
}
#else
static inline void* tvmrt_scratch_alloc(int64_t bytes) {
  return TVMBackendAllocWorkspace(1, 0, (uint64_t)bytes, 2, 32);
}

/*!
 * \brief Free scratch, in reverse order of allocation; NULL is allowed. Return 0, or -1 for a
 * foreign pointer.
 */
static inline int tvmrt_scratch_free(void* scratch) {
  return scratch ? TVMBackendFreeWorkspace(1, 0, scratch) : 0;
}
#endif

#endif /* TVM_RUNTIME_KERNELS_PARALLEL_H_ */
