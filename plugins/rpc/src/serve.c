/* Functions of a server: serve one session over an accepted connection. */
#include "endpoint.h"
#include "functions.h"
#include "sdk/modules.h"

/* (connected descriptor), and optionally (limit of a packet's bytes, limit of allocated bytes).
 * Programs may register hooks for the start and the end of serving. A failing start hook prevents
 * serving; hooks are not given the result of the session. */
TVMRT_PLUGIN_NATIVE(rpc_server_loop) {
  tvmrt_rpc_limits limits = tvmrt__rpc_default_limits;
  tvmrt_channel ch;
  int64_t fd;
  int64_t bytes[2] = {0, 0};
  int i;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  for (i = 1; i < num_args; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, i, &bytes[i - 1]));
  if (bytes[0] > 0) limits.packet_bytes = (uint64_t)bytes[0];
  if (bytes[1] > 0) limits.memory_bytes = (uint64_t)bytes[1];
  tvmrt__channel_over(&ch, (int)fd);
  TVMRT_RETURN_IF_ERROR(tvmrt__global_notify("tvm.rpc.server.start", NULL, NULL, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_serve(&ch, &limits));
  return tvmrt__global_notify("tvm.rpc.server.shutdown", NULL, NULL, 0);
}

/* (connected descriptor, text): answer the peer's last request with an error. */
TVMRT_PLUGIN_NATIVE(rpc_return_exception) {
  tvmrt_channel ch;
  tvmrt_buf packet = {NULL, 0, 0};
  const char* text;
  int64_t fd;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &text));
  tvmrt__channel_over(&ch, (int)fd);
  rc = tvmrt__rpc_write_exception(&packet, text);
  if (rc == 0) rc = tvmrt__channel_send(&ch, packet.data, packet.size, NULL, 0);
  tvmrt__buf_free(&packet);
  return rc;
}

/* Import one module of this process into another; the name is TVM's. */
TVMRT_PLUGIN_NATIVE(rpc_import_module) {
  tvmrt_module* parent;
  tvmrt_module* child;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &parent));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 1, &child));
  return tvmrt__module_import(parent, child);
}
