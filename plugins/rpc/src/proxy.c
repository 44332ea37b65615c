/* Connection of a server to a proxy, where it waits for clients.
 *
 * The server's loop calls tvmrt__rpc_proxy_poll() before each wait. When bytes arrive, the
 * connection belongs to a client and is moved to a session. */
#include "proxy.h"

#include <stdlib.h>

#include "handshake.h"
#include "sdk/system.h"

static const double connect_seconds = 10;
static const double retry_seconds = 5; /* until the next attempt to connect */

/* `where` is NULL for a server without a proxy; the host is freed with the server. */
int tvmrt__rpc_proxy_init(tvmrt_rpc_proxy* p, const char* where) {
  p->fd = -1;
  return tvmrt__split_host_port("proxy", where, &p->host, &p->port);
}

/* An opened descriptor stays in p->fd, also on failure; the caller closes it. */
static int connect_and_register(tvmrt_rpc_proxy* p, const char* key) {
  tvmrt_channel ch;
  TVMRT_RETURN_IF_ERROR(tvmrt__socket_connect(p->host, p->port, connect_seconds, &p->fd));
  tvmrt__channel_over(&ch, p->fd);
  tvmrt__channel_set_deadline(&ch, connect_seconds);
  return tvmrt__rpc_offer(&ch, key);
}

/* Called before each wait of the server's loop. *log is a line for the log, or NULL. */
void tvmrt__rpc_proxy_poll(tvmrt_rpc_proxy* p, const char* key, const char** log) {
  *log = NULL;
  if (p->host == NULL || p->fd >= 0 || tvmrt__seconds() < p->next) return;
  if (connect_and_register(p, key) == 0) {
    *log = "waiting at the proxy";
    return;
  }
  *log = "the proxy does not answer; it is tried again";
  tvmrt__rpc_proxy_close(p);
  tvmrt__rpc_proxy_delay_retry(p);
}

/* The caller takes over the connection; the next tvmrt__rpc_proxy_poll() opens another one. */
int tvmrt__rpc_proxy_take(tvmrt_rpc_proxy* p) {
  const int fd = p->fd;
  p->fd = -1;
  return fd;
}

/* Delay the next attempt after a failure. */
void tvmrt__rpc_proxy_delay_retry(tvmrt_rpc_proxy* p) {
  p->next = tvmrt__seconds() + retry_seconds;
}

void tvmrt__rpc_proxy_close(tvmrt_rpc_proxy* p) { tvmrt__stream_close(tvmrt__rpc_proxy_take(p)); }
