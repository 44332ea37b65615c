/* The server: one process waits, others serve.
 *
 * The loop waits for connections, for news of its processes, for the wake-up call and for time
 * limits; it computes nothing for clients and reads nothing from them. stop() may be called from
 * any thread: it writes a byte. */
#include "server.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../platform/system.h"

/* Called in the server's process alone; a longer line is cut. */
void tvmrt__rpc_server_log(const tvmrt_rpc_server* server, const char* fmt, ...) {
  char line[512];
  va_list args;
  if (server->options.log == NULL) return;
  va_start(args, fmt);
  (void)vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  server->options.log(server->options.context, line);
}

/* Where a tracker gives clients out, it gives each a key of its own. */
const char* tvmrt__rpc_server_match_key(const tvmrt_rpc_server* server) {
  return server->tracker.host != NULL ? server->tracker.match_key : server->options.key;
}

/* ---- options ---- */

/* Of programs that were compiled when there was no proxy. */
enum { FIRST_BYTES = offsetof(tvmrt_rpc_server_options, proxy) };

/* Blanks would end it in a client's greeting, behind which options stand. */
static int check_key(const char* key) {
  if (key[strcspn(key, " \t\r\n")] == '\0' && strlen(key) <= 100) return 0;
  return tvmrt__fail_value("a key has at most 100 characters and no blank.");
}

/* Texts are borrowed: they must stay as long as the server. What is not said gets its default
 * here. */
static int take_options(tvmrt_rpc_server* server, const tvmrt_rpc_server_options* options) {
  tvmrt_rpc_server_options* o = &server->options;
  if (options == NULL || options->struct_bytes < FIRST_BYTES ||
      options->struct_bytes > sizeof(*options)) {
    return tvmrt__fail_value("tvmrt_rpc_server_open: struct_bytes is not %zu.", sizeof(*options));
  }
  /* an older program's struct is shorter: the rest is zero */
  memcpy(o, options, options->struct_bytes);
  if (o->host == NULL) o->host = "127.0.0.1";
  if (o->key == NULL) o->key = "";
  /* as in TVM: one client after the other */
  if (o->max_sessions <= 0) o->max_sessions = 1;
  if (o->max_sessions > TVMRT_RPC_MAX_PROCESSES) {
    return tvmrt__fail_value("at most %d sessions can be open at a time.", TVMRT_RPC_MAX_PROCESSES);
  }
  if (o->tracker != NULL && o->proxy != NULL) {
    return tvmrt__fail_value("a server waits at a proxy or registers at a tracker, not both.");
  }
  if (o->greet_seconds <= 0) o->greet_seconds = 5;
  server->limits = tvmrt__rpc_default_limits;
  if (o->packet_bytes != 0) server->limits.packet_bytes = o->packet_bytes;
  if (o->memory_bytes != 0) server->limits.memory_bytes = o->memory_bytes;
  return check_key(o->key);
}

/* A process that was started for one session opens no port: it takes its task instead. */
static int open_all(tvmrt_rpc_server* server, const tvmrt_rpc_server_options* options) {
  const tvmrt_rpc_server_options* o = &server->options;
  tvmrt_why why;
  TVMRT_RETURN_IF_ERROR(take_options(server, options));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_tracker_init(&server->tracker, o->tracker));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_proxy_init(&server->proxy, o->proxy));
  if (tvmrt__stream_pair(server->wake, &why) != TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: a pair of sockets: %s.", why.text);
  }
  if (tvmrt__process_task(server->name, &server->task)) return tvmrt__rpc_server_take_task(server);
  if (server->proxy.host != NULL) return 0;
  return tvmrt__socket_listen(o->host, o->port, o->port_end, &server->listener, &server->port);
}

/* *out is owned. The order of servers in a program is part of their names, see below. */
int tvmrt_rpc_server_open(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out) {
  static _Atomic int count;
  tvmrt_rpc_server* server = tvmrt__calloc(1, sizeof(*server));
  *out = NULL;
  if (server == NULL) return -1;
  /* by which a process that is started anew finds its task: servers are opened in the same order
   * there */
  (void)snprintf(server->name, sizeof(server->name), "rpc-server-%d", atomic_fetch_add(&count, 1));
  /* 0 is a descriptor, too */
  server->listener = -1;
  server->wake[0] = -1;
  server->wake[1] = -1;
  server->tracker.fd = -1;
  server->proxy.fd = -1;
  if (open_all(server, options) != 0) {
    tvmrt_rpc_server_close(server);
    return -1;
  }
  *out = server;
  return 0;
}

/* What the system has given where any port was asked for; 0 behind a proxy, which clients go to
 * instead. */
int tvmrt_rpc_server_port(const tvmrt_rpc_server* server) { return server->port; }

/* Also of one that was opened half: descriptors that are none are -1. */
void tvmrt_rpc_server_close(tvmrt_rpc_server* server) {
  if (server == NULL) return;
  tvmrt__rpc_tracker_close(&server->tracker);
  tvmrt__rpc_proxy_close(&server->proxy);
  free(server->proxy.host);
  tvmrt__stream_close(server->listener);
  tvmrt__stream_close(server->wake[0]);
  tvmrt__stream_close(server->wake[1]);
  free(server->task.text);
  free(server);
}

/* A byte and no flag: the loop waits for descriptors alone, and signal handlers may call this. */
void tvmrt_rpc_server_stop(tvmrt_rpc_server* server) { tvmrt__stream_wake(server->wake[1]); }

/* For signal handlers and other languages: a byte that is written there stops the server. */
int tvmrt_rpc_server_stop_fd(const tvmrt_rpc_server* server) { return server->wake[1]; }

/* ---- running ---- */

/* A place is taken from when a process is started until it was waited for. */
static int open_sessions(const tvmrt_rpc_server* server) {
  int count = 0;
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) count += server->processes[i].process != 0;
  return count;
}

/* Milliseconds until something is due besides what comes; -1: nothing. */
static int time_left(const tvmrt_rpc_server* server, bool looks) {
  double least = -1;
  int i;
  /* seconds: how long a tracker or a proxy may go without a look */
  if (looks) least = 0.5;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    const tvmrt_rpc_process* p = &server->processes[i];
    double left;
    if (p->process == 0 || p->deadline == 0) continue;
    left = p->deadline - tvmrt__seconds();
    if (left < 0) left = 0;
    if (least < 0 || left < least) least = left;
  }
  if (least < 0) return -1;
  return least > 1000 ? 1000000 : (int)(least * 1000) + 1;
}

/* A client that is busy with a call is told why it gets no answer. */
static void end_late_ones(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    tvmrt_rpc_process* p = &server->processes[i];
    if (p->process == 0 || p->deadline == 0 || tvmrt__seconds() < p->deadline) continue;
    tvmrt__rpc_process_end(server, p, "RPCSessionTimeoutError: the time of the session is over.");
  }
}

/* A client for whom there is no process is let go; the server goes on. */
static void begin(tvmrt_rpc_server* server, int fd, bool joined) {
  if (fd < 0) return;
  if (tvmrt__rpc_process_start(server, fd, joined) == 0) return;
  tvmrt__rpc_server_log(server, "no session for a client: %s", TVMGetLastError());
}

/* Let clients find the server. */
static void tend(tvmrt_rpc_server* server) {
  const tvmrt_rpc_server_options* o = &server->options;
  const char* line;
  tvmrt__rpc_tracker_tend(&server->tracker, o->key, server->port, o->custom_addr, &line);
  if (line != NULL) tvmrt__rpc_server_log(server, "%s", line);
  tvmrt__rpc_proxy_tend(&server->proxy, o->key, &line);
  if (line != NULL) tvmrt__rpc_server_log(server, "%s", line);
}

/* Whether something has to be looked at from time to time. */
static bool tends(const tvmrt_rpc_server* server) {
  return server->tracker.host != NULL || (server->proxy.host != NULL && server->proxy.fd < 0);
}

/* Wait for what comes; *stop when the server is to end. */
static int wait_once(tvmrt_rpc_server* server, bool* stop) {
  tvmrt_stream_event ready[TVMRT_RPC_MAX_PROCESSES + 3];
  tvmrt_rpc_process* of[TVMRT_RPC_MAX_PROCESSES + 3];
  const bool accepts = open_sessions(server) < server->options.max_sessions;
  tvmrt_why why;
  size_t count = 0;
  size_t i;
  if (accepts) tend(server);
  ready[count++] = (tvmrt_stream_event){server->wake[0], false};
  /* A server that is full leaves clients in the system's queue, until a session ends. */
  ready[count++] = (tvmrt_stream_event){accepts ? server->listener : -1, false};
  ready[count++] = (tvmrt_stream_event){accepts ? server->proxy.fd : -1, false};
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process == 0) continue;
    of[count] = &server->processes[i];
    ready[count++] = (tvmrt_stream_event){server->processes[i].news, false};
  }
  if (tvmrt__streams_wait(ready, count, time_left(server, accepts && tends(server)), &why) !=
      TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: waiting for clients: %s.", why.text);
  }
  *stop = ready[0].ready;
  for (i = 3; i < count; ++i) {
    if (ready[i].ready) tvmrt__rpc_process_news(server, of[i]);
  }
  /* After news: a session that has just ended is not late. */
  end_late_ones(server);
  if (*stop) return 0;
  if (ready[1].ready) begin(server, tvmrt__stream_accept(server->listener), false);
  if (ready[2].ready) begin(server, tvmrt__rpc_proxy_take(&server->proxy), true);
  return 0;
}

/* Ends all sessions before it returns. In a session's own process it does not return. */
int tvmrt_rpc_server_run(tvmrt_rpc_server* server) {
  bool stop = false;
  int rc = 0;
  int i;
  char bytes[16];
  size_t got = 0;
  tvmrt_why why;
  if (server->task.text != NULL) tvmrt__rpc_server_do_task(server);
  while (rc == 0 && !stop) rc = wait_once(server, &stop);
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process == 0) continue;
    tvmrt__rpc_process_end(server, &server->processes[i], NULL);
  }
  do { /* it may run again */
    if (tvmrt__stream_receive(server->wake[0], bytes, sizeof(bytes), &got, &why) != 0) break;
  } while (got != 0);
  return rc;
}
