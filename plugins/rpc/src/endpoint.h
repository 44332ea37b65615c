/* Server side of one session: read packets, call functions of this process, send answers. */
#ifndef TVMRT_PLUGINS_RPC_ENDPOINT_H_
#define TVMRT_PLUGINS_RPC_ENDPOINT_H_

#include "channel.h"
#include "handles.h"
#include "wire.h"

typedef struct tvmrt_rpc_endpoint {
  tvmrt_channel* channel;
  uint64_t max_packet_bytes;
  uint64_t max_memory_bytes; /* of tensors allocated by the client */
  tvmrt_rpc_handles handles;
  uint64_t memory; /* bytes allocated by the client */
  bool initialised;
  bool ended; /* by a shutdown, or by an unreadable packet */
  tvmrt_buf body;
  tvmrt_buf reply;
  tvmrt_rpc_seq args;
} tvmrt_rpc_endpoint;

/* Begin a session over a borrowed channel; end it with tvmrt__rpc_endpoint_end(). */
void tvmrt__rpc_endpoint_begin(tvmrt_rpc_endpoint* ep, tvmrt_channel* channel);
/* Answer one packet; `ended` is set if it was the last one. */
int tvmrt__rpc_endpoint_step(tvmrt_rpc_endpoint* ep);
void tvmrt__rpc_endpoint_end(tvmrt_rpc_endpoint* ep);

/* Execute a system call (codes 9 to 21) with `args`; the answer goes to `reply`. */
int tvmrt__rpc_syscall(tvmrt_rpc_endpoint* ep, int code);

#endif
