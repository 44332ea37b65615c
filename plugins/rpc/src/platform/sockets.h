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
/* Listen at one port; 0: any. *out_port is the port. */
tvmrt_stream_rc tvmrt__stream_listen(const char* host, int port, int* out, int* out_port,
                                     tvmrt_why* why);
/* Return -1 if the client has disconnected. */
int tvmrt__stream_accept(int listener);
/* Make two connected non-blocking ends. */
tvmrt_stream_rc tvmrt__stream_pair(int out[2], tvmrt_why* why);
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

/* Set blocking mode; non-blocking calls return TVMRT_STREAM_TIMEOUT if nothing can be transferred. */
void tvmrt__stream_set_blocking(int fd, bool blocking);
/* Time limit for each call in both directions; 0: none. */
void tvmrt__stream_set_timeout(int fd, double seconds);
/* Shut down both directions, which wakes up blocked threads. */
void tvmrt__stream_shut_down(int fd);
/* Send one byte, unless the stream is full. Safe in signal handlers; keeps errno. */
void tvmrt__stream_wake(int fd);

/* Wait for data, for `milliseconds` (-1: no limit) or for a signal; `ready` marks the streams with
 * data. Entries of -1 are skipped. At most TVMRT_STREAMS_MAX entries. */
enum { TVMRT_STREAMS_MAX = 256 };
typedef struct tvmrt_stream_event {
  int fd;
  bool ready;
} tvmrt_stream_event;
tvmrt_stream_rc tvmrt__streams_wait(tvmrt_stream_event* events, size_t count, int milliseconds,
                                    tvmrt_why* why);

#endif
