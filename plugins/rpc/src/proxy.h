/* Connection of a server to a proxy, which joins it with a client of equal key. */
#ifndef TVMRT_PLUGINS_RPC_PROXY_H_
#define TVMRT_PLUGINS_RPC_PROXY_H_

#include <stdbool.h>

#include "channel.h"

typedef struct tvmrt_rpc_proxy {
  char* host; /* owned; NULL: no proxy */
  int port;
  int fd;      /* connection that waits for a client; -1: none */
  double next; /* time of the next attempt, in clock seconds */
} tvmrt_rpc_proxy;

/* "host:port"; NULL: no proxy. */
int tvmrt__rpc_proxy_init(tvmrt_rpc_proxy* p, const char* where);
/* Connect if it is time to; failures are retried later. *log gets a static text or NULL. */
void tvmrt__rpc_proxy_poll(tvmrt_rpc_proxy* p, const char* key, const char** log);
/* Return the connection, on which data has arrived, to the caller. */
int tvmrt__rpc_proxy_take(tvmrt_rpc_proxy* p);
/* Delay the next attempt: the connection brought no client. */
void tvmrt__rpc_proxy_delay_retry(tvmrt_rpc_proxy* p);
void tvmrt__rpc_proxy_close(tvmrt_rpc_proxy* p);

#endif
