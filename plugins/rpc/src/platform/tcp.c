/* Implementation of sockets.h for POSIX and Windows.
 *
 * Functions that differ between the systems are named net_*(), in posix_net.h or windows_net.h.
 * Errors are system error numbers until they are converted to a text in `why`. Descriptors are the
 * caller's. */
#if defined(_WIN32)
#include "windows_net.h"
#else
#include "posix_net.h"
#endif

/* A time limit is not reported as a connection error. */
static tvmrt_stream_rc fail(int error, tvmrt_why* why) {
  if (net_is_timeout(error)) return TVMRT_STREAM_TIMEOUT;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}

/* Packets are sent as a whole, so delaying them for more data is useless. A POSIX pair is not TCP
 * and rejects the option, which is harmless. */
static void prepare(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (const void*)&on, sizeof(on));
  net_close_on_exec(fd);
}

/* On success the caller frees *out with freeaddrinfo(). */
static tvmrt_stream_rc resolve(const char* host, int port, int flags, struct addrinfo** out,
                               tvmrt_why* why) {
  struct addrinfo hints;
  char service[16];
  int error = net_start();
  if (error != 0) return fail(error, why);
  memset(&hints, 0, sizeof(hints));
  /* otherwise each address is listed once per socket type */
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  (void)snprintf(service, sizeof(service), "%d", port);
  error = getaddrinfo(host, service, &hints, out);
  if (error == 0) return TVMRT_STREAM_OK;
  net_explain_name(error, why);
  return TVMRT_STREAM_NO_ADDRESS;
}

/* Return 0 or an error number. The socket is non-blocking while it connects, since connect() has no
 * time limit, and blocking afterwards. */
static int connect_one(const struct addrinfo* where, double seconds, int* out) {
  const int fd = net_open(where);
  int error;
  if (fd < 0) return net_error();
  prepare(fd);
  net_set_blocking(fd, false);
  error = net_connect(fd, where, seconds);
  if (error != 0) {
    net_close(fd);
    return error;
  }
  net_set_blocking(fd, true);
  *out = fd;
  return 0;
}

/* Try each address of the host; the last error is reported. The time limit applies to each
 * address. */
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

/* Return 0 or an error number. The queue holds connections that arrive between two accept()
 * calls. */
static int listen_one(const struct addrinfo* where, int* out, int* out_port) {
  struct sockaddr_storage name;
  socklen_t size = sizeof(name);
  const int fd = net_open(where);
  if (fd < 0) return net_error();
  memset(&name, 0, sizeof(name));
  prepare(fd);
  net_prepare_listener(fd);
  net_set_blocking(fd,
                   false); /* accept() must not block if the client has disconnected meanwhile */
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

/* Listen at the host's first address only, since a server polls one descriptor. */
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

/* Errors are not reported: the client has disconnected, or the process has no free descriptors, and
 * the server continues with its other clients. */
int tvmrt__stream_accept(int listener) {
  const int fd = net_accept(listener);
  if (fd < 0) return -1;
  prepare(fd);
  net_set_blocking(fd, true); /* some systems inherit the listener's mode */
  return fd;
}

/* Both ends are non-blocking: they carry wake-ups and short messages. */
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
    net_set_blocking(out[i], false);
  }
  return TVMRT_STREAM_OK;
}

/* Failed calls set -1, so callers can close unconditionally. */
void tvmrt__stream_close(int fd) {
  if (fd >= 0) net_close(fd);
}

/* Sends as many bytes as fit; the caller sends the remainder. TVMRT_STREAM_TIMEOUT if no byte
 * was sent within the time limit. */
tvmrt_stream_rc tvmrt__stream_send(int fd, const tvmrt_part parts[2], size_t* sent,
                                   tvmrt_why* why) {
  const ptrdiff_t count = net_send(fd, parts);
  if (count < 0) return fail(net_error(), why);
  *sent = (size_t)count;
  return TVMRT_STREAM_OK;
}

/* A connection reset is an end of the stream like any other, which the callers report. */
tvmrt_stream_rc tvmrt__stream_receive(int fd, void* out, size_t capacity, size_t* received,
                                      tvmrt_why* why) {
  const ptrdiff_t count = net_receive(fd, out, capacity);
  *received = 0;
  if (count < 0 && net_is_disconnected(net_error()))
    return TVMRT_STREAM_OK; /* a reset counts as the end */
  if (count < 0) return fail(net_error(), why);
  *received = (size_t)count;
  return TVMRT_STREAM_OK;
}

/* New streams are blocking. */
void tvmrt__stream_set_blocking(int fd, bool blocking) { net_set_blocking(fd, blocking); }

/* Time limit of each system call; connecting has its own limit above. */
void tvmrt__stream_set_timeout(int fd, double seconds) {
  net_set_limit(fd, SO_RCVTIMEO, seconds);
  net_set_limit(fd, SO_SNDTIMEO, seconds);
}

/* close() would not wake up a reading thread, and the descriptor could be reused. */
void tvmrt__stream_shut_down(int fd) { net_shut_down(fd); }

/* Safe in signal handlers: one system call, and errno is restored. The reader need not read each
 * byte. */
void tvmrt__stream_wake(int fd) {
  const tvmrt_part parts[2] = {{"", 1}, {NULL, 0}};
  const int error = errno;
  (void)net_send(fd, parts); /* if it is full, the reader has a wake-up already */
  errno = error;
}

/* A signal is not an error: no entry is `ready`, and the caller checks its handler's flags. */
tvmrt_stream_rc tvmrt__streams_wait(tvmrt_stream_event* events, size_t count, int milliseconds,
                                    tvmrt_why* why) {
  const int error = net_wait(events, count, milliseconds);
  if (error == 0) return TVMRT_STREAM_OK;
  net_explain(error, why);
  return TVMRT_STREAM_FAILED;
}
