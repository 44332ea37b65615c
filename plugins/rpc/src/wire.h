/* Wire format of remote calls: packets and value lists, as in TVM 0.8 to 0.18. All integers are
 * little-endian. */
#ifndef TVMRT_PLUGINS_RPC_WIRE_H_
#define TVMRT_PLUGINS_RPC_WIRE_H_

#include <tvm/runtime/c_runtime_api.h>

#include "sdk/base.h"

#define TVMRT_RPC_VERSION "0.8.0" /* sent and expected by every release from 0.8 to 0.18 */
#define TVMRT_RPC_SESSION_MASK 128

typedef enum {
  TVMRT_RPC_SHUTDOWN = 1,
  TVMRT_RPC_INIT_SERVER = 2,
  TVMRT_RPC_CALL = 3,
  TVMRT_RPC_RETURN = 4,
  TVMRT_RPC_EXCEPTION = 5,
  TVMRT_RPC_COPY_FROM = 6,
  TVMRT_RPC_COPY_TO = 7,
  TVMRT_RPC_COPY_ACK = 8,
  TVMRT_RPC_GET_GLOBAL = 9,
  TVMRT_RPC_FREE_HANDLE = 10,
  TVMRT_RPC_ALLOC = 13,
  TVMRT_RPC_FREE_DATA = 14,
  TVMRT_RPC_COPY_REMOTE = 16,
  TVMRT_RPC_ALLOC_SCOPE = 17,
  TVMRT_RPC_NEW_STREAM = 18,
  TVMRT_RPC_GET_STREAM = 21
} tvmrt_rpc_code;

enum { TVMRT_RPC_PACKET_HEAD_BYTES = 12 };

enum { TVMRT_RPC_MAX_VALUES = 256, TVMRT_RPC_MAX_EXTENTS = 1024 /* of all tensors */ };

/*
 * Values of a packet. Strings and bytes point into the packet, which is modified: each string gets
 * a NUL. Handles and tensor addresses are stored as received, in v_int64 and `data`; they must be
 * looked up before use.
 */
typedef struct tvmrt_rpc_seq {
  int count;
  int num_extents;
  TVMValue values[TVMRT_RPC_MAX_VALUES];
  int codes[TVMRT_RPC_MAX_VALUES];
  DLTensor tensors[TVMRT_RPC_MAX_VALUES];   /* one per value; set for tensors */
  TVMByteArray bytes[TVMRT_RPC_MAX_VALUES]; /* one per value */
  int64_t extents[TVMRT_RPC_MAX_EXTENTS];
} tvmrt_rpc_seq;

/* Read a list up to the end of the packet; the byte after the end must be writable. */
int tvmrt__rpc_read_seq(tvmrt_reader* in, tvmrt_rpc_seq* out);
/* Read a tensor, whose extents are stored in those of `seq`. */
int tvmrt__rpc_read_tensor(tvmrt_reader* in, tvmrt_rpc_seq* seq, DLTensor* out);

/* Begin a packet in `out`, which is cleared. End it with the number of bytes that follow
 * separately. */
int tvmrt__rpc_begin(tvmrt_buf* out, tvmrt_rpc_code code);
void tvmrt__rpc_end(tvmrt_buf* out, uint64_t more);

/* Devices lose their session number. */
int tvmrt__rpc_write_tensor(tvmrt_buf* out, const DLTensor* t);
/* Memory as a tensor of bytes; the element type is only known to the tensor's owner. */
DLTensor tvmrt__rpc_bytes(DLDevice dev, const void* data, int64_t* bytes);
/* Write a complete list. */
int tvmrt__rpc_write_seq(tvmrt_buf* out, const TVMValue* values, const int* codes, int count);
/* Begin an answer with one value, without a preceding type. */
int tvmrt__rpc_write_return(tvmrt_buf* out, const TVMValue* value, int code);
/* Calls without a result get an answer, too, since clients count answers. */
int tvmrt__rpc_write_null(tvmrt_buf* out);
#endif
