/* Line to a board: packets in frames with a checksum. */
#ifndef TVMRT_PLUGINS_RPC_BOARD_H_
#define TVMRT_PLUGINS_RPC_BOARD_H_

#include "channel.h"

typedef struct tvmrt_board tvmrt_board;

/* Transport functions, and time limits in seconds. */
typedef struct tvmrt_board_options {
  const char* name;          /* for error texts; copied */
  TVMFunctionHandle send;    /* (bytes, microseconds or None); borrowed until the line is closed */
  TVMFunctionHandle receive; /* (max bytes, microseconds or None) -> bytes, empty on timeout */
  TVMFunctionHandle close;   /* (); may be NULL */
  double retry;              /* until the session is requested again */
  double start;              /* for the board to begin a session */
  double answer;             /* for an answer; a call may take 60 times as long */
} tvmrt_board_options;

/* Begin a session with the board, including its first packet, kInitServer. *out is owned; free it
 * with tvmrt__board_free(). The functions are retained. */
int tvmrt__board_open(const tvmrt_board_options* options, tvmrt_board** out);
/* Make a channel of packets: each send is one complete packet. Borrows the board. */
void tvmrt__board_channel(tvmrt_board* board, tvmrt_channel* out);
/* Close the line and free the board. NULL does nothing. */
void tvmrt__board_free(tvmrt_board* board);

#endif
