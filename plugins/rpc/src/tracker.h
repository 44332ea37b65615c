/* Connection of a server to a tracker, which assigns the server to clients. */
#ifndef TVMRT_PLUGINS_RPC_TRACKER_H_
#define TVMRT_PLUGINS_RPC_TRACKER_H_

#include <stdbool.h>

#include "channel.h"

typedef struct tvmrt_rpc_tracker {
  char* host; /* owned; NULL: no tracker */
  int port;
  int fd; /* -1: not connected */
  tvmrt_channel channel;
  char match_key[160]; /* one-time key of the next client; empty: nothing is announced */
  double next;         /* time of the next poll, in clock seconds */
  double claimed;      /* when a client that has not connected got the key; 0: none has */
} tvmrt_rpc_tracker;

/* "host:port"; NULL: no tracker. */
int tvmrt__rpc_tracker_init(tvmrt_rpc_tracker* t, const char* where);
/* Do the due work: connect, announce the server, poll its key. Failures are retried later; *log
 * gets a static text or NULL. */
void tvmrt__rpc_tracker_poll(tvmrt_rpc_tracker* t, const char* key, int port,
                             const char* custom_addr, const char** log);
/* A client has used the key. */
void tvmrt__rpc_tracker_used(tvmrt_rpc_tracker* t);
void tvmrt__rpc_tracker_close(tvmrt_rpc_tracker* t);

#endif
