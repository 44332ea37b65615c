/* Handshake between client and server, which checks the protocol and the key. */
#ifndef TVMRT_PLUGINS_RPC_HANDSHAKE_H_
#define TVMRT_PLUGINS_RPC_HANDSHAKE_H_

#include "channel.h"

/* Send "client:" and the key, and read the answer. `where` is for error texts. */
int tvmrt__rpc_greet(tvmrt_channel* ch, const char* key, const char* where);

/* Incremental parser of a client's greeting: a magic word, a length, a key. The functions return -1
 * for an invalid greeting. */

/* Minimum number of bytes missing for the next step; 0: the greeting is complete. Reading exactly
 * this many leaves the bytes after the greeting in the stream. */
int tvmrt__rpc_greeting_missing_bytes(const tvmrt_buf* received, size_t* out);
/* Whether a complete greeting is "client:" with the `expected` key. *out_seconds is the client's
 * session timeout; 0: none. Changes the bytes. */
bool tvmrt__rpc_greeting_matches(const tvmrt_buf* received, const char* expected,
                                 double* out_seconds);

/* Answers of a server: the session begins, or the key does not match. */
int tvmrt__rpc_welcome(tvmrt_channel* ch, const char* server_key);
int tvmrt__rpc_refuse(tvmrt_channel* ch);

#endif
