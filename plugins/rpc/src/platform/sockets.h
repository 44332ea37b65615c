/* Byte streams between processes: TCP, and local pairs. A stream is a small number: a descriptor on
 * POSIX, a socket handle on Windows. No call raises a signal. */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_SOCKETS_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_SOCKETS_H_

#include <stdbool.h>
#include <stddef.h>

/* Error text of the system, without a full stop. */
typedef struct tvmrt_why {
  char text[200];
} tvmrt_why;

typedef enum {
  TVMRT_STREAM_OK,
  TVMRT_STREAM_FAILED,    /* see tvmrt_why */
  TVMRT_STREAM_TIMEOUT,   /* no byte was transferred within the time limit */
  TVMRT_STREAM_NO_ADDRESS /* the host name has no address; see tvmrt_why */
} tvmrt_stream_rc;

/* *out is the caller's; close it with tvmrt__stream_close(). -1 on failure. `seconds` <= 0: no
 * limit. */
tvmrt_stream_rc tvmrt__stream_connect(const char* host, int port, double seconds, int* out,
                                      tvmrt_why* why);
void tvmrt__stream_close(int fd); /* -1 does nothing */

/* Send a part of the two buffers, in order; on POSIX also to pipes and files. */
typedef struct tvmrt_part {
  const char* data;
  size_t size;
} tvmrt_part;
tvmrt_stream_rc tvmrt__stream_send(int fd, const tvmrt_part parts[2], size_t* sent, tvmrt_why* why);
/* Receive 1 to `capacity` bytes; *got is 0 at the end, also if the peer reset the connection. */
tvmrt_stream_rc tvmrt__stream_receive(int fd, void* out, size_t capacity, size_t* received,
                                      tvmrt_why* why);

/* Time limit for each call in both directions; 0: none. */
void tvmrt__stream_set_timeout(int fd, double seconds);
/* Shut down both directions, which wakes up blocked threads. */
void tvmrt__stream_shut_down(int fd);
#endif
