/*!
 * \file tvm/runtime/device_scheduler.h
 * \brief Schedulers: the order of a network's steps, and their devices. Part of
 * tvm/runtime/device.h, which includes it.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_DEVICE_SCHEDULER_H_
#define TVM_RUNTIME_DEVICE_SCHEDULER_H_

#include <tvm/runtime/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \name Schedulers: the order in which a graph executor runs its steps
 * @{
 */

/*! \brief One call of a function of a network. */
typedef struct tvmrt_step {
  const char* name;     /*!< Name of the node. */
  const char* device;   /*!< "cpu", or the device of the region. */
  const int32_t* after; /*!< Steps that must have ended before; all smaller than this step. */
  int32_t num_after;
} tvmrt_step;

/*! \brief The steps of one executor and the functions that run them. Owned by the runtime. */
typedef struct tvmrt_plan {
  const tvmrt_step* steps;
  int32_t num_steps;
  /*! Run one step and wait for it; 0, or -1 with the error text on the calling thread. Callable
   * from any thread; each step at most once per run, after the steps in `after`. */
  int (*run_step)(struct tvmrt_plan* plan, int32_t step);
  /*! Whether the executor is being freed: steps that have not begun should not begin. */
  int (*is_cancelled)(struct tvmrt_plan* plan);
  void* privacy;       /*!< The scheduler's private data, per executor. */
  void* runtime;       /*!< The runtime's private data. */
  size_t struct_bytes; /*!< Size of this struct in the runtime: fields past it do not exist. */
} tvmrt_plan;

/*! \brief A scheduler. Copied by tvmrt_scheduler_register(). Called by the executor's user: by one
 * thread at a time per plan, by several for different plans. */
typedef struct tvmrt_scheduler {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_scheduler). */
  const char* name;    /*!< Required, unique. */
  /*! Optional. Once per executor that chooses this scheduler. */
  int (*pre_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Required. Start a run. With `wait` NULL it returns when all steps have ended. */
  int (*run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Optional. Wait for the run at most timeout_ms milliseconds; negative: no timeout. Returns 0:
   * all steps have ended; TVMRT_DEVICE_BUSY: not yet; -1: a step failed or the run was cancelled,
   * and no step is running any more. */
  int (*wait)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan, int64_t timeout_ms);
  /*! Optional. Free plan->privacy; no run is in progress. */
  void (*post_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  void* privacy; /*!< The scheduler's private data, shared by all executors. */
  /*!
   * Optional. Choose the device that computes a step's region: called by run_step on its thread,
   * each time the region is about to run. `data` of `region` holds the tensors of this call, with
   * their current extents and memory; values of inputs may be read if they lie in the host's
   * memory. Returns NULL, the device that the region was compiled for, or the device "cpu", which
   * needs a library with device_fallback. With another device the step fails.
   */
  tvmrt_device* (*choose)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                          const tvmrt_region* region);
} tvmrt_scheduler;

/*!
 * \brief Add a scheduler; `set_scheduler` of graph executors then accepts its name.
 * \param scheduler [in] Copied; data that it points to must live as long as the process.
 * Errors:  -1: the name is taken ("sync" and "async" are), or `run` is missing.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_scheduler_register(const tvmrt_scheduler* scheduler);

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DEVICE_SCHEDULER_H_ */
