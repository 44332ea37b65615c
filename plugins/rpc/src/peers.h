/* Connections to a server before their sessions: peers that have not sent the key, and peers that
 * wait for a free session. They have no process and no folder, and do not block each other. */
#ifndef TVMRT_PLUGINS_RPC_PEERS_H_
#define TVMRT_PLUGINS_RPC_PEERS_H_

#include <stdbool.h>
#include <stdint.h>

#include "sdk/base.h"

enum { TVMRT_RPC_MAX_PEERS = 128 };

typedef struct tvmrt_rpc_peer {
  bool used;
  bool greeted;       /* has sent the key */
  int fd;             /* owned */
  uint64_t order;     /* of arrival */
  double deadline;    /* for the whole greeting */
  double seconds;     /* session timeout requested by the client; 0: none */
  tvmrt_buf received; /* the greeting so far */
} tvmrt_rpc_peer;

typedef struct tvmrt_rpc_peers {
  tvmrt_rpc_peer all[TVMRT_RPC_MAX_PEERS];
  uint64_t arrived;
} tvmrt_rpc_peers;

/* Whether another peer fits: a slot is free, or taken by a peer that has not sent the key. */
bool tvmrt__rpc_peers_can_accept(const tvmrt_rpc_peers* peers);
/* Return a slot for a connection. If all are taken, *ousted is the oldest peer without the key,
 * which the caller drops first; otherwise NULL. */
tvmrt_rpc_peer* tvmrt__rpc_peers_slot(tvmrt_rpc_peers* peers, tvmrt_rpc_peer** evicted);
void tvmrt__rpc_peer_init(tvmrt_rpc_peers* peers, tvmrt_rpc_peer* slot, int fd, double seconds);
/* The oldest peer that has sent the key; NULL: none. */
tvmrt_rpc_peer* tvmrt__rpc_peers_next(tvmrt_rpc_peers* peers);

/* Read the available bytes of the greeting without blocking; return 0, or -1 if the peer must be
 * dropped. `expected` is the client's required key; NULL: reject every key. */
int tvmrt__rpc_peer_read(tvmrt_rpc_peer* peer, const char* expected);
/* The descriptor to poll; -1: the peer need not be polled now. */
int tvmrt__rpc_peer_fd(const tvmrt_rpc_peer* peer);
/* Close the connection and free the slot. */
void tvmrt__rpc_peer_drop(tvmrt_rpc_peer* peer);
/* Free the slot and return the connection, in blocking mode, to the caller. */
int tvmrt__rpc_peer_release(tvmrt_rpc_peer* peer);

#endif
