/* Remote values: objects of this process for functions, modules and tensors of a peer. */
#ifndef TVMRT_PLUGINS_RPC_REMOTE_H_
#define TVMRT_PLUGINS_RPC_REMOTE_H_

#include "sdk/modules.h"
#include "session.h"

/* Remote object, freed on the peer when the ref is freed. */
typedef struct tvmrt_rpc_ref {
  tvmrt_rpc_session* session; /* retained */
  uint64_t handle;
  int code;
} tvmrt_rpc_ref;

/* The ref of a remote module; NULL for other modules. */
const tvmrt_rpc_ref* tvmrt__rpc_ref_of_module(const tvmrt_module* mod);

/* Call a global function of the peer. */
int tvmrt__rpc_call_global(tvmrt_rpc_session* s, const char* name, TVMValue* args, int* codes,
                           int count, TVMValue* out, int* out_code);

/* Root module of a session, whose functions are the peer's global functions. *out is owned. Takes
 * over the session, also on failure. */
int tvmrt__rpc_root(tvmrt_rpc_session* s, tvmrt_module** out);

#endif
