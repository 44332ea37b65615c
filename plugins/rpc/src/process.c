/* A session's own process: what a client does there stays there.
 *
 * The server starts a process for each client that has sent the key, over platform/processes.h: a copy
 * of itself where systems can do that, else a program that finds its task again. What a client breaks is
 * its own process; time limits are kept from outside. The server and each process share a pair of
 * sockets, whose end says that the process has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "sdk/system.h"
#include "server.h"

/* ---- in the process ---- */

/* A client that came by way of a proxy has its answer from there. */
static int serve(const tvmrt_rpc_server* server, int fd, bool joined) {
  const tvmrt_rpc_server_options* o = &server->options;
  tvmrt_channel ch;
  tvmrt__channel_over(&ch, fd);
  if (!joined) {
    tvmrt__channel_set_deadline(&ch, o->greet_seconds);
    TVMRT_RETURN_IF_ERROR(tvmrt__rpc_welcome(&ch, o->key));
  }
  tvmrt__channel_set_deadline(&ch, 0);
  tvmrt__stream_set_timeout(fd, o->idle_seconds);
  return tvmrt__rpc_serve(&ch, &server->limits);
}

/* Does not return: the process ends here. */
static void serve_in(const tvmrt_rpc_server* server, const char* folder, const int streams[2],
                     bool joined) {
  tvmrt__rpc_folder_lend(folder);
  tvmrt__process_leave(serve(server, streams[0], joined) == 0 ? 0 : 1);
}

/* Split off the server: none of its other connections is this process's. Descriptors that a client
 * could reach from here would be other clients', or the server's own door. */
static void run(tvmrt_rpc_server* server, tvmrt_rpc_process* own, const int streams[2]) {
  int i;
  tvmrt__process_begin_task();
  tvmrt__stream_close(own->end);
  tvmrt__stream_close(server->listener);
  tvmrt__stream_close(server->tracker.fd);
  tvmrt__stream_close(server->proxy.fd);
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (server->peers.all[i].used) tvmrt__stream_close(server->peers.all[i].fd);
  }
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (&server->processes[i] == own || server->processes[i].process == 0) continue;
    tvmrt__stream_close(server->processes[i].fd);
    tvmrt__stream_close(server->processes[i].end);
  }
  serve_in(server, own->folder, streams, own->joined);
}

/* A task's text, line by line: whether a proxy has joined the two, the server's port, the folder.
 * Where systems have no copy of a process, the text is all that it knows beside what its program
 * does again. */
static int write_task(const tvmrt_rpc_server* server, const tvmrt_rpc_process* p, tvmrt_buf* out) {
  return tvmrt__buf_printf(out, "%d\n%d\n%s", (int)p->joined, server->port, p->folder);
}

/* Cuts the task's text into its lines, which stay the server's. */
int tvmrt__rpc_server_take_task(tvmrt_rpc_server* server) {
  char* line[3];
  int i;
  line[0] = server->task.text;
  for (i = 1; i < 3; ++i) {
    line[i] = strchr(line[i - 1], '\n');
    if (line[i] == NULL) return tvmrt__fail("RPCError: what a session's process is told is cut.");
    *line[i]++ = '\0';
  }
  server->joined = line[0][0] == '1';
  server->port = (int)strtol(line[1], NULL, 10);
  server->folder = line[2];
  return 0;
}

/* In place of the loop, in a process that was started for this one session. Does not return. */
void tvmrt__rpc_server_do_task(const tvmrt_rpc_server* server) {
  tvmrt__process_begin_task();
  serve_in(server, server->folder, server->task.streams, server->joined);
}

/* ---- in the server ---- */

/* The server asks for a place after it has counted its sessions; NULL is a mistake there. */
static tvmrt_rpc_process* free_place(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].process == 0) return &server->processes[i];
  }
  return NULL;
}

/* On failure nothing is left open but what the caller has given. In the copy this does not
 * return. */
static int start(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  int ends[2];
  tvmrt_buf text = {NULL, 0, 0};
  tvmrt_task task;
  tvmrt_why why;
  int rc;
  if (tvmrt__stream_pair(ends, &why) != TVMRT_STREAM_OK) {
    return tvmrt__fail("OSError: a pair of sockets: %s.", why.text);
  }
  p->end = ends[0];
  task.streams[0] = p->fd;
  /* the process's end, which this one closes below */
  task.streams[1] = ends[1];
  rc = write_task(server, p, &text);
  task.text = text.data;
  if (rc == 0 && tvmrt__process_start(server->name, &task, &p->process, &why) != 0) {
    rc = tvmrt__fail("OSError: a session's process: %s.", why.text);
  }
  /* this is the copy */
  if (rc == 0 && p->process == 0) run(server, p, task.streams);
  tvmrt__buf_free(&text);
  tvmrt__stream_close(ends[1]);
  if (rc != 0) tvmrt__stream_close(ends[0]);
  return rc;
}

/* A client may only shorten what the server allows; 0: no limit. */
static double deadline_of(const tvmrt_rpc_server* server, double asked) {
  const double allowed = server->options.session_seconds;
  if (asked <= 0 || (allowed > 0 && allowed < asked)) asked = allowed;
  return asked > 0 ? tvmrt__seconds() + asked : 0;
}

/* The place of the peer is free before the process is there: a copy must not close its stream. */
int tvmrt__rpc_process_start(tvmrt_rpc_server* server, tvmrt_rpc_peer* peer) {
  tvmrt_rpc_process* p = free_place(server);
  const bool joined = peer->joined;
  const double deadline = deadline_of(server, peer->seconds);
  const int fd = tvmrt__rpc_peer_release(peer);
  if (p == NULL) {
    tvmrt__stream_close(fd);
    return tvmrt__fail("all %d sessions are taken.", TVMRT_RPC_MAX_PROCESSES);
  }
  p->fd = fd;
  p->joined = joined;
  p->deadline = deadline;
  if (tvmrt__rpc_folder_make(&p->folder) == 0 && start(server, p) == 0) {
    tvmrt__rpc_server_log(server, "session %ld has begun", tvmrt__process_number(p->process));
    return 0;
  }
  /* the folder is made by the server, so that it can be removed whatever becomes of the process */
  if (p->folder != NULL) tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  tvmrt__stream_close(fd);
  return -1;
}

/* How a process has ended, for the log. */
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
  /* held until now, so that the client hears of the end when all is over */
  tvmrt__stream_close(p->fd);
  tvmrt__stream_close(p->end);
  tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  memset(p, 0, sizeof(*p));
}

/* The text, if there is one, is the answer to what the client waits for: it is sent in the
 * process's place, which is dead by then. */
void tvmrt__rpc_process_end(tvmrt_rpc_server* server, tvmrt_rpc_process* p, const char* text) {
  tvmrt_buf packet = {NULL, 0, 0};
  tvmrt_channel ch;
  /* First: two writers of one connection would mix their packets. */
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
