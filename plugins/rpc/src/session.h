/* Client side of a session. */
#ifndef TVMRT_PLUGINS_RPC_SESSION_H_
#define TVMRT_PLUGINS_RPC_SESSION_H_

#include "channel.h"
#include "sdk/values.h"

/* Counted by its modules, functions, tensors and memory. Thread-safe. */
typedef struct tvmrt_rpc_session tvmrt_rpc_session;

/* Begin a session over a channel, whose functions are retained. Takes over its socket, also on
 * failure. */
int tvmrt__rpc_session_begin(tvmrt_channel channel, tvmrt_rpc_session** out);
/* Limit the bytes of the packets of a copy; 0: no limit. */
void tvmrt__rpc_session_limit(tvmrt_rpc_session* s, uint64_t max_bytes);
void tvmrt__rpc_session_retain(tvmrt_rpc_session* s);
void tvmrt__rpc_session_release(tvmrt_rpc_session* s);
/* End the connection; later requests fail. */
void tvmrt__rpc_session_close(tvmrt_rpc_session* s);
int tvmrt__rpc_session_index(const tvmrt_rpc_session* s);
/* Session of a device type, borrowed; NULL with the error text set. */
tvmrt_rpc_session* tvmrt__rpc_session_of(DLDevice dev);

/* Callback that reads a reply while the session is locked. */
typedef int tvmrt_rpc_on_reply(tvmrt_rpc_session* s, const remote_values* reply, void* ctx);

/* Read a reply of one handle; ctx is a uint64_t. */
tvmrt_rpc_on_reply tvmrt__rpc_take_handle;

/* Send a request and read its reply. `handle`, which may be NULL, precedes the values. */
int tvmrt__rpc_request(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                       const TVMValue* values, const int* codes, int count,
                       tvmrt_rpc_on_reply* on_reply, void* ctx);
/* Copy to or from memory of this process: kCopyToRemote or kCopyFromRemote. */
int tvmrt__rpc_copy(tvmrt_rpc_session* s, tvmrt_rpc_code code, DLDevice dev, const void* remote,
                    void* local, uint64_t bytes);
/* Send a request of a few values before the next other request; errors are ignored. */
void tvmrt__rpc_post(tvmrt_rpc_session* s, tvmrt_rpc_code code, const TVMValue* values,
                     const int* codes, int count);
/* Free a remote handle before the next request; errors are ignored. */
void tvmrt__rpc_free_handle(tvmrt_rpc_session* s, uint64_t handle, int code);

/* Handle of a global function of the peer; 0: it has none of that name. */
int tvmrt__rpc_find_global(tvmrt_rpc_session* s, const char* name, uint64_t* out);

#endif
