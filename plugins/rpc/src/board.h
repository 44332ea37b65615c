/* The line to a board: packets in frames with a checksum, sent again when they are lost. */
#ifndef TVMRT_PLUGINS_RPC_BOARD_H_
#define TVMRT_PLUGINS_RPC_BOARD_H_

#include "channel.h"

typedef struct tvmrt_board tvmrt_board;

/* What carries the bytes, and for how long in seconds to wait. */
typedef struct tvmrt_board_options {
  const char* name;       /* for errors; copied */
  TVMFunctionHandle send; /* (bytes, microseconds or nothing); borrowed until the line is closed */
  TVMFunctionHandle receive; /* (most bytes, microseconds or nothing) -> bytes, none if none came */
  TVMFunctionHandle close;   /* (); may be NULL */
  double retry;              /* without an answer before something is sent again */
  double start;              /* before a board is given up that does not begin a session */
  double answer; /* before a session is given up; a call that runs may take 60 times that */
} tvmrt_board_options;

/* Begin a session with the board, with its first packet, kInitServer; *out is owned, by
 * tvmrt__board_free(). The functions are retained. */
int tvmrt__board_open(const tvmrt_board_options* options, tvmrt_board** out);
/* A channel of packets: each send is a whole one. Borrows the board. */
void tvmrt__board_channel(tvmrt_board* board, tvmrt_channel* out);
/* Calls the function that closes the line. NULL does nothing. */
void tvmrt__board_free(tvmrt_board* board);

#endif
