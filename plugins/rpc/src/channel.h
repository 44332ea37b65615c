/* Byte stream to another process: a socket, or a pair of functions of a frontend. */
#ifndef TVMRT_PLUGINS_RPC_CHANNEL_H_
#define TVMRT_PLUGINS_RPC_CHANNEL_H_

#include <stdbool.h>

#include "wire.h"

/* Used by one thread at a time; owns nothing. */
typedef struct tvmrt_channel {
  int fd;                    /* a connected socket; -1: functions */
  TVMFunctionHandle send;    /* (bytes of a packet); NULL: the socket */
  TVMFunctionHandle receive; /* (maximum number of bytes) -> bytes */
} tvmrt_channel;

/* Each function returns 0, or -1 with the error text set. */

/* Send a packet with its tail. */
int tvmrt__channel_send(const tvmrt_channel* ch, const remote_writer* packet);
/* Read exactly `size` bytes. *ended, if not NULL, reports that the stream ended before the first
 * byte; this is not an error then. */
int tvmrt__channel_read(const tvmrt_channel* ch, void* out, size_t size, bool* ended);
/* Append exactly `size` bytes to `out`, which grows as they arrive. */
int tvmrt__channel_append(const tvmrt_channel* ch, uint64_t size, tvmrt_buf* out);

/* ---- sockets ---- */

int tvmrt__socket_send(int fd, const void* data, size_t bytes);
/* Receive 1 to `capacity` bytes; *received is 0 at the end of the stream. */
int tvmrt__socket_receive(int fd, void* out, size_t capacity, size_t* received);
void tvmrt__socket_close(int fd); /* -1 does nothing */
/* Shut down both directions, which wakes up blocked threads; -1 does nothing. */
void tvmrt__socket_shut_down(int fd);

#endif
