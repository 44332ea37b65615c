/* A session's own process, which isolates the effects of its client.
 *
 * The server starts a process for each client that has sent the key, with platform/processes.h: a
 * forked copy, or on Windows a new process that receives its task. A crash affects only that
 * process; time limits are enforced from outside. The server and each process share a pair of
 * sockets, whose closing signals the end of the process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "sdk/system.h"
#include "server.h"

/* ---- in the process ---- */

/* Answer the client's greeting, then its packets. */
static int serve(const tvmrt_rpc_server* server, int fd) {
  const tvmrt_rpc_server_options* o = &server->options;
  tvmrt_channel ch;
  tvmrt__channel_over(&ch, fd);
  tvmrt__channel_set_deadline(&ch, o->greet_seconds);
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_welcome(&ch, o->key));
  tvmrt__channel_set_deadline(&ch, 0);
  tvmrt__stream_set_timeout(fd, o->idle_seconds);
  return tvmrt__rpc_serve(&ch, &server->limits);
}

/* Does not return: the process ends here. */
static void serve_in(const tvmrt_rpc_server* server, const char* folder, const int streams[2]) {
  tvmrt__rpc_folder_borrow(folder);
  tvmrt__process_leave(serve(server, streams[0]) == 0 ? 0 : 1);
}

/* Runs in the forked copy. Close all other connections of the server, so that the client cannot
 * reach other clients or the listener. */
static void run(tvmrt_rpc_server* server, tvmrt_rpc_process* own, const int streams[2]) {
  int i;
  tvmrt__process_begin_task();
  tvmrt__stream_close(own->end);
  tvmrt__stream_close(server->listener);
  tvmrt__stream_close(server->tracker.fd);
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (server->peers.all[i].used) tvmrt__stream_close(server->peers.all[i].fd);
  }
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (&server->processes[i] == own || server->processes[i].process == 0) continue;
    tvmrt__stream_close(server->processes[i].fd);
    tvmrt__stream_close(server->processes[i].end);
  }
  serve_in(server, own->folder, streams);
}

/* A task's text has two lines: the server's port, and the folder. On Windows this text is the new process's only information besides its command line. */
static int write_task(const tvmrt_rpc_server* server, const tvmrt_rpc_process* p, tvmrt_buf* out) {
  return tvmrt__buf_printf(out, "%d\n%s", server->port, p->folder);
}

/* Split the task's text into its lines, which stay owned by the server. */
int tvmrt__rpc_server_take_task(tvmrt_rpc_server* server) {
  char* folder = strchr(server->task.text, '\n');
  if (folder == NULL)
    return tvmrt__fail("RPCError: the arguments of a session's process are truncated.");
  *folder++ = '\0';
  server->port = (int)strtol(server->task.text, NULL, 10);
  server->folder = folder;
  return 0;
}

/* Replaces the server's loop in a process started for one session. Does not return. */
void tvmrt__rpc_server_run_task(const tvmrt_rpc_server* server) {
  tvmrt__process_begin_task();
  serve_in(server, server->folder, server->task.streams);
}

/* ---- in the server ---- */

/* The server checks its number of sessions first, so NULL is an internal error. */
static tvmrt_rpc_process* free_slot(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process == 0) return &server->processes[i];
  }
  return NULL;
}

/* On failure only the caller's descriptors stay open. Does not return in the forked copy. */
static int start(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  int ends[2];
  tvmrt_buf text = {NULL, 0, 0};
  tvmrt_task task;
  tvmrt_why why;
  int rc;
  if (tvmrt__stream_pair(ends, &why) != TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: cannot create a socket pair: %s.", why.text);
  }
  p->end = ends[0];
  task.streams[0] = p->fd;
  /* the process's end, which the server closes below */
  task.streams[1] = ends[1];
  rc = write_task(server, p, &text);
  task.text = text.data;
  if (rc == 0 && tvmrt__process_start(server->name, &task, &p->process, &why) != 0) {
    rc = tvmrt__fail("OSError: cannot start a session's process: %s.", why.text);
  }
  /* in the forked copy */
  if (rc == 0 && p->process == 0) run(server, p, task.streams);
  tvmrt__buf_free(&text);
  tvmrt__stream_close(ends[1]);
  if (rc != 0) tvmrt__stream_close(ends[0]);
  return rc;
}

/* A client may only shorten the server's time limit; 0: no limit. */
static double deadline_of(const tvmrt_rpc_server* server, double requested) {
  const double allowed = server->options.session_seconds;
  if (requested <= 0 || (allowed > 0 && allowed < requested)) requested = allowed;
  return requested > 0 ? tvmrt__seconds() + requested : 0;
}

/* The peer's slot is freed before the process starts, so that the copy does not close its
 * stream. */
int tvmrt__rpc_process_start(tvmrt_rpc_server* server, tvmrt_rpc_peer* peer) {
  tvmrt_rpc_process* p = free_slot(server);
  const double deadline = deadline_of(server, peer->seconds);
  const int fd = tvmrt__rpc_peer_release(peer);
  if (p == NULL) {
    tvmrt__stream_close(fd);
    return tvmrt__fail("all %d sessions are in use.", TVMRT_RPC_MAX_PROCESSES);
  }
  p->fd = fd;
  p->deadline = deadline;
  if (tvmrt__rpc_folder_make(&p->folder) == 0 && start(server, p) == 0) {
    tvmrt__rpc_server_log(server, "session %ld has begun", tvmrt__process_number(p->process));
    return 0;
  }
  /* the server makes the folder, so it can remove it even if the process crashes */
  if (p->folder != NULL) tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  tvmrt__stream_close(fd);
  return -1;
}

/* Wait for the process, log its exit status and free its slot. */
void tvmrt__rpc_process_reap(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  const long number = tvmrt__process_number(p->process);
  tvmrt_why why;
  const int status = tvmrt__process_wait(p->process, &why);
  if (status < 0) {
    tvmrt__rpc_server_log(server, "session %ld was ended by %s", number, why.text);
  } else {
    tvmrt__rpc_server_log(server, "session %ld has ended%s", number,
                          status == 0 ? "" : ", without a word of its client");
  }
  /* closed last, so that the client sees the end after the clean-up */
  tvmrt__stream_close(p->fd);
  tvmrt__stream_close(p->end);
  tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  memset(p, 0, sizeof(*p));
}

/* Kill the process. If `text` is not NULL, it is sent as the answer to the client's pending
 * request. */
void tvmrt__rpc_process_end(tvmrt_rpc_server* server, tvmrt_rpc_process* p, const char* text) {
  tvmrt_buf packet = {NULL, 0, 0};
  tvmrt_channel ch;
  /* First: two writers on one connection would mix their packets. */
  tvmrt__process_kill(p->process);
  if (text != NULL) {
    tvmrt__channel_over(&ch, p->fd);
    tvmrt__channel_set_deadline(&ch, 1);
    if (tvmrt__rpc_write_exception(&packet, text) == 0) {
      (void)tvmrt__channel_send(&ch, packet.data, packet.size, NULL, 0);
    }
    tvmrt__buf_free(&packet);
  }
  tvmrt__rpc_process_reap(server, p);
}
