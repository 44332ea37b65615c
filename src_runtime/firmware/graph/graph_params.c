/* Firmware runtime: parameters from a params blob: used in place, or copied if misaligned. */

#include "../../../src_backend/mem_functions.h"
#include "../aot/dtype.h"
#include "graph.h"
#include "params_reader.h"

enum { MIN_ALIGN_BYTES = 4 };

/* At least the alignment of a 32-bit load: kernels read small elements by words. */
static int is_aligned(const uint8_t* data, DLDataType dtype) {
  uintptr_t align = dtype.bits / 8u;
  if (align < MIN_ALIGN_BYTES) align = MIN_ALIGN_BYTES;
  return ((uintptr_t)data & (align - 1)) == 0;
}

/* A tensor for an input: bind it, or add the size of a copy to *copy_bytes. Both passes copy the
 * same parameters, so the second uses the memory that the first has measured. Constants are
 * bound as if writable: no operator writes to an input. */
static tvm_crt_error_t visit(TVMGraphExecutor* g, uint32_t input, const uint8_t* data,
                             const tvmrt_tensor_header* head, size_t* copy_bytes) {
  const DLTensor* own = tvmrt_graph_input(g, (int32_t)input);
  int ok;
  if (own == NULL) return kTvmErrorNoError; /* names of no input are skipped */
  if (!tvmrt__same_type(own->dtype, head->dtype) ||
      tvmrt__graph_bytes(own, &ok) != head->data_bytes) {
    return kTvmErrorGraphTensorMismatch;
  }
  if (is_aligned(data, head->dtype)) {
    if (copy_bytes == NULL) tvmrt__graph_bind(g, input, (void*)(uintptr_t)data);
  } else if (copy_bytes != NULL) {
    *copy_bytes += TVMRT_GRAPH_ROUND_UP(head->data_bytes);
  } else {
    memcpy(g->at, data, head->data_bytes);
    tvmrt__graph_bind(g, input, g->at);
    g->at += TVMRT_GRAPH_ROUND_UP(head->data_bytes);
  }
  return kTvmErrorNoError;
}

/* Go through a blob once: measuring copies, or, with copy_bytes NULL, binding. */
static tvm_crt_error_t walk(TVMGraphExecutor* g, const uint8_t* blob, size_t num_bytes,
                            size_t* copy_bytes) {
  tvm_crt_error_t rc = kTvmErrorNoError;
  tvmrt_byte_reader in = {blob, blob + num_bytes, TVMRT_READ_OK};
  tvmrt_byte_reader names;
  size_t left;
  tvmrt__skip_params_header(&in);
  left = tvmrt__skip_names(&in, &names);
  /* names and tensors have separate counts */
  if (tvmrt__take_count(&in) != left) return kTvmErrorGraphParamsDamaged;
  for (; left != 0 && rc == kTvmErrorNoError; --left) {
    tvmrt_tensor_header head;
    size_t name_bytes = tvmrt__take_count(&names);
    /* names were checked before, so the bytes exist */
    const char* name = (const char*)tvmrt__take_bytes(&names, name_bytes);
    const uint8_t* data;
    tvmrt__take_tensor_header(&in, &head);
    data = tvmrt__take_bytes(&in, head.data_bytes);
    if (in.damage != TVMRT_READ_OK) break;
    rc = visit(g, tvmrt__graph_find_input(g, name, name_bytes), data, &head, copy_bytes);
  }
  return in.damage != TVMRT_READ_OK ? kTvmErrorGraphParamsDamaged : rc;
}

/* Two walks: the first checks everything and measures the copies, so that a rejected blob binds
 * nothing. The blob must stay valid, as aligned tensors are used in place, often in flash. */
int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob,
                                uint32_t param_size) {
  const uint8_t* blob = (const uint8_t*)param_blob;
  size_t copy_bytes = 0;
  tvm_crt_error_t rc;
  if (blob == NULL) return kTvmErrorGraphParamsDamaged;
  rc = walk(executor, blob, param_size, &copy_bytes);
  if (rc == kTvmErrorNoError) rc = tvmrt__graph_reserve(executor, copy_bytes);
  return rc == kTvmErrorNoError ? walk(executor, blob, param_size, NULL) : rc;
}
