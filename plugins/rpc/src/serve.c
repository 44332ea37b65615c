/* Functions of a server: serve one session over an accepted connection. */
#include "endpoint.h"
#include "functions.h"

/* (connected descriptor) */
TVMRT_PLUGIN_NATIVE(rpc_server_loop) {
  tvmrt_rpc_endpoint ep;
  tvmrt_channel ch;
  int64_t fd;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  tvmrt__channel_over(&ch, (int)fd);
  tvmrt__rpc_endpoint_begin(&ep, &ch, &tvmrt__rpc_default_limits);
  do {
    rc = tvmrt__rpc_endpoint_step(&ep);
  } while (rc == 0 && !ep.ended);
  tvmrt__rpc_endpoint_end(&ep);
  return rc;
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
