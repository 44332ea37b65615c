/* What a client of this server holds: the numbers that it has instead of addresses, and the memory that
 * it may write to. A number or an address that is not in here is refused. */
#ifndef TVMRT_PLUGINS_RPC_HANDLES_H_
#define TVMRT_PLUGINS_RPC_HANDLES_H_

#include <stdbool.h>
#include <tvm/runtime/c_runtime_api.h>

#include "sdk/values.h"

typedef struct tvmrt_rpc_handle {
  int code;            /* of the object, kTVMOpaqueHandle for memory, -1: free */
  uint32_t generation; /* how often the place was used: an old number is not a new one */
  tvmrt_object* object;
  uintptr_t data; /* memory, and that of an NDArray */
  uint64_t bytes;
  DLDevice device;
  size_t next_free;
} tvmrt_rpc_handle;

typedef struct tvmrt_rpc_handles {
  tvmrt_rpc_handle* items;
  size_t count;
  size_t first_free; /* the place + 1; 0: none */
  size_t last_found; /* where memory was found last */
  size_t limit;
} tvmrt_rpc_handles;

/* Take an object over, also on failure; *out is its number, never 0. */
int tvmrt__rpc_handles_add(tvmrt_rpc_handles* all, int code, tvmrt_object* owned, uint64_t* out);
/* The object of a number, borrowed; `code` is what it is used as. */
int tvmrt__rpc_handles_find(const tvmrt_rpc_handles* all, uint64_t number, int code,
                            tvmrt_object** out);
int tvmrt__rpc_handles_drop(tvmrt_rpc_handles* all, uint64_t number);

int tvmrt__rpc_handles_add_memory(tvmrt_rpc_handles* all, DLDevice device, void* data,
                                  uint64_t bytes);
/* Free memory of that function; *out_bytes is how much it was. */
int tvmrt__rpc_handles_drop_memory(tvmrt_rpc_handles* all, DLDevice device, uintptr_t data,
                                   uint64_t* out_bytes);
/* 0 if the client may use these bytes. */
int tvmrt__rpc_handles_check(tvmrt_rpc_handles* all, DLDevice device, const void* data,
                             uint64_t byte_offset, uint64_t bytes);

void tvmrt__rpc_handles_free(tvmrt_rpc_handles* all);

#endif
