/* Sockets of POSIX: the one file that another system needs anew. */
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

#include "channel.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static int fail_io(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return tvmrt__fail("RPCError: %s: no byte came or went in the time that is allowed.", what);
  }
  return tvmrt__fail("RPCError: %s: %s.", what, strerror(errno));
}

/* Sends from both parts what the system takes at once. */
static ssize_t send_some(int fd, struct iovec parts[2]) {
  struct msghdr message;
  ssize_t sent;
  memset(&message, 0, sizeof(message));
  message.msg_iov = parts[0].iov_len != 0 ? parts : parts + 1;
  message.msg_iovlen = parts[0].iov_len != 0 && parts[1].iov_len != 0 ? 2 : 1;
  sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  return writev(fd, message.msg_iov, (int)message.msg_iovlen); /* a pipe */
}

static int socket_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  struct iovec parts[2] = {{(void*)(uintptr_t)head, head_bytes},
                           {(void*)(uintptr_t)tail, tail_bytes}};
  while (parts[0].iov_len + parts[1].iov_len != 0) {
    ssize_t sent = send_some(ch->fd, parts);
    int i;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_io("sending to the other side");
    for (i = 0; i < 2; ++i) {
      const size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
      if (part == 0) continue; /* of nothing, which may be NULL */
      parts[i].iov_base = (char*)parts[i].iov_base + part;
      parts[i].iov_len -= part;
      sent -= (ssize_t)part;
    }
  }
  return 0;
}

static int socket_receive(tvmrt_channel* ch, void* out, size_t most, size_t* got) {
  ssize_t count;
  do {
    count = read(ch->fd, out, most);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == ECONNRESET) count = 0; /* gone without a word is gone, too */
  if (count < 0) return fail_io("waiting for the other side");
  *got = (size_t)count;
  return 0;
}

void tvmrt__channel_over(tvmrt_channel* ch, int fd) {
  static const tvmrt_channel_kind kind = {socket_send, socket_receive};
  tvmrt__channel_init(ch, &kind, NULL);
  ch->fd = fd;
}

/* Packets are sent whole: waiting for more of them only delays. */
static void prepare(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void tvmrt__socket_set_timeout(int fd, double seconds) {
  struct timeval limit;
  limit.tv_sec = (time_t)seconds;
  limit.tv_usec = (suseconds_t)((seconds - (double)limit.tv_sec) * 1e6);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int resolve(const char* host, int port, int flags, struct addrinfo** out) {
  struct addrinfo hints;
  char service[16];
  int rc;
  memset(&hints, 0, sizeof(hints));
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  (void)snprintf(service, sizeof(service), "%d", port);
  if (port < 0 || port > 65535) return tvmrt__fail_value("%d is no port: 0 to 65535 are.", port);
  rc = getaddrinfo(host, service, &hints, out);
  if (rc == 0) return 0;
  return tvmrt__fail("RPCError: the address of %s cannot be found: %s.", host, gai_strerror(rc));
}

/* 0, or the number of the error. */
static int connect_one(const struct addrinfo* where, double seconds, int* out_fd) {
  struct pollfd ready;
  int error = 0;
  socklen_t size = sizeof(error);
  const int fd = socket(where->ai_family, where->ai_socktype, where->ai_protocol);
  if (fd < 0) return errno;
  prepare(fd);
  (void)fcntl(fd, F_SETFL, O_NONBLOCK);
  ready.fd = fd;
  ready.events = POLLOUT;
  if (connect(fd, where->ai_addr, where->ai_addrlen) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      const int count = poll(&ready, 1, seconds <= 0 ? -1 : (int)(seconds * 1000));
      error = count == 0 ? ETIMEDOUT : errno;
      if (count > 0) (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    (void)close(fd);
    return error;
  }
  (void)fcntl(fd, F_SETFL, 0);
  *out_fd = fd;
  return 0;
}

int tvmrt__socket_connect(const char* host, int port, double seconds, int* out_fd) {
  struct addrinfo* list = NULL;
  const struct addrinfo* at;
  int error = 0;
  *out_fd = -1;
  TVMRT_RETURN_IF_ERROR(resolve(host, port, 0, &list));
  for (at = list; at != NULL && *out_fd < 0; at = at->ai_next) {
    error = connect_one(at, seconds, out_fd);
  }
  freeaddrinfo(list);
  if (*out_fd >= 0) return 0;
  return tvmrt__fail("RPCError: cannot connect to %s:%d: %s.", host, port, strerror(error));
}

static int listen_one(const struct addrinfo* where, int* out_port) {
  const int on = 1;
  struct sockaddr_storage name;
  socklen_t size = sizeof(name);
  const int fd = socket(where->ai_family, where->ai_socktype, where->ai_protocol);
  if (fd < 0) return -1;
  memset(&name, 0, sizeof(name));
  prepare(fd);
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  (void)fcntl(fd, F_SETFL,
              O_NONBLOCK); /* accept() finds nobody where a client has gone meanwhile */
  if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, 16) != 0 ||
      getsockname(fd, (struct sockaddr*)&name, &size) != 0) {
    (void)close(fd);
    return -1;
  }
  *out_port = name.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6*)&name)->sin6_port)
                                         : ntohs(((struct sockaddr_in*)&name)->sin_port);
  return fd;
}

int tvmrt__socket_listen(const char* host, int port, int port_end, int* out_fd, int* out_port) {
  const int first = port;
  *out_fd = -1;
  do {
    struct addrinfo* list = NULL;
    TVMRT_RETURN_IF_ERROR(resolve(host, port, AI_PASSIVE, &list));
    *out_fd = listen_one(list, out_port);
    freeaddrinfo(list);
    if (*out_fd >= 0) return 0;
  } while (++port < port_end);
  if (port_end <= first + 1) {
    return tvmrt__fail("RPCError: cannot listen at %s:%d: %s.", host, first, strerror(errno));
  }
  return tvmrt__fail("RPCError: cannot listen at any port of %s from %d to %d: %s.", host, first,
                     port_end - 1, strerror(errno));
}

int tvmrt__socket_accept(int fd) {
  const int got = accept(fd, NULL, NULL);
  if (got < 0) return -1;
  prepare(got);
  (void)fcntl(got, F_SETFL, 0); /* some systems hand the listener's mode on */
  return got;
}

void tvmrt__socket_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

void tvmrt__socket_shut_down(int fd) { (void)shutdown(fd, SHUT_RDWR); }
