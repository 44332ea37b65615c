/* What the files of the server share. */
#ifndef TVMRT_PLUGINS_RPC_SERVER_H_
#define TVMRT_PLUGINS_RPC_SERVER_H_

#include <stdbool.h>
#include <tvm/runtime/rpc_server.h>

#include "endpoint.h"
#include "peers.h"
#include "platform/processes.h"
#include "proxy.h"
#include "sdk/rpc_server.h"
#include "tracker.h"

enum { TVMRT_RPC_MAX_PROCESSES = 64 };

/* A connection: a process of its own that serves it. */
typedef struct tvmrt_rpc_process {
  tvmrt_process process; /* 0: none */
  int fd;                /* the connection, to say that the time is over */
  int end;               /* a stream on which nothing comes; it ends with the process */
  char* folder;          /* owned */
  double deadline;
  bool joined; /* by a proxy, which has answered the client */
} tvmrt_rpc_process;

struct tvmrt_rpc_server {
  tvmrt_rpc_server_head head;
  tvmrt_rpc_server_options options;
  tvmrt_rpc_limits limits;
  char name[32];      /* among the servers of the program */
  tvmrt_task task;    /* what this process was started for; its text is NULL where it was not */
  bool joined;        /* in such a one: by a proxy */
  const char* folder; /* in such a one: of its session, in the task's text */
  int listener;
  int port;
  int wake[2]; /* a pair: a byte into [1] ends tvmrt_rpc_server_run() */
  tvmrt_rpc_tracker tracker;
  tvmrt_rpc_proxy proxy;
  tvmrt_rpc_peers peers;
  tvmrt_rpc_process processes[TVMRT_RPC_MAX_PROCESSES];
};

/* In a process that another one of the program has started for a connection: read what it was told;
 * serve the connection, from which it does not return. */
int tvmrt__rpc_server_take_task(tvmrt_rpc_server* server);
void tvmrt__rpc_server_do_task(const tvmrt_rpc_server* server);
/* Start the session of a client that has sent the key; its connection and its place are taken over,
 * also on failure. */
int tvmrt__rpc_process_start(tvmrt_rpc_server* server, tvmrt_rpc_peer* peer);
/* Clear up after one that has ended. */
void tvmrt__rpc_process_reap(tvmrt_rpc_server* server, tvmrt_rpc_process* p);
/* End it, with a text to its client where there is one. */
void tvmrt__rpc_process_end(tvmrt_rpc_server* server, tvmrt_rpc_process* p, const char* text);

void tvmrt__rpc_server_log(const tvmrt_rpc_server* server, const char* fmt, ...) TVMRT_PRINTF(2, 3);

#endif
