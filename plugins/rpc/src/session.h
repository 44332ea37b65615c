/* The client's side of a session, and the values that live on the other side. */
#ifndef TVMRT_PLUGINS_RPC_SESSION_H_
#define TVMRT_PLUGINS_RPC_SESSION_H_

#include "board.h"
#include "channel.h"
#include "sdk/modules.h"
#include "wire.h"

/* Counted by the modules, functions, tensors and memory of it. One request at a time: thread-safe. */
typedef struct tvmrt_rpc_session tvmrt_rpc_session;

/* A session over a connected socket, which it takes over, also on failure; -1: with this process
 * itself. `init` are the values of kInitServer. */
int tvmrt__rpc_session_begin(int fd, const tvmrt_args* init, tvmrt_rpc_session** out);
/* The same over the line to a board, which it takes over, also on failure. */
int tvmrt__rpc_session_over(tvmrt_board* board, tvmrt_rpc_session** out);
void tvmrt__rpc_session_retain(tvmrt_rpc_session* s);
void tvmrt__rpc_session_release(tvmrt_rpc_session* s);
/* Ends the connection; what is called later fails. */
void tvmrt__rpc_session_close(tvmrt_rpc_session* s, bool in_order);
int tvmrt__rpc_session_index(const tvmrt_rpc_session* s);
/* By the type of a device that carries it, borrowed; NULL with the error text set. */
tvmrt_rpc_session* tvmrt__rpc_session_of(DLDevice dev);

/* What a reply is made of while the session is locked. */
typedef int tvmrt_rpc_on_reply(tvmrt_rpc_session* s, const tvmrt_rpc_seq* reply, void* ctx);

/* A request with values: `handle`, which may be NULL, goes before them. */
int tvmrt__rpc_request(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                       const TVMValue* values, const int* codes, int count,
                       tvmrt_rpc_on_reply* on_reply, void* ctx);
/* Copy to or from bytes of this process. */
int tvmrt__rpc_copy_to(tvmrt_rpc_session* s, DLDevice dev, const void* from, void* to,
                       uint64_t bytes);
int tvmrt__rpc_copy_from(tvmrt_rpc_session* s, DLDevice dev, const void* from, void* to,
                         uint64_t bytes);
/* A request of few values whose answer nobody waits for; what goes wrong is forgotten. */
void tvmrt__rpc_post(tvmrt_rpc_session* s, tvmrt_rpc_code code, const TVMValue* values,
                     const int* codes, int count);
/* Give a handle back; what goes wrong is forgotten. */
void tvmrt__rpc_free_handle(tvmrt_rpc_session* s, uint64_t handle, int code);

/* The handle of the other side's ModuleGetFunction, asked for once. */
int tvmrt__rpc_module_getter(tvmrt_rpc_session* s, uint64_t* out);

/* ---- values of the other side ---- */

/* Something that lives there; freed there when this goes. */
typedef struct tvmrt_rpc_ref {
  tvmrt_rpc_session* session; /* retained */
  uint64_t handle;
  int code;
} tvmrt_rpc_ref;

/* *out is owned, by tvmrt__rpc_ref_free(); it retains the session. */
int tvmrt__rpc_ref_new(tvmrt_rpc_session* s, uint64_t handle, int code, tvmrt_rpc_ref** out);
void tvmrt__rpc_ref_free(void* ref);

/* What a reply says, (type, value), becomes a result; ctx is a tvmrt_rpc_result. */
typedef struct tvmrt_rpc_result {
  TVMValue* value;
  int* code;
} tvmrt_rpc_result;
tvmrt_rpc_on_reply tvmrt__rpc_take_result;
/* A reply of one handle; ctx is a uint64_t. */
tvmrt_rpc_on_reply tvmrt__rpc_take_handle;

/* A function of the other side, owned; NULL with the error text set. */
tvmrt_func* tvmrt__rpc_function(tvmrt_rpc_session* s, uint64_t handle);
/* A module of the other side, owned; takes the ref over, also on failure. */
tvmrt_module* tvmrt__rpc_module(tvmrt_rpc_ref* ref);
/* What is behind a module of the other side; NULL for others. */
const tvmrt_rpc_ref* tvmrt__rpc_ref_of_module(const tvmrt_module* mod);

/* The module of a session: its functions are the other side's global ones. *out is owned. Takes the
 * session over, also on failure. */
int tvmrt__rpc_root(tvmrt_rpc_session* s, tvmrt_module** out);

#endif
