/* Streams of bytes between processes: TCP, and pairs within a machine. A stream is a number, a
 * descriptor on POSIX, on Windows a socket, whose handles are small numbers as well. No call ends the
 * process by a signal. */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_SOCKETS_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_SOCKETS_H_

#include <stdbool.h>
#include <stddef.h>

/* What went wrong, in the system's words, without a full stop. */
typedef struct tvmrt_why {
  char text[200];
} tvmrt_why;

typedef enum {
  TVMRT_STREAM_OK,
  TVMRT_STREAM_FAILED,    /* see tvmrt_why */
  TVMRT_STREAM_LATE,      /* no byte came or went in the time that is allowed */
  TVMRT_STREAM_NO_ADDRESS /* the host's name has none; see tvmrt_why */
} tvmrt_stream_rc;

/* *out is the caller's, by tvmrt__stream_close(); -1 on failure. `seconds` <= 0: no limit. */
tvmrt_stream_rc tvmrt__stream_connect(const char* host, int port, double seconds, int* out,
                                      tvmrt_why* why);
/* One port; 0: any. *out_port is what it became. */
tvmrt_stream_rc tvmrt__stream_listen(const char* host, int port, int* out, int* out_port,
                                     tvmrt_why* why);
/* -1 if nobody is there any more. */
int tvmrt__stream_accept(int listener);
/* Two ends that reading does not wait at: what is written into one is read from the other. */
tvmrt_stream_rc tvmrt__stream_pair(int out[2], tvmrt_why* why);
void tvmrt__stream_close(int fd); /* nothing to -1 */

/* Some of both parts, the second one behind the first; on POSIX into pipes and files, too. */
typedef struct tvmrt_part {
  const char* data;
  size_t size;
} tvmrt_part;
tvmrt_stream_rc tvmrt__stream_send(int fd, const tvmrt_part parts[2], size_t* sent, tvmrt_why* why);
/* At least 1 byte and at most `most`; *got 0 at the end, also where the other side broke off. */
tvmrt_stream_rc tvmrt__stream_receive(int fd, void* out, size_t most, size_t* got, tvmrt_why* why);

/* Whether sending and receiving wait, or are late at once where nothing can go or has come. */
void tvmrt__stream_set_waiting(int fd, bool waits);
/* Both directions are late after so many seconds without a byte; 0: never. */
void tvmrt__stream_set_timeout(int fd, double seconds);
/* Ends both directions, so that whoever waits for bytes wakes up. */
void tvmrt__stream_shut_down(int fd);
/* One byte, unless it is full; also in handlers of signals, which see no other errno. */
void tvmrt__stream_wake(int fd);

/* Wait until something comes, or `milliseconds` are over (-1: no limit), or a signal comes: `ready`
 * says where. Entries of -1 are left out. At most TVMRT_STREAMS_MOST. */
enum { TVMRT_STREAMS_MOST = 256 };
typedef struct tvmrt_stream_event {
  int fd;
  bool ready;
} tvmrt_stream_event;
tvmrt_stream_rc tvmrt__streams_wait(tvmrt_stream_event* events, size_t count, int milliseconds,
                                    tvmrt_why* why);

#endif
