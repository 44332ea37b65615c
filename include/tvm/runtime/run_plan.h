/*!
 * \file tvm/runtime/run_plan.h
 * \brief Memory of a network that is planned at the start of each run, for the sizes of that run.
 *
 * A library whose dimensions (see dims.h) have large or no bounds cannot have its memory planned for
 * the maximum sizes. It exports the packed function `get_run_plan`, which takes no argument and
 * returns the address of a tvmrt_run_plan (type code kTVMOpaqueHandle) that lives as long as the
 * library. The executor then places the buffers of each run, and remembers the last few placements.
 *
 * The metadata of such a library has one workspace pool, whose size is not used. Its main function
 * receives the workspace of a run as a tensor of uint8 with one axis. Data is aligned to 64 bytes:
 * first the address of the tvmrt_run_plan, then a pointer per buffer, then the address of a
 * tvmrt_run_link. From the next multiple of 64 bytes the buffers follow, each aligned to 64 bytes.
 * Pointers of buffers without bytes are valid, too. Buffers whose sizes the run finds lie in other
 * memory and are placed when main has found these sizes.
 *
 * The executor's own tensors of inputs and outputs have the minimum extents at first, and get other
 * memory when a run needs more, or a quarter or less. A caller's reference to an older tensor keeps
 * that tensor and its contents.
 *
 * Fields are only added at the end; `struct_bytes` determines the fields that exist.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_RUN_PLAN_H_
#define TVM_RUNTIME_RUN_PLAN_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief A buffer in the workspace: buffers that are used at a common step do not overlap. */
typedef struct tvmrt_plan_buffer {
  int32_t bits;  /*!< Of an element: 64, 32, 16, 8; or 4, 2, 1, if elements share bytes. */
  int32_t first; /*!< Step that uses it first; -1: before the first step. */
  int32_t last;  /*!< Step that uses it last. */
} tvmrt_plan_buffer;

/*! \brief How the memory of a run depends on the sizes of the dimensions. */
typedef struct tvmrt_run_plan {
  size_t struct_bytes;
  int32_t num_sizes;   /*!< Dimensions, those of tvmrt_dims in the same order. */
  int32_t num_buffers; /*!< Buffers in the workspace. */
  int32_t num_tensors; /*!< Element counts to check: of the buffers, then of other tensors. */
  int32_t num_extents; /*!< Extents of all outputs, output after output, axis after axis. */
  const tvmrt_plan_buffer* buffers; /*!< In the order in which they are placed. */
  int64_t max_bytes; /*!< Limit of workspace, inputs and outputs together; 0: no limit. */
  /*! \brief Read the sizes from the inputs, which are DLTensors; 0, or -1 with an error text. */
  int32_t (*read_sizes)(const TVMValue* inputs, int32_t* sizes);
  /*! \brief Compute approximate values: `num_tensors` element counts, then `num_extents` extents.
   * An extent that depends on data is the maximum. */
  void (*estimate)(const int32_t* sizes, double* counts);
  /*! \brief Compute the same values exactly; only called if no estimate is above 2^62. */
  void (*count)(const int32_t* sizes, int64_t* counts);
  int32_t num_found;         /*!< Sizes that a run finds; in `sizes` they follow the dimensions. */
  int32_t num_phases;        /*!< 1, and one for each time that a run has found sizes. */
  const int32_t* phase_ends; /*!< Per phase, the number of buffers up to its last one. */
  const int32_t* output_phases; /*!< Per output, the phase in which its extents are known. */
} tvmrt_run_plan;

/*! \brief What a run needs to place the buffers whose sizes it has found. The last pointer in the
 * workspace is its address. */
typedef struct tvmrt_run_link {
  /*! \brief Place the buffers of a phase, and provide outputs whose extents are known now. `found`
   * has all found sizes, those of later phases are 0. Return 0, or -1 with an error text. */
  int32_t (*place)(struct tvmrt_run_link* link, int32_t phase, const int32_t* found);
  const TVMValue* outputs; /*!< DLTensors of the outputs; a call of `place` may change them. */
} tvmrt_run_link;

/*! \brief Return a pointer in the workspace: 1 + i is that of buffer i, 1 + num_buffers that of the
 * tvmrt_run_link. */
static inline void* tvmrt_plan_pointer(const void* workspace, int32_t place) {
  return ((void* const*)workspace)[place];
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_RUN_PLAN_H_ */
