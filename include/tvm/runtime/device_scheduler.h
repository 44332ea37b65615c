/*!
 * \file tvm/runtime/device_scheduler.h
 * \brief Schedulers: in which order, and on which devices, the steps of a network run. Part of
 *        tvm/runtime/device.h, which includes it.
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
  const char* name;     /*!< Of the node. */
  const char* device;   /*!< "cpu", or the device of the region. */
  const int32_t* after; /*!< Steps that must have ended before; all smaller than this step. */
  int32_t num_after;
} tvmrt_step;

/*! \brief A step that has begun; the runtime's, valid until the end of the run. */
typedef struct tvmrt_event tvmrt_event;

/*! \brief The steps of one executor, and how a scheduler runs them. The runtime's. */
typedef struct tvmrt_plan {
  const tvmrt_step* steps;
  int32_t num_steps;
  /*! Run one step and wait for it; 0, or -1 with the error text on the calling thread. Any thread
   * may call it; each step at most once a run, after those in `after`. */
  int (*run_step)(struct tvmrt_plan* plan, int32_t step);
  /*! Whether the user cancelled the run: steps that have not begun should not begin. */
  int (*is_cancelled)(struct tvmrt_plan* plan);
  void* privacy;       /*!< The scheduler's own, per executor. */
  void* runtime;       /*!< The runtime's own. */
  size_t struct_bytes; /*!< Of this struct in the runtime: what lies behind is not there. */
  /*! The region that a step computes, for its operators and the types and shapes of its tensors; NULL:
   * a step of the CPU. Borrowed; lives as long as the plan. Its `data` belongs to runs: see choose. */
  tvmrt_region* (*region)(struct tvmrt_plan* plan, int32_t step);
  /*!
   * Begin a step, whose end `event` tells: a region whose device has `async_run` goes on while this
   * returns; other steps, and regions with the CPU's code beside them, have ended by then. Rules are
   * those of run_step. 0, or -1 with the error text: the step failed, and there is no event.
   */
  int (*begin_step)(struct tvmrt_plan* plan, int32_t step, tvmrt_event** out_event);
  /*!
   * Wait for a step that begin_step began; on any thread, one at a time per event. try_wait 0: block
   * until it has ended; 1: do not block. 0: it has ended; TVMRT_DEVICE_BUSY: not yet (try_wait 1
   * alone); -1: it failed. What has ended says so each time. Each event is to be waited for before
   * the run ends: else the runtime does it, and the run fails.
   */
  int (*end_step)(struct tvmrt_plan* plan, tvmrt_event* event, int try_wait);
} tvmrt_plan;

/*! \brief A scheduler. Copied by tvmrt_scheduler_register(). Called by the executor's user, so by
 *         one thread at a time per plan; by several for different plans. */
typedef struct tvmrt_scheduler {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_scheduler). */
  const char* name;    /*!< Required, unique. */
  /*! Optional. Once per executor that chooses this scheduler. */
  int (*pre_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Required. Start a run. With `wait` NULL it returns when all steps have ended. */
  int (*run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Optional. Wait for the run at most timeout_ms milliseconds; negative: without limit. Returns
   * 0: all steps have ended; TVMRT_DEVICE_BUSY: not yet; -1: a step failed or the run was
   * cancelled, and no step is running any more. */
  int (*wait)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan, int64_t timeout_ms);
  /*! Optional. Free plan->privacy; no run is under way. */
  void (*post_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  void* privacy; /*!< The scheduler's own, shared by all executors. */
  /*!
   * Optional. Judge while the network runs which device computes a step's region: called by run_step
   * and begin_step on their thread, whenever the region is about to run. `region` has in `data` the
   * tensors of this very call, with the extents and the memory that they have now; what an input holds
   * may be read where it lies in the host's memory. Returns a device, which is offered the region by
   * tvmrt_region_offer() if it has not been (which takes time: see pre_run); or NULL: the device
   * that the region was compiled for. What refuses the region fails the step, as a failing run does.
   */
  tvmrt_device* (*choose)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                          const tvmrt_region* region);
} tvmrt_scheduler;

/*!
 * \brief Add a scheduler, which `set_scheduler` of graph executors then accepts by its name.
 * \param scheduler [in] Copied; what it points to lives as long as the process.
 * Errors:  -1: the name is taken ("sync" and "async" are), or `run` is missing.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_scheduler_register(const tvmrt_scheduler* scheduler);

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DEVICE_SCHEDULER_H_ */
