/* RPC servers, for programs that link this library: each call is forwarded to the plug-in, which is
 * loaded when a server is opened. */
#include "rpc_server.h"

#include "../core/function.h"

static const tvmrt_rpc_server_functions* functions_of(const tvmrt_rpc_server* server) {
  return ((const tvmrt_rpc_server_head*)(const void*)server)->functions;
}

/* NULL, with the error text set, if the plug-in is missing. */
static const tvmrt_rpc_server_functions* find_functions(void) {
  tvmrt_func* f = NULL;
  TVMValue value = {.v_handle = NULL};
  int code = kTVMNullptr;
  int rc = tvmrt__global_get(TVMRT_RPC_SERVER_FUNCTIONS, &f);
  if (rc == 0 && f == NULL) {
    tvmrt__set_error(
        "tvmrt_rpc_server_open: the plug-in rpc is not installed; install a tvmrt that contains "
        "it.");
  }
  if (f == NULL) return NULL;
  rc = TVMFuncCall(f, NULL, NULL, 0, &value, &code);
  tvmrt__release(&f->base);
  return rc == 0 ? value.v_handle : NULL;
}

int tvmrt_rpc_server_open(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out) {
  const tvmrt_rpc_server_functions* functions = find_functions();
  *out = NULL;
  return functions == NULL ? -1 : functions->open(options, out);
}

int tvmrt_rpc_server_port(const tvmrt_rpc_server* server) {
  return functions_of(server)->port(server);
}

int tvmrt_rpc_server_run(tvmrt_rpc_server* server) { return functions_of(server)->run(server); }

void tvmrt_rpc_server_stop(tvmrt_rpc_server* server) { functions_of(server)->stop(server); }

int tvmrt_rpc_server_stop_fd(const tvmrt_rpc_server* server) {
  return functions_of(server)->stop_fd(server);
}

void tvmrt_rpc_server_close(tvmrt_rpc_server* server) {
  if (server != NULL) functions_of(server)->close(server);
}
