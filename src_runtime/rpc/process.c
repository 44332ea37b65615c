/* A connection's own process: what a client does there stays there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../platform/system.h"
#include "handshake.h"
#include "server.h"

/* What a process tells its server, once, when it knows who its client is. */
typedef struct news {
  double seconds; /* that the client asks for; 0: none */
} news;

/* ---- in the process ---- */

static int greet(const tvmrt_rpc_server* server, tvmrt_channel* ch, bool joined, double* seconds) {
  const char* key = server->options.key;
  if (joined) return tvmrt__rpc_joined(ch, key, seconds);
  return tvmrt__rpc_welcome(ch, tvmrt__rpc_server_match_key(server), key, seconds);
}

static int serve(const tvmrt_rpc_server* server, const tvmrt_rpc_process* p, int out) {
  const tvmrt_rpc_server_options* o = &server->options;
  tvmrt_channel ch;
  news told;
  memset(&told, 0, sizeof(told));
  tvmrt__socket_set_timeout(p->fd, o->greet_seconds);
  tvmrt__channel_over(&ch, p->fd);
  TVMRT_RETURN_IF_ERROR(greet(server, &ch, p->joined, &told.seconds));
  if (write(out, &told, sizeof(told)) != (ssize_t)sizeof(told)) return -1;
  tvmrt__socket_set_timeout(p->fd, o->idle_seconds);
  return tvmrt__rpc_serve(&ch, &server->limits);
}

/* Nothing of the server's is this process's: not its other connections, nor what it does at exit. */
static void run(tvmrt_rpc_server* server, tvmrt_rpc_process* own, int out) {
  int i;
  (void)signal(SIGINT, SIG_IGN); /* of a terminal that the server ends itself */
  (void)signal(SIGTERM, SIG_DFL);
  tvmrt__socket_close(server->listener);
  tvmrt__socket_close(server->tracker.fd);
  tvmrt__socket_close(server->proxy.fd);
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (&server->processes[i] == own || server->processes[i].pid == 0) continue;
    tvmrt__socket_close(server->processes[i].fd);
    tvmrt__socket_close(server->processes[i].news);
  }
  tvmrt__rpc_folder_lend(own->folder);
  _exit(serve(server, own, out) == 0 ? 0 : 1);
}

/* ---- in the server ---- */

static tvmrt_rpc_process* free_place(tvmrt_rpc_server* server) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PROCESSES; ++i) {
    if (server->processes[i].pid == 0) return &server->processes[i];
  }
  return NULL;
}

static int start(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  int ends[2];
  if (pipe(ends) != 0) return tvmrt__fail("OSError: pipe: %s.", strerror(errno));
  p->pid = fork();
  if (p->pid == 0) {
    (void)close(ends[0]);
    run(server, p, ends[1]);
  }
  (void)close(ends[1]);
  if (p->pid < 0) {
    (void)close(ends[0]);
    p->pid = 0;
    return tvmrt__fail("OSError: fork: %s.", strerror(errno));
  }
  (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  p->news = ends[0];
  return 0;
}

int tvmrt__rpc_process_start(tvmrt_rpc_server* server, int fd, bool joined) {
  tvmrt_rpc_process* p = free_place(server);
  if (p == NULL) {
    tvmrt__socket_close(fd);
    return tvmrt__fail("all %d sessions are taken.", TVMRT_RPC_MAX_PROCESSES);
  }
  p->fd = fd;
  p->greeted = false;
  p->joined = joined;
  p->deadline = 0;
  if (server->options.session_seconds > 0) {
    p->deadline = tvmrt__seconds() + server->options.session_seconds;
  }
  if (tvmrt__rpc_folder_make(&p->folder) == 0 && start(server, p) == 0) return 0;
  if (p->folder != NULL) tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  tvmrt__socket_close(fd);
  return -1;
}

/* How a process has ended, for the log. */
static void reap(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  int status = 0;
  while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    tvmrt__rpc_server_log(server, "session %d was ended by signal %d", (int)p->pid,
                          WTERMSIG(status));
  } else if (!p->greeted && p->joined) {
    tvmrt__rpc_server_log(server, "the proxy has no client, or another server of the key");
    tvmrt__rpc_proxy_rest(&server->proxy);
  } else if (!p->greeted) {
    tvmrt__rpc_server_log(server, "a client did not tell the key");
  } else {
    tvmrt__rpc_server_log(server, "session %d has ended%s", (int)p->pid,
                          WEXITSTATUS(status) == 0 ? "" : ", without a word of its client");
  }
  tvmrt__socket_close(p->fd);
  tvmrt__socket_close(p->news);
  tvmrt__rpc_folder_remove(p->folder);
  free(p->folder);
  memset(p, 0, sizeof(*p));
}

void tvmrt__rpc_process_news(tvmrt_rpc_server* server, tvmrt_rpc_process* p) {
  news told;
  ssize_t got;
  do {
    got = read(p->news, &told, sizeof(told));
  } while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof(told)) {
    reap(server, p);
    return;
  }
  p->greeted = true;
  tvmrt__rpc_server_log(server, "session %d has begun", (int)p->pid);
  tvmrt__rpc_tracker_used(&server->tracker);
  if (told.seconds > 0) {
    const double until = tvmrt__seconds() + told.seconds;
    if (p->deadline == 0 || until < p->deadline) p->deadline = until;
  }
}

void tvmrt__rpc_process_end(tvmrt_rpc_server* server, tvmrt_rpc_process* p, const char* text) {
  tvmrt_buf packet = {NULL, 0, 0};
  tvmrt_channel ch;
  (void)kill(p->pid, SIGKILL);
  if (text != NULL && p->greeted) {
    tvmrt__socket_set_timeout(p->fd, 1);
    tvmrt__channel_over(&ch, p->fd);
    if (tvmrt__rpc_write_exception(&packet, text) == 0) {
      (void)tvmrt__channel_send(&ch, packet.data, packet.size, NULL, 0);
    }
    tvmrt__buf_free(&packet);
  }
  reap(server, p);
}
