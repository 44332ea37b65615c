/* Connections to a server before their sessions: those that have not sent the key, and those that
 * have and wait for a session to be free. They have no process and no folder, and none of them
 * makes another one wait. */
#ifndef TVMRT_PLUGINS_RPC_PEERS_H_
#define TVMRT_PLUGINS_RPC_PEERS_H_

#include <stdbool.h>
#include <stdint.h>

#include "sdk/bytes.h"

enum { TVMRT_RPC_MAX_PEERS = 128 };

typedef struct tvmrt_rpc_peer {
  bool used;
  bool joined;     /* by a proxy, which has answered the client */
  bool greeted;    /* has sent the key */
  int fd;          /* owned */
  uint64_t order;  /* of arrival */
  double deadline; /* of the whole greeting */
  double seconds;  /* that the client asks for; 0: none */
  tvmrt_buf come;  /* the greeting so far */
} tvmrt_rpc_peer;

typedef struct tvmrt_rpc_peers {
  tvmrt_rpc_peer all[TVMRT_RPC_MAX_PEERS];
  uint64_t arrived;
} tvmrt_rpc_peers;

/* Whether another one can be taken: there is a place, or one whose owner has not sent the key. */
bool tvmrt__rpc_peers_have_room(const tvmrt_rpc_peers* peers);
/* Take a connection over. Where all places are taken, *ousted is the oldest of those without the
 * key, to be dropped first; else NULL. */
tvmrt_rpc_peer* tvmrt__rpc_peers_place(tvmrt_rpc_peers* peers, tvmrt_rpc_peer** ousted);
void tvmrt__rpc_peer_take(tvmrt_rpc_peers* peers, tvmrt_rpc_peer* place, int fd, bool joined,
                          double seconds);
/* The one that sent the key and came first; NULL: none. */
tvmrt_rpc_peer* tvmrt__rpc_peers_next(tvmrt_rpc_peers* peers);

/* What has come of its greeting, without waiting: 0, or -1 for one that must go. `expected` is the
 * key that a client must say, NULL: none would be right. */
int tvmrt__rpc_peer_read(tvmrt_rpc_peer* peer, const char* expected);
/* The descriptor to wait at; -1: nothing that it does matters now. */
int tvmrt__rpc_peer_fd(const tvmrt_rpc_peer* peer);
/* Close the connection and free the place. */
void tvmrt__rpc_peer_drop(tvmrt_rpc_peer* peer);
/* Free the place; the connection, which waits for bytes again, is the caller's. */
int tvmrt__rpc_peer_release(tvmrt_rpc_peer* peer);

#endif
