/* How a client and a server find out that they mean each other. */
#ifndef TVMRT_PLUGINS_RPC_HANDSHAKE_H_
#define TVMRT_PLUGINS_RPC_HANDSHAKE_H_

#include "channel.h"

/* Send the client's key, "client:" in front, and take the answer. `where` is for messages. */
int tvmrt__rpc_greet(tvmrt_channel* ch, const char* key, const char* where);

/* What the other side of a server says first, taken apart as it comes: a word, a length, a key.
 * Each gives 0, or -1 for what is no greeting. */

/* How many bytes are missing for the next step, at least; 0: it is whole. Whoever reads no more
 * than these leaves what follows the greeting to its reader. */
int tvmrt__rpc_greeting_needs(const tvmrt_buf* come, size_t* out);
/* Whether a whole one says "client:" and `expected`; *out_seconds is what the client sets as the
 * session's time, 0: nothing. Changes the bytes. */
bool tvmrt__rpc_greeting_matches(const tvmrt_buf* come, const char* expected, double* out_seconds);

/* A server's answers: that the session begins, or that the key is another server's. */
int tvmrt__rpc_welcome(tvmrt_channel* ch, const char* server_key);
int tvmrt__rpc_refuse(tvmrt_channel* ch);

/* ---- by way of a proxy ---- */

/* Send a server's key, "server:" in front: the proxy answers by the greeting of a client when there
 * is one, which it has answered already. */
int tvmrt__rpc_offer(tvmrt_channel* ch, const char* key);

#endif
