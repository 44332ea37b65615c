/* A server's line to a proxy, which joins it to a client of the same key. */
#ifndef TVMRT_PLUGINS_RPC_PROXY_H_
#define TVMRT_PLUGINS_RPC_PROXY_H_

#include <stdbool.h>

#include "channel.h"

typedef struct tvmrt_rpc_proxy {
  char* host; /* owned; NULL: no proxy */
  int port;
  int fd;      /* a connection that waits for a client; -1: none */
  double next; /* when to connect again, in seconds of the clock */
} tvmrt_rpc_proxy;

/* "host:port"; NULL for no proxy. */
int tvmrt__rpc_proxy_init(tvmrt_rpc_proxy* p, const char* where);
/* Connect if it is time to. What goes wrong is tried again later; `*log` gets a static text or NULL. */
void tvmrt__rpc_proxy_tend(tvmrt_rpc_proxy* p, const char* key, const char** log);
/* The connection, on which something has come: the caller's from here on. */
int tvmrt__rpc_proxy_take(tvmrt_rpc_proxy* p);
/* A connection has brought no client: not at once again. */
void tvmrt__rpc_proxy_rest(tvmrt_rpc_proxy* p);
void tvmrt__rpc_proxy_close(tvmrt_rpc_proxy* p);

#endif
