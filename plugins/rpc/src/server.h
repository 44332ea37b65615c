/* Types shared by the server's files. */
#ifndef TVMRT_PLUGINS_RPC_SERVER_H_
#define TVMRT_PLUGINS_RPC_SERVER_H_

#include <stdbool.h>
#include <tvm/runtime/rpc_server.h>

#include "endpoint.h"
#include "peers.h"
#include "platform/processes.h"
#include "sdk/rpc_server.h"
#include "tracker.h"

enum { TVMRT_RPC_MAX_PROCESSES = 64 };

/* A session's process and its connection. */
typedef struct tvmrt_rpc_process {
  tvmrt_process process; /* 0: none */
  int fd;                /* the connection, for the time-limit error */
  int end;               /* a stream without data, which closes when the process ends */
  char* folder;          /* owned */
  double deadline;
} tvmrt_rpc_process;

struct tvmrt_rpc_server {
  tvmrt_rpc_server_head head;
  tvmrt_rpc_server_options options;
  tvmrt_rpc_limits limits;
  char name[32];      /* unique among the servers of the program */
  tvmrt_task task;    /* task that this process was started for; text NULL: none */
  const char* folder; /* in a task's process: the session's folder, in the task's text */
  int listener;
  int port;
  int wake[2]; /* a pair: a byte written to [1] ends tvmrt_rpc_server_run() */
  tvmrt_rpc_tracker tracker;
  tvmrt_rpc_peers peers;
  tvmrt_rpc_process processes[TVMRT_RPC_MAX_PROCESSES];
};

/* In a process started for one session: read the task, and serve its connection. The second
 * function does not return. */
int tvmrt__rpc_server_take_task(tvmrt_rpc_server* server);
void tvmrt__rpc_server_run_task(const tvmrt_rpc_server* server);
/* Start the session of a client that has sent the key. Takes over its connection and its slot, also
 * on failure. */
int tvmrt__rpc_process_start(tvmrt_rpc_server* server, tvmrt_rpc_peer* peer);
/* Clean up after a process that has ended. */
void tvmrt__rpc_process_reap(tvmrt_rpc_server* server, tvmrt_rpc_process* p);
/* End a process, and send `text` to its client unless it is NULL. */
void tvmrt__rpc_process_end(tvmrt_rpc_server* server, tvmrt_rpc_process* p, const char* text);

void tvmrt__rpc_server_log(const tvmrt_rpc_server* server, const char* fmt, ...) TVMRT_PRINTF(2, 3);

#endif
