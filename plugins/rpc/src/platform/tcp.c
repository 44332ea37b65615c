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

/* Time limit of each system call; connecting has its own limit above. */
void tvmrt__stream_set_timeout(int fd, double seconds) {
  net_set_limit(fd, SO_RCVTIMEO, seconds);
  net_set_limit(fd, SO_SNDTIMEO, seconds);
}

/* close() would not wake up a reading thread, and the descriptor could be reused. */
void tvmrt__stream_shut_down(int fd) { net_shut_down(fd); }
