/* Server side of one session: read packets, call functions of this process, send answers. */
#ifndef TVMRT_PLUGINS_RPC_ENDPOINT_H_
#define TVMRT_PLUGINS_RPC_ENDPOINT_H_

#include "channel.h"

typedef struct tvmrt_rpc_endpoint {
  tvmrt_channel channel;
  uint64_t max_packet_bytes;
  remote_session session; /* `ended` by a shutdown, or by an unreadable packet */
  tvmrt_buf packet;
  remote_writer answer;
} tvmrt_rpc_endpoint;

/* Begin a session over a channel; end it with tvmrt__rpc_endpoint_end(). */
void tvmrt__rpc_endpoint_begin(tvmrt_rpc_endpoint* ep, tvmrt_channel channel);
/* Answer one packet; the session has ended if it was the last one. */
int tvmrt__rpc_endpoint_step(tvmrt_rpc_endpoint* ep);
void tvmrt__rpc_endpoint_end(tvmrt_rpc_endpoint* ep);

#endif
