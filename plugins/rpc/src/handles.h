/* Handle table: the handles that a client uses instead of addresses, and the memory that it may
 * write to. Other handles and addresses are rejected. */
#ifndef TVMRT_PLUGINS_RPC_HANDLES_H_
#define TVMRT_PLUGINS_RPC_HANDLES_H_

#include <stdbool.h>
#include <tvm/runtime/c_runtime_api.h>

#include "sdk/values.h"

typedef struct tvmrt_rpc_handle {
  int code; /* type code of the object; kTVMOpaqueHandle for memory; -1: free */
  tvmrt_object* object;
  uintptr_t data; /* address of the memory, or of an NDArray's data */
  uint64_t bytes;
  DLDevice device;
} tvmrt_rpc_handle;

typedef struct tvmrt_rpc_handles {
  tvmrt_rpc_handle* items;
  size_t count;
  size_t first_free; /* all slots before it are in use */
} tvmrt_rpc_handles;

/* Take over an object, also on failure; *out is its handle, never 0. */
int tvmrt__rpc_handles_add(tvmrt_rpc_handles* all, int code, tvmrt_object* owned, uint64_t* out);
/* Find the object of a handle, borrowed; `code` is the expected type. */
int tvmrt__rpc_handles_find(const tvmrt_rpc_handles* all, uint64_t number, int code,
                            tvmrt_object** out);
int tvmrt__rpc_handles_drop(tvmrt_rpc_handles* all, uint64_t number);

/* Clients name memory by its address. On failure it stays the caller's. */
int tvmrt__rpc_handles_add_memory(tvmrt_rpc_handles* all, DLDevice device, void* data,
                                  uint64_t bytes);
/* Free memory allocated with tvmrt__rpc_handles_add_memory(); *out_bytes is its size. */
int tvmrt__rpc_handles_drop_memory(tvmrt_rpc_handles* all, DLDevice device, uintptr_t data,
                                   uint64_t* out_bytes);
/* Return 0 if the client may use these bytes. */
int tvmrt__rpc_handles_check(const tvmrt_rpc_handles* all, DLDevice device, const void* data,
                             uint64_t byte_offset, uint64_t bytes);
int tvmrt__rpc_handles_check_tensor(const tvmrt_rpc_handles* all, const DLTensor* t);

void tvmrt__rpc_handles_free(tvmrt_rpc_handles* all);

#endif
