/* Server in the client's own process and thread. */
#ifndef TVMRT_PLUGINS_RPC_LOCAL_H_
#define TVMRT_PLUGINS_RPC_LOCAL_H_

#include "channel.h"

typedef struct tvmrt_rpc_local tvmrt_rpc_local;

/* *out is owned; free it with tvmrt__rpc_local_free(). The channel is connected to it. */
int tvmrt__rpc_local_new(tvmrt_channel* channel, tvmrt_rpc_local** out);
void tvmrt__rpc_local_free(tvmrt_rpc_local* local); /* NULL does nothing */

#endif
