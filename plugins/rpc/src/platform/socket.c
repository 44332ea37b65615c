/* Sockets of POSIX systems. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../channel.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* In as many parts as the system takes. */
int tvmrt__socket_send(int fd, const void* data, size_t bytes) {
  const char* at = data;
  while (bytes != 0) {
    const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      return tvmrt__fail("RPCError: sending to the other side: %s.", strerror(errno));
    }
    at += sent;
    bytes -= (size_t)sent;
  }
  return 0;
}

/* The reader decides whether the end of the stream is an error. */
int tvmrt__socket_receive(int fd, void* out, size_t capacity, size_t* received) {
  ssize_t count;
  *received = 0;
  do {
    count = read(fd, out, capacity);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == ECONNRESET) return 0; /* a reset counts as the end */
  if (count < 0) {
    return tvmrt__fail("RPCError: waiting for the other side: %s.", strerror(errno));
  }
  *received = (size_t)count;
  return 0;
}

/* Sessions over functions have -1. */
void tvmrt__socket_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

/* close() would not wake up a reading thread, and the descriptor could be reused. */
void tvmrt__socket_shut_down(int fd) {
  if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
}
