/* Channels over sockets of POSIX systems. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../channel.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static int send_all(int fd, const char* data, size_t bytes) {
  while (bytes != 0) {
    const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      return tvmrt__fail("RPCError: sending to the other side: %s.", strerror(errno));
    }
    data += sent;
    bytes -= (size_t)sent;
  }
  return 0;
}

static int socket_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  TVMRT_RETURN_IF_ERROR(send_all(ch->fd, head, head_bytes));
  return send_all(ch->fd, tail, tail_bytes);
}

/* *received is 0 at the end of the stream; the reader decides whether that is an error. */
static int socket_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  ssize_t count;
  *received = 0;
  do {
    count = read(ch->fd, out, capacity);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == ECONNRESET) return 0; /* a reset counts as the end */
  if (count < 0) {
    return tvmrt__fail("RPCError: waiting for the other side: %s.", strerror(errno));
  }
  *received = (size_t)count;
  return 0;
}

/* The descriptor stays the caller's; the channel closes nothing. */
void tvmrt__channel_over(tvmrt_channel* ch, int fd) {
  static const tvmrt_channel_kind kind = {socket_send, socket_receive};
  tvmrt__channel_init(ch, &kind, NULL);
  ch->fd = fd;
}

/* Sessions over functions have -1. */
void tvmrt__socket_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

/* close() would not wake up a reading thread, and the descriptor could be reused. */
void tvmrt__socket_shut_down(int fd) { (void)shutdown(fd, SHUT_RDWR); }
