/* Channels over sockets, and their error texts.
 *
 * The system-specific part is in platform/sockets.h. */
#include "channel.h"
#include "platform/sockets.h"
#include "sdk/system.h"

/* A timeout has no error text of the system. */
static int fail_io(const char* what, tvmrt_stream_rc rc, const tvmrt_why* why) {
  return tvmrt__fail("RPCError: %s: %s.", what,
                     rc == TVMRT_STREAM_TIMEOUT ? "the connection timed out" : why->text);
}

/* The system's time limit applies to each call, so a peer could extend it with single bytes. Each
 * call therefore gets the remaining time of the whole exchange. */
static tvmrt_stream_rc allow_call(const tvmrt_channel* ch) {
  const double left = ch->deadline - tvmrt__seconds();
  if (ch->deadline == 0) return TVMRT_STREAM_OK;
  if (left <= 0) return TVMRT_STREAM_TIMEOUT;
  /* 0 would mean no limit */
  tvmrt__stream_set_timeout(ch->fd, left < 1e-3 ? 1e-3 : left);
  return TVMRT_STREAM_OK;
}

/* Without a deadline, the socket's time limit is removed as well. */
void tvmrt__channel_set_deadline(tvmrt_channel* ch, double seconds) {
  ch->deadline = seconds > 0 ? tvmrt__seconds() + seconds : 0;
  if (seconds <= 0) tvmrt__stream_set_timeout(ch->fd, 0);
}

/* Send both parts with one system call if possible, so that a packet's header is not sent alone. */
static int socket_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  tvmrt_part parts[2] = {{head, head_bytes}, {tail, tail_bytes}};
  while (parts[0].size + parts[1].size != 0) {
    size_t sent = 0;
    tvmrt_why why;
    tvmrt_stream_rc rc = allow_call(ch);
    int i;
    if (rc == TVMRT_STREAM_OK) rc = tvmrt__stream_send(ch->fd, parts, &sent, &why);
    if (rc != TVMRT_STREAM_OK) return fail_io("sending to the other side", rc, &why);
    for (i = 0; i < 2; ++i) {
      const size_t part = sent < parts[i].size ? sent : parts[i].size;
      if (part == 0) continue; /* `data` may be NULL */
      parts[i].data += part;
      parts[i].size -= part;
      sent -= part;
    }
  }
  return 0;
}

/* *got is 0 at the end of the stream; the reader decides whether that is an error. */
static int socket_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  tvmrt_why why;
  tvmrt_stream_rc rc = allow_call(ch);
  if (rc == TVMRT_STREAM_OK) rc = tvmrt__stream_receive(ch->fd, out, capacity, received, &why);
  return rc == TVMRT_STREAM_OK ? 0 : fail_io("waiting for the other side", rc, &why);
}

/* The descriptor stays the caller's; the channel closes nothing. */
void tvmrt__channel_over(tvmrt_channel* ch, int fd) {
  static const tvmrt_channel_kind kind = {socket_send, socket_receive};
  tvmrt__channel_init(ch, &kind, NULL);
  ch->fd = fd;
}

/* The caller closes *out_fd; -1 on failure. `seconds` limits only connecting. */
int tvmrt__socket_connect(const char* host, int port, double seconds, int* out_fd) {
  tvmrt_why why;
  tvmrt_stream_rc rc;
  *out_fd = -1;
  if (port < 0 || port > 65535) {
    return tvmrt__fail_value("%d is not a port; ports are 0 to 65535.", port);
  }
  rc = tvmrt__stream_connect(host, port, seconds, out_fd, &why);
  if (rc == TVMRT_STREAM_OK) return 0;
  if (rc == TVMRT_STREAM_NO_ADDRESS) {
    return tvmrt__fail("RPCError: the address of %s cannot be found: %s.", host, why.text);
  }
  return tvmrt__fail("RPCError: cannot connect to %s:%d: %s.", host, port, why.text);
}
