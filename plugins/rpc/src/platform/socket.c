/* Channels over sockets of POSIX systems. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../channel.h"
#include "sdk/system.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* ---- the channel ---- */

static int fail_io(const char* what, int error) {
  const bool timeout = error == EAGAIN || error == EWOULDBLOCK;
  return tvmrt__fail("RPCError: %s: %s.", what,
                     timeout ? "the connection timed out" : strerror(error));
}

void tvmrt__socket_set_timeout(int fd, double seconds) {
  struct timeval limit;
  limit.tv_sec = tvmrt__floor_seconds(seconds);
  limit.tv_usec = tvmrt__nanoseconds(seconds) / 1000;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Send both parts with one system call if possible, so that a packet's header is not sent alone. */
static int socket_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  struct iovec parts[2] = {{(void*)(uintptr_t)head, head_bytes},
                           {(void*)(uintptr_t)tail, tail_bytes}};
  struct msghdr message;
  memset(&message, 0, sizeof(message));
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len != 0) {
    ssize_t sent = sendmsg(ch->fd, &message, MSG_NOSIGNAL);
    int i;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_io("sending to the other side", errno);
    for (i = 0; i < 2; ++i) {
      const size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
      if (part == 0) continue; /* the base may be NULL */
      parts[i].iov_base = (char*)parts[i].iov_base + part;
      parts[i].iov_len -= part;
      sent -= (ssize_t)part;
    }
  }
  return 0;
}

/* *received is 0 at the end of the stream; the reader decides whether that is an error. */
static int socket_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  ssize_t count;
  *received = 0;
  do {
    count = read(ch->fd, out, capacity);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == ECONNRESET) return 0; /* a reset counts as the end */
  if (count < 0) return fail_io("waiting for the other side", errno);
  *received = (size_t)count;
  return 0;
}

/* The descriptor stays the caller's; the channel closes nothing. */
void tvmrt__channel_over(tvmrt_channel* ch, int fd) {
  static const tvmrt_channel_kind kind = {socket_send, socket_receive};
  tvmrt__channel_init(ch, &kind, NULL);
  ch->fd = fd;
}

/* ---- connecting ---- */

/* Failed calls set -1, so callers can close unconditionally. */
void tvmrt__socket_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

/* close() would not wake up a reading thread, and the descriptor could be reused. */
void tvmrt__socket_shut_down(int fd) { (void)shutdown(fd, SHUT_RDWR); }

/* Wait for a non-blocking socket to be connected; return 0 or an error number. */
static int await_connection(int fd, double seconds) {
  struct pollfd ready = {fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  const int count = poll(&ready, 1, (int)(seconds * 1000));
  if (count == 0) return ETIMEDOUT;
  if (count < 0) return errno;
  (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/* Return 0 or an error number. The socket is non-blocking while it connects, since connect() has no
 * time limit. Packets are sent as a whole, so delaying them for more data is useless. */
static int connect_one(const struct addrinfo* where, double seconds, int* out) {
  const int on = 1;
  const int fd = socket(where->ai_family, where->ai_socktype, where->ai_protocol);
  int error = 0;
  if (fd < 0) return errno;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)fcntl(fd, F_SETFL, O_NONBLOCK);
  if (connect(fd, where->ai_addr, where->ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) error = await_connection(fd, seconds);
  if (error != 0) {
    (void)close(fd);
    return error;
  }
  (void)fcntl(fd, F_SETFL, 0);
  *out = fd;
  return 0;
}

/* Try each address of the host; the last error is reported. `seconds` limits connecting to each. */
int tvmrt__socket_connect(const char* host, int port, double seconds, int* out_fd) {
  struct addrinfo* list = NULL;
  const struct addrinfo* at;
  struct addrinfo hints;
  char service[16];
  int error;
  *out_fd = -1;
  if (port < 0 || port > 65535) {
    return tvmrt__fail_value("%d is not a port; ports are 0 to 65535.", port);
  }
  memset(&hints, 0, sizeof(hints));
  hints.ai_socktype = SOCK_STREAM; /* otherwise each address is listed once per type */
  (void)snprintf(service, sizeof(service), "%d", port);
  error = getaddrinfo(host, service, &hints, &list);
  if (error != 0) {
    return tvmrt__fail("RPCError: the address of %s cannot be found: %s.", host,
                       gai_strerror(error));
  }
  for (at = list; at != NULL && *out_fd < 0; at = at->ai_next) {
    error = connect_one(at, seconds, out_fd);
  }
  freeaddrinfo(list);
  if (*out_fd >= 0) return 0;
  return tvmrt__fail("RPCError: cannot connect to %s:%d: %s.", host, port, strerror(error));
}
