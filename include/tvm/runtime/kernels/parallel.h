/*!
 * \file parallel.h
 * \brief How kernels share work among threads and get scratch memory.
 */
#ifndef TVM_RUNTIME_KERNELS_PARALLEL_H_
#define TVM_RUNTIME_KERNELS_PARALLEL_H_

#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

/*!
 * \brief Multiply-adds below which a kernel does not wake other threads.
 *
 * Waking and joining a thread costs some microseconds, in which one core does about as many.
 */
#ifndef TVMRT_PARALLEL_MIN_MACS
#define TVMRT_PARALLEL_MIN_MACS 300000
#endif

/*! \brief Floats of moved memory that weigh as much as TVMRT_PARALLEL_MIN_MACS. */
#ifndef TVMRT_PARALLEL_MIN_FLOATS
#define TVMRT_PARALLEL_MIN_FLOATS 100000
#endif

/*!
 * \brief The end of the part of [0, extent) that comes before task's, in units: its begin; task +
 * 1 gives its end.
 */
static inline int64_t tvmrt_task_begin(int64_t extent, int64_t unit, int task, int num_task) {
  const int64_t units = (extent + unit - 1) / unit;
  const int64_t begin = units * task / num_task * unit;
  return begin < extent ? begin : extent;
}

/*!
 * \brief Runs lambda on all threads, or here alone where the work is not worth it.
 * \param work The size of the work, in the unit of threshold.
 * \return 0, or -1 where a task failed or no thread could be started.
 */
static inline int tvmrt_launch(FTVMParallelLambda lambda, void* closure, int64_t work,
                               int64_t threshold) {
  if (work < threshold) {
    TVMParallelGroupEnv alone = {0, 1};
    return lambda(0, &alone, closure);
  }
  return TVMBackendParallelLaunch(lambda, closure, 0);
}

/*!
 * \brief Scratch memory of this thread, at least 64-byte aligned where the runtime is; NULL where
 * there is none left.
 */
static inline void* tvmrt_scratch_alloc(int64_t bytes) {
  return TVMBackendAllocWorkspace(1, 0, (uint64_t)bytes, 2, 32);
}

/*!
 * \brief Gives scratch back, in the reverse order of allocation; NULL is fine. Returns 0, or -1
 * for a foreign pointer.
 */
static inline int tvmrt_scratch_free(void* scratch) {
  return scratch ? TVMBackendFreeWorkspace(1, 0, scratch) : 0;
}

#endif /* TVM_RUNTIME_KERNELS_PARALLEL_H_ */
