/* sockets.h: POSIX and Windows have most of it in common.
 *
 * What both systems call alike stands here; what differs is a function net_*() in posix_net.h or
 * windows_net.h. Errors are numbers of the system until they are told, as a text in `why`.
 * Descriptors are the caller's. */
#if defined(_WIN32)
#include "windows_net.h"
#else
#include "posix_net.h"
#endif

/* A time limit that has passed is no error of the connection. */
static tvmrt_stream_rc fail(int error, tvmrt_why* why) {
  if (net_is_late(error)) return TVMRT_STREAM_LATE;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}

/* Packets are sent whole: waiting for more of them only delays. A pair of POSIX is no TCP and
 * refuses the option, which changes nothing there. */
static void prepare(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (const void*)&on, sizeof(on));
  net_keep(fd);
}

/* *out is to be freed by freeaddrinfo() where this succeeds. */
static tvmrt_stream_rc resolve(const char* host, int port, int flags, struct addrinfo** out,
                               tvmrt_why* why) {
  struct addrinfo hints;
  char service[16];
  int error = net_start();
  if (error != 0) return fail(error, why);
  memset(&hints, 0, sizeof(hints));
  /* otherwise each address comes once for each kind of socket */
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  (void)snprintf(service, sizeof(service), "%d", port);
  error = getaddrinfo(host, service, &hints, out);
  if (error == 0) return TVMRT_STREAM_OK;
  net_explain_name(error, why);
  return TVMRT_STREAM_NO_ADDRESS;
}

/* 0, or the number of the error. Connecting is done by a socket that does not wait, since
 * connect() itself knows no time limit; from then on it waits, as callers that read expect. */
static int connect_one(const struct addrinfo* where, double seconds, int* out) {
  const int fd = net_open(where);
  int error;
  if (fd < 0) return net_error();
  prepare(fd);
  net_set_waiting(fd, false);
  error = net_connect(fd, where, seconds);
  if (error != 0) {
    net_close(fd);
    return error;
  }
  net_set_waiting(fd, true);
  *out = fd;
  return 0;
}

/* Every address of the name in turn; the last error is told. The limit is for each address, so a
 * name of many may take longer. */
tvmrt_stream_rc tvmrt__stream_connect(const char* host, int port, double seconds, int* out,
                                      tvmrt_why* why) {
  struct addrinfo* list = NULL;
  const struct addrinfo* at;
  tvmrt_stream_rc rc;
  int error = 0;
  *out = -1;
  rc = resolve(host, port, 0, &list, why);
  if (rc != TVMRT_STREAM_OK) return rc;
  for (at = list; at != NULL && *out < 0; at = at->ai_next) error = connect_one(at, seconds, out);
  freeaddrinfo(list);
  if (*out >= 0) return TVMRT_STREAM_OK;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}

enum { QUEUE = 128 };

/* 0, or the number of the error. Whoever listens takes
 * connections as they come; the queue is for those that come in between. */
static int listen_one(const struct addrinfo* where, int* out, int* out_port) {
  struct sockaddr_storage name;
  socklen_t size = sizeof(name);
  const int fd = net_open(where);
  if (fd < 0) return net_error();
  memset(&name, 0, sizeof(name));
  prepare(fd);
  net_prepare_listener(fd);
  net_set_waiting(fd, false); /* accept() finds nobody where a client has gone meanwhile */
  if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, QUEUE) != 0 ||
      getsockname(fd, (struct sockaddr*)&name, &size) != 0) {
    const int error = net_error();
    net_close(fd);
    return error;
  }
  *out_port = name.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6*)&name)->sin6_port)
                                         : ntohs(((struct sockaddr_in*)&name)->sin_port);
  *out = fd;
  return 0;
}

/* At the name's first address alone: a server waits at one descriptor. */
tvmrt_stream_rc tvmrt__stream_listen(const char* host, int port, int* out, int* out_port,
                                     tvmrt_why* why) {
  struct addrinfo* list = NULL;
  tvmrt_stream_rc rc;
  int error;
  *out = -1;
  rc = resolve(host, port, AI_PASSIVE, &list, why);
  if (rc != TVMRT_STREAM_OK) return rc;
  error = listen_one(list, out, out_port);
  freeaddrinfo(list);
  if (error == 0) return TVMRT_STREAM_OK;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}

/* What it failed with is not told: the client has gone, or the process has no descriptors left,
 * and the server goes on with the clients it has. */
int tvmrt__stream_accept(int listener) {
  const int fd = net_accept(listener);
  if (fd < 0) return -1;
  prepare(fd);
  net_set_waiting(fd, true); /* some systems hand the listener's mode on */
  return fd;
}

/* Neither end waits: they are for waking up and short news. */
tvmrt_stream_rc tvmrt__stream_pair(int out[2], tvmrt_why* why) {
  int error = net_start();
  int i;
  if (error == 0) error = net_pair(out);
  if (error != 0) {
    out[0] = -1;
    out[1] = -1;
    net_explain(error, why);
    return TVMRT_STREAM_FAILED;
  }
  for (i = 0; i < 2; ++i) {
    prepare(out[i]);
    net_set_waiting(out[i], false);
  }
  return TVMRT_STREAM_OK;
}

/* -1 is what failed calls leave, so that who cleans up need not ask. */
void tvmrt__stream_close(int fd) {
  if (fd >= 0) net_close(fd);
}

/* What fits: callers go on with the rest. LATE where not a byte fitted in the time of the
 * socket. */
tvmrt_stream_rc tvmrt__stream_send(int fd, const tvmrt_part parts[2], size_t* sent,
                                   tvmrt_why* why) {
  const ptrdiff_t count = net_send(fd, parts);
  if (count < 0) return fail(net_error(), why);
  *sent = (size_t)count;
  return TVMRT_STREAM_OK;
}

/* Whoever breaks off has nothing more to say: an end like any other, which callers tell in their
 * words. */
tvmrt_stream_rc tvmrt__stream_receive(int fd, void* out, size_t most, size_t* got, tvmrt_why* why) {
  const ptrdiff_t count = net_receive(fd, out, most);
  *got = 0;
  if (count < 0 && net_is_gone(net_error()))
    return TVMRT_STREAM_OK; /* without a word is gone, too */
  if (count < 0) return fail(net_error(), why);
  *got = (size_t)count;
  return TVMRT_STREAM_OK;
}

/* A new stream waits. */
void tvmrt__stream_set_waiting(int fd, bool waits) { net_set_waiting(fd, waits); }

/* The system's own limit for each call; connecting has one of its own above. */
void tvmrt__stream_set_timeout(int fd, double seconds) {
  net_set_limit(fd, SO_RCVTIMEO, seconds);
  net_set_limit(fd, SO_SNDTIMEO, seconds);
}

/* Closing would not wake a thread that reads, and its number could become another stream's. */
void tvmrt__stream_shut_down(int fd) { net_shut_down(fd); }

/* For signal handlers, too: nothing but a call of the system, and errno as it was. The other end
 * need not read each byte: one that is there wakes as well as many. */
void tvmrt__stream_wake(int fd) {
  const tvmrt_part parts[2] = {{"", 1}, {NULL, 0}};
  const int error = errno;
  (void)net_send(fd, parts); /* full: who reads knows already */
  errno = error;
}

/* A signal is no error: all is `ready` false then, and the caller looks at what its handler has
 * set. */
tvmrt_stream_rc tvmrt__streams_wait(tvmrt_stream_event* events, size_t count, int milliseconds,
                                    tvmrt_why* why) {
  const int error = net_wait(events, count, milliseconds);
  if (error == 0) return TVMRT_STREAM_OK;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}
