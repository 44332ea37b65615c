/*!
 * \file tvm/runtime/crt/graph_arena.h
 * \brief The graph executor in memory that the program gives: no heap, no allocator.
 *
 * Implemented in libtvm_firmware.a. The executor made here is used by the functions of
 * crt/graph_executor.h; what follows says where these differ from hosts:
 *  - graph JSON and params are read where they lie, normally in flash, and must stay there until the
 *    executor is released. Parameters are used in place if their data is aligned to 4 bytes and to
 *    their elements, and copied to the rest of the memory otherwise;
 *  - inputs are used in place: TVMGraphExecutor_SetInput() keeps the data pointer, and the data must
 *    stay there until the last run. They are never written: a result that shares an input's storage in
 *    the graph gets memory of its own;
 *  - `int` results are codes of crt/error_codes.h.
 *
 * Between start and release an executor is thread-compatible. Nothing here prints, aborts or calls an
 * allocator.
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

/*! \brief Bytes of the executor itself. */
#define TVMRT_GRAPH_EXECUTOR_BYTES (24 * sizeof(void*))

/*!
 * \brief Bytes of the tables that describe a graph.
 *
 * \param nodes   Number of nodes, inputs and parameters included.
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
 * \brief Bytes of memory that tvmrt_graph_create() needs; no more and no less.
 *
 * \param arguments    Most inputs and outputs of one node.
 * \param tensor_bytes Sum over the storages that operators write, each rounded by
 *                     TVMRT_GRAPH_ROUND_UP().
 */
#define TVMRT_GRAPH_ARENA_BYTES(nodes, inputs, heads, entries, extents, edges, arguments, \
                                tensor_bytes)                                             \
  (TVMRT_GRAPH_TABLE_BYTES(nodes, inputs, heads, entries, extents, edges) +               \
   TVMRT_GRAPH_ROUND_UP((arguments) * sizeof(int)) + (tensor_bytes))

/*!
 * \brief Make an executor in given memory.
 *
 * \param json        [in] Graph JSON; borrowed until release.
 * \param json_bytes  [in] Its length, a closing NUL not counted.
 * \param module      [in] Table of the operators, for example TVMSystemLibEntryPoint(); static.
 * \param arena       [in] Memory, aligned to TVMRT_GRAPH_ALIGN_BYTES; borrowed until release.
 * \param arena_bytes [in] Its size.
 * \param executor    [out] Lies in the memory; released by TVMGraphExecutor_Release(), which frees
 *                    nothing. NULL on failure.
 * \param used_bytes  [out] May be NULL. How much was used; after kTvmErrorPlatformNoMemory how much
 *                    is needed at least, which is exact once the tables fit.
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
 * \brief An input as the next run will read it; `data` is NULL before it is set.
 * \return Borrowed until release; NULL if there is no such input.
 */
const DLTensor* tvmrt_graph_input(const TVMGraphExecutor* executor, int32_t index);

/*!
 * \brief An output where the last run left it, valid until the next run.
 * \return Borrowed until release; NULL if there is no such output.
 */
const DLTensor* tvmrt_graph_output(const TVMGraphExecutor* executor, int32_t index);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_ARENA_H_ */
