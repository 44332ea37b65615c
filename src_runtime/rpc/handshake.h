/* How a client and a server find out that they mean each other. */
#ifndef TVMRT_SRC_RUNTIME_RPC_HANDSHAKE_H_
#define TVMRT_SRC_RUNTIME_RPC_HANDSHAKE_H_

#include "channel.h"

/* Send the client's key, "client:" in front, and take the answer. `where` is for messages. */
int tvmrt__rpc_greet(tvmrt_channel* ch, const char* key, const char* where);

/* Read a client's key and answer it: 0 if it is "client:" and `expected`, else -1. *out_seconds is
 * what the client sets as the session's time; 0: nothing. */
int tvmrt__rpc_welcome(tvmrt_channel* ch, const char* expected, const char* server_key,
                       double* out_seconds);

/* ---- by way of a proxy ---- */

/* Send a server's key, "server:" in front: the proxy answers when there is a client. */
int tvmrt__rpc_offer(tvmrt_channel* ch, const char* key);
/* Take that answer, which is the client's key. *out_seconds as above. */
int tvmrt__rpc_joined(tvmrt_channel* ch, const char* expected, double* out_seconds);

#endif
