/* POSIX functions for tcp.c. */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_POSIX_NET_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_POSIX_NET_H_

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sdk/system.h"
#include "sockets.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static inline int net_start(void) { return 0; }
static inline int net_error(void) { return errno; }
static inline bool net_is_timeout(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
static inline bool net_is_disconnected(int error) { return error == ECONNRESET; }
static inline void net_close(int fd) { (void)close(fd); }
static inline void net_shut_down(int fd) { (void)shutdown(fd, SHUT_RDWR); }
static inline int net_open(const struct addrinfo* a) {
  return socket(a->ai_family, a->ai_socktype, a->ai_protocol);
}

static inline void net_explain(int error, tvmrt_why* why) {
  (void)snprintf(why->text, sizeof(why->text), "%s", strerror(error));
}

static inline void net_explain_name(int error, tvmrt_why* why) {
  (void)snprintf(why->text, sizeof(why->text), "%s", gai_strerror(error));
}

/* Not inherited by programs that this one starts. */
static inline void net_close_on_exec(int fd) { (void)fcntl(fd, F_SETFD, FD_CLOEXEC); }

static inline void net_set_blocking(int fd, bool blocking) {
  (void)fcntl(fd, F_SETFL, blocking ? 0 : O_NONBLOCK);
}

static inline void net_set_limit(int fd, int direction, double seconds) {
  struct timeval limit;
  limit.tv_sec = tvmrt__floor_seconds(seconds);
  limit.tv_usec = tvmrt__nanoseconds(seconds) / 1000;
  (void)setsockopt(fd, SOL_SOCKET, direction, &limit, sizeof(limit));
}

static inline int net_milliseconds(double seconds) {
  return seconds < 2e6 ? (int)(seconds * 1000) : 2000000000;
}

/* Connect a non-blocking socket; return 0 or an error number. */
static inline int net_connect(int fd, const struct addrinfo* where, double seconds) {
  struct pollfd ready = {fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  int count;
  if (connect(fd, where->ai_addr, where->ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  count = poll(&ready, 1, seconds <= 0 ? -1 : net_milliseconds(seconds));
  if (count == 0) return ETIMEDOUT;
  if (count < 0) return errno;
  (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/* Return the number of bytes; -1: error. */
static inline ptrdiff_t net_send(int fd, const tvmrt_part parts[2]) {
  struct iovec rows[2];
  struct msghdr message;
  ssize_t sent;
  size_t count = 0;
  int i;
  for (i = 0; i < 2; ++i) {
    if (parts[i].size == 0) continue;
    rows[count].iov_base = (void*)(uintptr_t)parts[i].data;
    rows[count++].iov_len = parts[i].size;
  }
  memset(&message, 0, sizeof(message));
  message.msg_iov = rows;
  message.msg_iovlen = count;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = writev(fd, rows, (int)count); /* a pipe */
  } while (sent < 0 && errno == EINTR);
  return sent;
}

static inline ptrdiff_t net_receive(int fd, void* out, size_t capacity) {
  ssize_t count;
  do {
    count = read(fd, out, capacity);
  } while (count < 0 && errno == EINTR);
  return count;
}

#endif
