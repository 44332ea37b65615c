/*!
 * \file tvm/runtime/crt/graph_arena.h
 * \brief The graph executor in a caller-provided memory arena: no heap, no allocator.
 *
 * Implemented in libtvm_firmware.a. The functions of crt/graph_executor.h work on this executor,
 * with these differences from hosts:
 *  - graph JSON and params are read in place, normally in flash, and must stay there until the
 *    executor is released. Parameters are used in place if their data is aligned to 4 bytes and to
 *    their elements; otherwise they are copied to the remaining memory;
 *  - inputs are used in place: TVMGraphExecutor_SetInput() keeps the data pointer, and the data
 *    must stay there until the last run. Inputs are never written: a result that shares an input's
 *    storage in the graph gets separate memory;
 *  - `int` results are codes of crt/error_codes.h.
 *
 * Between creation and release an executor is thread-compatible. Nothing here prints, aborts or
 * calls an allocator.
 *
 *     static uint8_t arena[TVMGEN_NET_GRAPH_ARENA_SIZE] __attribute__((aligned(16)));
 *     TVMGraphExecutor* net;
 *     rc = tvmrt_graph_create(json, json_bytes, TVMSystemLibEntryPoint(), arena, sizeof(arena), &net,
 *                             NULL);
 *     if (rc == 0) rc = TVMGraphExecutor_SetInput(net, "image", &image);
 *     if (rc == 0) rc = TVMGraphExecutor_Run(net);
 *     if (rc == 0) rc = TVMGraphExecutor_GetOutput(net, 0, &result);
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_GRAPH_ARENA_H_
#define TVM_RUNTIME_CRT_GRAPH_ARENA_H_

#include <tvm/runtime/crt/alignment.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Size of the executor struct in bytes. */
#define TVMRT_GRAPH_EXECUTOR_BYTES (24 * sizeof(void*))

/*!
 * \brief Size of the tables that describe a graph, in bytes.
 *
 * \param nodes   Number of nodes, including inputs and parameters.
 * \param inputs  Number of inputs and parameters.
 * \param heads   Number of outputs.
 * \param entries Number of tensors: all outputs of all nodes.
 * \param extents Number of extents over all tensors; a scalar counts as one.
 * \param edges   Number of inputs over all nodes.
 */
#define TVMRT_GRAPH_TABLE_BYTES(nodes, inputs, heads, entries, extents, edges)             \
  TVMRT_GRAPH_ROUND_UP(TVMRT_GRAPH_EXECUTOR_BYTES + (size_t)(entries) * sizeof(DLTensor) + \
                       (size_t)(extents) * sizeof(int64_t) +                               \
                       ((size_t)(edges) + (entries) - (inputs)) * sizeof(TVMValue) +       \
                       ((size_t)(nodes) - (inputs)) * 3 * sizeof(void*) +                  \
                       (size_t)(inputs)*2 * sizeof(void*) +                                \
                       ((size_t)(nodes) + 1 + (entries) + (heads)) * sizeof(uint16_t))

/*!
 * \brief Exact number of bytes that tvmrt_graph_create() needs.
 *
 * \param arguments    Maximum number of inputs and outputs of one node.
 * \param tensor_bytes Sum over the storages that operators write, each rounded by
 *                     TVMRT_GRAPH_ROUND_UP().
 */
#define TVMRT_GRAPH_ARENA_BYTES(nodes, inputs, heads, entries, extents, edges, arguments, \
                                tensor_bytes)                                             \
  (TVMRT_GRAPH_TABLE_BYTES(nodes, inputs, heads, entries, extents, edges) +               \
   TVMRT_GRAPH_ROUND_UP((arguments) * sizeof(int)) + (tensor_bytes))

/*!
 * \brief Create an executor in a memory arena.
 *
 * \param json        [in] Graph JSON; borrowed until release.
 * \param json_bytes  [in] Its length, a closing NUL not counted.
 * \param module      [in] Table of the operators, for example TVMSystemLibEntryPoint(); static.
 * \param arena       [in] Memory, aligned to TVMRT_GRAPH_ALIGN_BYTES; borrowed until release.
 * \param arena_bytes [in] Its size.
 * \param executor    [out] Lies in the arena; released by TVMGraphExecutor_Release(), which frees
 *                          no memory. NULL on failure.
 * \param used_bytes  [out] May be NULL. Bytes used; after kTvmErrorPlatformNoMemory the minimum
 *                          needed, which is exact once the tables fit.
 * \return kTvmErrorNoError; kTvmErrorGraphArenaNull, kTvmErrorGraphArenaMisaligned or
 *         kTvmErrorPlatformNoMemory for the memory; kTvmErrorGraphJsonDamaged,
 *         kTvmErrorGraphInconsistent, kTvmErrorFunctionCallNotImplemented (flatten_data) or
 *         kTvmErrorFunctionNameNotFound for the graph; kTvmErrorExecutorModuleBadContext for a NULL
 *         module.
 */
tvm_crt_error_t tvmrt_graph_create(const char* json, size_t json_bytes, const TVMModule* module,
                                   void* arena, size_t arena_bytes, TVMGraphExecutor** executor,
                                   size_t* used_bytes);

/*!
 * \brief Input tensor of the next run; `data` is NULL before it is set.
 * \return Borrowed until release; NULL if there is no such input.
 */
const DLTensor* tvmrt_graph_input(const TVMGraphExecutor* executor, int32_t index);

/*!
 * \brief Output tensor of the last run, valid until the next run.
 * \return Borrowed until release; NULL if there is no such output.
 */
const DLTensor* tvmrt_graph_output(const TVMGraphExecutor* executor, int32_t index);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_ARENA_H_ */
