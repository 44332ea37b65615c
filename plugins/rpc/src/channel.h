/* Byte stream to another process. */
#ifndef TVMRT_PLUGINS_RPC_CHANNEL_H_
#define TVMRT_PLUGINS_RPC_CHANNEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#include "sdk/base.h"

typedef struct tvmrt_channel tvmrt_channel;

/* Transport of a channel. Each function returns 0, or -1 with the error text set. */
typedef struct tvmrt_channel_kind {
  /* Send all of `head`, then all of `tail`. */
  int (*send)(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
              size_t tail_bytes);
  /* Receive 1 to `capacity` bytes; *got is 0 at the end of the stream. */
  int (*receive)(tvmrt_channel* ch, void* out, size_t capacity, size_t* received);
} tvmrt_channel_kind;

struct tvmrt_channel {
  const tvmrt_channel_kind* kind;
  void* self; /* state of the kind */
  int fd;     /* used by sockets; -1 for other kinds */
};

void tvmrt__channel_init(tvmrt_channel* ch, const tvmrt_channel_kind* kind, void* self);

static inline int tvmrt__channel_send(tvmrt_channel* ch, const void* head, size_t head_bytes,
                                      const void* tail, size_t tail_bytes) {
  return ch->kind->send(ch, head, head_bytes, tail, tail_bytes);
}

/* Read exactly `size` bytes. *ended, if not NULL, reports that the stream ended before the first
 * byte; this is not an error then. */
int tvmrt__channel_read(tvmrt_channel* ch, void* out, size_t size, bool* ended);
/* Append exactly `size` bytes to `out`, which grows as they arrive. */
int tvmrt__channel_append(tvmrt_channel* ch, uint64_t size, tvmrt_buf* out);

/* Functions of a frontend as a transport. */
typedef struct tvmrt_channel_functions {
  TVMFunctionHandle send;    /* (bytes of a packet) */
  TVMFunctionHandle receive; /* (maximum number of bytes) -> bytes */
} tvmrt_channel_functions;

/* Make a channel over functions, whose struct the channel borrows. */
void tvmrt__channel_over_functions(tvmrt_channel* ch, tvmrt_channel_functions* functions);

/* ---- sockets ---- */

/* Make a channel over a connected socket, which the channel does not close. */
void tvmrt__channel_over(tvmrt_channel* ch, int fd);
void tvmrt__socket_close(int fd); /* -1 does nothing */
/* Shut down both directions, which wakes up blocked threads. */
void tvmrt__socket_shut_down(int fd);

#endif
