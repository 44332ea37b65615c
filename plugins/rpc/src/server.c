/* RPC server: one process listens, and one process per session serves.
 *
 * The loop waits for connections, for the keys of clients, for the end of its processes, for the
 * wake-up byte and for time limits. It computes nothing for clients and reads no more than their
 * key. stop() may be called from any thread: it writes a byte. */
#include "server.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/system.h"

/* Called only in the server's process. Longer lines are truncated. */
void tvmrt__rpc_server_log(const tvmrt_rpc_server* server, const char* fmt, ...) {
  char line[512];
  va_list args;
  if (server->options.log == NULL) return;
  va_start(args, fmt);
  (void)vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  server->options.log(server->options.context, line);
}

/* The key that the next client must send: the server's key or, with a tracker, the one-time key;
 * NULL: no client is expected. */
static const char* match_key(const tvmrt_rpc_server* server) {
  if (server->tracker.host == NULL) return server->options.key;
  return server->tracker.match_key[0] != '\0' ? server->tracker.match_key : NULL;
}

/* ---- options ---- */

/* A blank would end the key in a client's greeting, where options follow it. */
static int check_key(const char* key) {
  if (key[strcspn(key, " \t\r\n")] == '\0' && strlen(key) <= 100) return 0;
  return tvmrt__fail_value("a key must have at most 100 characters and no spaces.");
}

/* Strings are borrowed and must outlive the server. Missing options get their defaults here. */
static int take_options(tvmrt_rpc_server* server, const tvmrt_rpc_server_options* options) {
  tvmrt_rpc_server_options* o = &server->options;
  if (options == NULL || options->struct_bytes != sizeof(*options)) {
    return tvmrt__fail_value("tvmrt_rpc_server_open: struct_bytes must be %zu.", sizeof(*options));
  }
  *o = *options;
  if (o->host == NULL) o->host = "127.0.0.1";
  if (o->key == NULL) o->key = "";
  /* as in TVM: one client after the other */
  if (o->max_sessions <= 0) o->max_sessions = 1;
  if (o->max_sessions > TVMRT_RPC_MAX_PROCESSES) {
    return tvmrt__fail_value("at most %d sessions can be open at a time.", TVMRT_RPC_MAX_PROCESSES);
  }
  if (!(o->greet_seconds > 0)) o->greet_seconds = 5;
  server->limits = tvmrt__rpc_default_limits;
  if (o->packet_bytes != 0) server->limits.packet_bytes = o->packet_bytes;
  if (o->memory_bytes != 0) server->limits.memory_bytes = o->memory_bytes;
  return check_key(o->key);
}

/* A process started for one session opens no port and takes its task instead. */
static int open_all(tvmrt_rpc_server* server, const tvmrt_rpc_server_options* options) {
  const tvmrt_rpc_server_options* o = &server->options;
  tvmrt_why why;
  TVMRT_RETURN_IF_ERROR(take_options(server, options));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_tracker_init(&server->tracker, o->tracker));
  if (tvmrt__stream_pair(server->wake, &why) != TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: cannot create a socket pair: %s.", why.text);
  }
  if (tvmrt__process_task(server->name, &server->task)) return tvmrt__rpc_server_take_task(server);
  return tvmrt__socket_listen(o->host, o->port, o->port_end, &server->listener, &server->port);
}

static const tvmrt_rpc_server_functions server_functions; /* below */

/* Also closes a partly opened server: missing descriptors are -1. */
static void rpc_server_close(tvmrt_rpc_server* server) {
  int i;
  if (server == NULL) return;
  tvmrt__rpc_tracker_close(&server->tracker);
  tvmrt__stream_close(server->listener);
  tvmrt__stream_close(server->wake[0]);
  tvmrt__stream_close(server->wake[1]);
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (server->peers.all[i].used) tvmrt__rpc_peer_drop(&server->peers.all[i]);
  }
  free(server->task.text);
  free(server);
}

/* *out is owned. The server's name contains its number in the program, see below. */
static int rpc_server_open(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out) {
  static _Atomic int count;
  tvmrt_rpc_server* server = tvmrt__calloc(1, sizeof(*server));
  *out = NULL;
  if (server == NULL) return -1;
  server->head.functions = &server_functions;
  /* a restarted process finds its task by this name; it opens its servers in the same order */
  (void)snprintf(server->name, sizeof(server->name), "rpc-server-%d", atomic_fetch_add(&count, 1));
  /* 0 is a valid descriptor */
  server->listener = -1;
  server->wake[0] = -1;
  server->wake[1] = -1;
  server->tracker.fd = -1;
  if (open_all(server, options) != 0) {
    rpc_server_close(server);
    return -1;
  }
  *out = server;
  return 0;
}

/* The port, chosen by the system if 0 was requested. */
static int rpc_server_port(const tvmrt_rpc_server* server) { return server->port; }

/* Writes a byte instead of setting a flag: the loop polls descriptors, and signal handlers may call
 * this. */
static void rpc_server_stop(tvmrt_rpc_server* server) { tvmrt__stream_wake(server->wake[1]); }

/* For signal handlers and other languages: writing a byte to this descriptor stops the server. */
static int rpc_server_stop_fd(const tvmrt_rpc_server* server) { return server->wake[1]; }

/* ---- running ---- */

/* A slot is in use from the start of its process until the process has been waited for. */
static int open_sessions(const tvmrt_rpc_server* server) {
  int count = 0;
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) count += server->processes[i].process != 0;
  return count;
}

/* The earlier of two times; 0 means none. */
static double earlier_deadline(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* Milliseconds until the next time limit; -1: none. */
static int time_left(const tvmrt_rpc_server* server, bool looks) {
  double next = 0;
  double left;
  int i;
  /* maximum seconds between two calls of poll_tracker() */
  if (looks) next = tvmrt__seconds() + 0.5;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process != 0)
      next = earlier_deadline(next, server->processes[i].deadline);
  }
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    const tvmrt_rpc_peer* p = &server->peers.all[i];
    if (p->used && !p->greeted) next = earlier_deadline(next, p->deadline);
  }
  if (next == 0) return -1;
  left = next - tvmrt__seconds();
  if (left < 0) left = 0;
  return left > 1000 ? 1000000 : (int)(left * 1000) + 1;
}

/* A client with a pending call gets the reason as its answer. */
static void end_expired_sessions(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    tvmrt_rpc_process* p = &server->processes[i];
    if (p->process == 0 || p->deadline == 0 || tvmrt__seconds() < p->deadline) continue;
    tvmrt__rpc_process_end(server, p, "RPCSessionTimeoutError: the time of the session is over.");
  }
}

/* ---- clients before their sessions ---- */

static void drop(tvmrt_rpc_server* server, tvmrt_rpc_peer* p) {
  if (p->greeted) {
    tvmrt__rpc_server_log(server, "a client has gone before its session began");
  } else {
    tvmrt__rpc_server_log(server, "a client sent a wrong key");
  }
  tvmrt__rpc_peer_drop(p);
}

/* Must only be called if tvmrt__rpc_peers_can_accept(). */
static void take(tvmrt_rpc_server* server, int fd) {
  tvmrt_rpc_peer* evicted;
  tvmrt_rpc_peer* slot = tvmrt__rpc_peers_slot(&server->peers, &evicted);
  if (evicted != NULL) drop(server, evicted);
  tvmrt__rpc_peer_init(&server->peers, slot, fd, server->options.greet_seconds);
}

/* Accept all queued connections, up to a limit. */
static void accept_all(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS && tvmrt__rpc_peers_can_accept(&server->peers); ++i) {
    const int fd = tvmrt__stream_accept(server->listener);
    if (fd < 0) return;
    take(server, fd);
  }
}

/* Handle data or the end of a peer's connection. A tracker's key is valid for one client. */
static void read_peer(tvmrt_rpc_server* server, tvmrt_rpc_peer* p) {
  if (tvmrt__rpc_peer_read(p, match_key(server)) != 0) {
    drop(server, p);
  } else if (p->greeted) {
    tvmrt__rpc_tracker_used(&server->tracker);
  }
}

static void drop_expired_peers(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    tvmrt_rpc_peer* p = &server->peers.all[i];
    if (p->used && !p->greeted && tvmrt__seconds() >= p->deadline) drop(server, p);
  }
}

static bool is_free(const tvmrt_rpc_server* server) {
  return open_sessions(server) < server->options.max_sessions;
}

/* Start sessions for waiting clients while there are free ones. If a process cannot be started, its
 * client is dropped and the server continues. */
static void begin(tvmrt_rpc_server* server) {
  while (is_free(server)) {
    tvmrt_rpc_peer* next = tvmrt__rpc_peers_next(&server->peers);
    if (next == NULL) return;
    if (tvmrt__rpc_process_start(server, next) == 0) continue;
    tvmrt__rpc_server_log(server, "no session for a client: %s", TVMGetLastError());
  }
}

/* ---- the loop ---- */

/* Register the server with its tracker. */
static void poll_tracker(tvmrt_rpc_server* server) {
  const tvmrt_rpc_server_options* o = &server->options;
  const char* line;
  tvmrt__rpc_tracker_poll(&server->tracker, o->key, server->port, o->custom_addr, &line);
  if (line != NULL) tvmrt__rpc_server_log(server, "%s", line);
}

enum { WAKE, LISTENER, PROCESSES, PEERS = PROCESSES + TVMRT_RPC_MAX_PROCESSES };
enum { EVENTS = PEERS + TVMRT_RPC_MAX_PEERS };
_Static_assert((int)EVENTS <= (int)TVMRT_STREAMS_MAX, "all that a server waits for");

/* If all slots are taken by clients with the key, further clients stay in the system's queue. */
static void list_events(const tvmrt_rpc_server* server, tvmrt_stream_event events[EVENTS]) {
  int i;
  for (i = 0; i < EVENTS; ++i) events[i] = (tvmrt_stream_event){-1, false};
  events[WAKE].fd = server->wake[0];
  if (tvmrt__rpc_peers_can_accept(&server->peers)) events[LISTENER].fd = server->listener;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process != 0) events[PROCESSES + i].fd = server->processes[i].end;
  }
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    events[PEERS + i].fd = tvmrt__rpc_peer_fd(&server->peers.all[i]);
  }
}

/* Wait for one round of events; *stop is set if the server must end. */
static int wait_once(tvmrt_rpc_server* server, bool* stop) {
  tvmrt_stream_event events[EVENTS];
  bool accepts;
  tvmrt_why why;
  int i;
  begin(server);
  accepts = is_free(server);
  if (accepts) poll_tracker(server);
  list_events(server, events);
  if (tvmrt__streams_wait(events, EVENTS,
                          time_left(server, accepts && server->tracker.host != NULL),
                          &why) != TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: cannot wait for clients: %s.", why.text);
  }
  *stop = events[WAKE].ready;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (events[PROCESSES + i].ready) tvmrt__rpc_process_reap(server, &server->processes[i]);
  }
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (events[PEERS + i].ready) read_peer(server, &server->peers.all[i]);
  }
  /* After the events: a session that has just ended, or a key just received, is not late. */
  end_expired_sessions(server);
  drop_expired_peers(server);
  if (*stop) return 0;
  if (events[LISTENER].ready) accept_all(server);
  return 0;
}

/* Ends all sessions before it returns. Does not return in a session's own process. */
static int rpc_server_run(tvmrt_rpc_server* server) {
  bool stop = false;
  int rc = 0;
  int i;
  char bytes[16];
  size_t received = 0;
  tvmrt_why why;
  if (server->task.text != NULL) tvmrt__rpc_server_run_task(server);
  while (rc == 0 && !stop) rc = wait_once(server, &stop);
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process == 0) continue;
    tvmrt__rpc_process_end(server, &server->processes[i], NULL);
  }
  do { /* empty the wake-up stream, since run() may be called again */
    if (tvmrt__stream_receive(server->wake[0], bytes, sizeof(bytes), &received, &why) != 0) break;
  } while (received != 0);
  return rc;
}

static const tvmrt_rpc_server_functions server_functions = {
    .open = rpc_server_open,
    .port = rpc_server_port,
    .run = rpc_server_run,
    .stop = rpc_server_stop,
    .stop_fd = rpc_server_stop_fd,
    .close = rpc_server_close,
};

/* tvmrt.rpc.server_functions(): table for the functions that the runtime library exports. */
TVMRT_PLUGIN_NATIVE(rpc_server_functions) {
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 0, 0));
  out->v_handle = (void*)(uintptr_t)&server_functions;
  *out_code = kTVMOpaqueHandle;
  return 0;
}
