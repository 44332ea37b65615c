/* A server's line to a tracker, which tells clients of it. */
#ifndef TVMRT_PLUGINS_RPC_TRACKER_H_
#define TVMRT_PLUGINS_RPC_TRACKER_H_

#include <stdbool.h>

#include "channel.h"

typedef struct tvmrt_rpc_tracker {
  char* host; /* owned; NULL: no tracker */
  int port;
  int fd; /* -1: not connected */
  tvmrt_channel channel;
  char match_key[160]; /* what the next client must say; empty: nothing is announced */
  double next;         /* when to look again, in seconds of the clock */
  double claimed;      /* since when the key is with a client that has not come; 0: it is not */
} tvmrt_rpc_tracker;

/* "host:port"; NULL for no tracker. */
int tvmrt__rpc_tracker_init(tvmrt_rpc_tracker* t, const char* where);
/* Do what is due: connect, announce the server, see whether its key is still there. What goes wrong is
 * tried again later; `*log` gets a static text or NULL. */
void tvmrt__rpc_tracker_tend(tvmrt_rpc_tracker* t, const char* key, int port,
                             const char* custom_addr, const char** log);
/* A client has come: the key has been used. */
void tvmrt__rpc_tracker_used(tvmrt_rpc_tracker* t);
void tvmrt__rpc_tracker_close(tvmrt_rpc_tracker* t);

#endif
