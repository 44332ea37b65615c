/* A stream of bytes to another process. */
#ifndef TVMRT_PLUGINS_RPC_CHANNEL_H_
#define TVMRT_PLUGINS_RPC_CHANNEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/sockets.h"
#include "sdk/bytes.h"

typedef struct tvmrt_channel tvmrt_channel;

/* What carries the bytes. Each returns 0, or -1 with the error text set. */
typedef struct tvmrt_channel_kind {
  /* All of `head`, then all of `tail`. */
  int (*send)(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
              size_t tail_bytes);
  /* At least 1 byte and at most `most`; *got 0 at the end of the stream. */
  int (*receive)(tvmrt_channel* ch, void* out, size_t most, size_t* got);
} tvmrt_channel_kind;

enum { TVMRT_CHANNEL_BUFFER_BYTES = 8192 };

struct tvmrt_channel {
  const tvmrt_channel_kind* kind;
  void* self;      /* of the kind */
  int fd;          /* of the kind for sockets; -1 for others */
  double deadline; /* of the kind for sockets, in seconds of the clock; 0: none */
  size_t begin, end;
  char buffer[TVMRT_CHANNEL_BUFFER_BYTES]; /* received and not read yet: begin to end */
};

void tvmrt__channel_init(tvmrt_channel* ch, const tvmrt_channel_kind* kind, void* self);

static inline int tvmrt__channel_send(tvmrt_channel* ch, const void* head, size_t head_bytes,
                                      const void* tail, size_t tail_bytes) {
  return ch->kind->send(ch, head, head_bytes, tail, tail_bytes);
}

/* Exactly `size` bytes. *ended, which may be NULL, says that the stream ended before the first of
 * them, which is no error then. */
int tvmrt__channel_read(tvmrt_channel* ch, void* out, size_t size, bool* ended);
/* Exactly `size` bytes behind those of `out`, which grows as they come. */
int tvmrt__channel_append(tvmrt_channel* ch, uint64_t size, tvmrt_buf* out);
/* Exactly `size` bytes, forgotten. */
int tvmrt__channel_skip(tvmrt_channel* ch, uint64_t size);

/* ---- sockets ---- */

/* A channel over a connected socket, on POSIX over any other descriptor of both directions, too; not
 * closed here. */
void tvmrt__channel_over(tvmrt_channel* ch, int fd);
/* All that is sent and received from now on, together, may take so many seconds, however the bytes
 * are spread over them; <= 0: no limit, neither in all nor for one call of the system. */
void tvmrt__channel_set_deadline(tvmrt_channel* ch, double seconds);
/* "host:port" into its parts; *out_host is the caller's. NULL gives NULL; `what` is for the error. */
int tvmrt__socket_place(const char* what, const char* where, char** out_host, int* out_port);
/* *out_fd is the caller's; closed by tvmrt__stream_close(). `seconds` <= 0: no limit. */
int tvmrt__socket_connect(const char* host, int port, double seconds, int* out_fd);
/* The first free port of `port` to `port_end` (not included), 0: any; *out_port is what it became. */
int tvmrt__socket_listen(const char* host, int port, int port_end, int* out_fd, int* out_port);
#endif
