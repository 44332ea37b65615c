/* The server's side of one session: packets in, calls of this process, packets out. */
#ifndef TVMRT_PLUGINS_RPC_ENDPOINT_H_
#define TVMRT_PLUGINS_RPC_ENDPOINT_H_

#include "channel.h"
#include "folder.h"
#include "handles.h"
#include "wire.h"

typedef struct tvmrt_rpc_limits {
  uint64_t packet_bytes; /* of a packet's values; copies go to memory that is there already */
  uint64_t memory_bytes; /* of tensors that the client allocates, and once more of files */
  size_t handles;        /* that a client may hold at a time */
} tvmrt_rpc_limits;

extern const tvmrt_rpc_limits tvmrt__rpc_default_limits;

typedef struct tvmrt_rpc_endpoint {
  tvmrt_channel* channel;
  tvmrt_rpc_limits limits;
  tvmrt_rpc_handles handles;
  tvmrt_rpc_folder folder;
  uint64_t memory; /* bytes that the client has allocated */
  bool initialised;
  bool ended; /* by a shutdown, or a packet after which nothing can be understood */
  tvmrt_buf body;
  tvmrt_buf reply;
  tvmrt_rpc_seq args;
} tvmrt_rpc_endpoint;

/* A session over a channel, which the caller keeps; ended by tvmrt__rpc_endpoint_end(). */
void tvmrt__rpc_endpoint_begin(tvmrt_rpc_endpoint* ep, tvmrt_channel* channel,
                               const tvmrt_rpc_limits* limits);
/* Answer one packet; `ended` says afterwards whether it was the last one. */
int tvmrt__rpc_endpoint_step(tvmrt_rpc_endpoint* ep);
void tvmrt__rpc_endpoint_end(tvmrt_rpc_endpoint* ep);

/* Serve until the client is done; 0, or -1 with the error text of a connection that broke. */
int tvmrt__rpc_serve(tvmrt_channel* channel, const tvmrt_rpc_limits* limits);

/* One system call, 9 to 21, whose arguments are read: its answer is begun and filled in `reply`. */
int tvmrt__rpc_syscall(tvmrt_rpc_endpoint* ep, int code);

/* A long call whose bytes are to come may be the upload of a file: then it goes to the file as it
 * comes. What was read of it else is in `body`. */
typedef enum { TVMRT_UPLOAD_NONE, TVMRT_UPLOAD_DONE, TVMRT_UPLOAD_FAILED } tvmrt_upload;
int tvmrt__rpc_try_upload(tvmrt_rpc_endpoint* ep, uint64_t bytes, tvmrt_upload* out);

/* Begins an answer with one value. */
int tvmrt__rpc_reply_value(tvmrt_rpc_endpoint* ep, const TVMValue* value, int code);

/* Write the packet of an error. */
int tvmrt__rpc_write_exception(tvmrt_buf* out, const char* text);

#endif
