/* Greetings, read incrementally by the server's loop.
 *
 * A peer without the key costs a descriptor and at most a few kilobytes, for at most greet_seconds,
 * at any pace of its bytes. If all slots are taken, the oldest peer without the key is dropped:
 * clients send the key with their first packet, so this peer is not waiting for a session. */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "platform/sockets.h"
#include "sdk/system.h"

/* The oldest peer that has sent the key, or has not; NULL: none. */
static tvmrt_rpc_peer* find_oldest(tvmrt_rpc_peers* peers, bool greeted) {
  tvmrt_rpc_peer* found = NULL;
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    tvmrt_rpc_peer* p = &peers->all[i];
    if (!p->used || p->greeted != greeted) continue;
    if (found == NULL || p->order < found->order) found = p;
  }
  return found;
}

bool tvmrt__rpc_peers_can_accept(const tvmrt_rpc_peers* peers) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (!peers->all[i].used || !peers->all[i].greeted) return true;
  }
  return false;
}

/* Must only be called if tvmrt__rpc_peers_can_accept(). */
tvmrt_rpc_peer* tvmrt__rpc_peers_slot(tvmrt_rpc_peers* peers, tvmrt_rpc_peer** evicted) {
  int i;
  *evicted = NULL;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (!peers->all[i].used) return &peers->all[i];
  }
  *evicted = find_oldest(peers, false);
  return *evicted;
}

void tvmrt__rpc_peer_init(tvmrt_rpc_peers* peers, tvmrt_rpc_peer* slot, int fd, double seconds) {
  memset(slot, 0, sizeof(*slot));
  slot->used = true;
  slot->fd = fd;
  slot->order = peers->arrived++;
  slot->deadline = tvmrt__seconds() + seconds;
  tvmrt__stream_set_blocking(fd, false);
}

/* In order of arrival, as in the system's queue. */
tvmrt_rpc_peer* tvmrt__rpc_peers_next(tvmrt_rpc_peers* peers) { return find_oldest(peers, true); }

/* Compare the key. A client with a wrong key gets an answer; its greeting has been read completely
 * by then, so closing the connection does not discard the answer. */
static int check_key(tvmrt_rpc_peer* p, const char* expected) {
  tvmrt_channel ch;
  p->greeted = expected != NULL && tvmrt__rpc_greeting_matches(&p->received, expected, &p->seconds);
  if (p->greeted) return 0;
  tvmrt__channel_over(&ch, p->fd);
  (void)tvmrt__rpc_refuse(&ch);
  return -1;
}

/* Read no more than the greeting, since the following bytes belong to the session. A client that
 * disconnects or sends more before it is answered is dropped. */
int tvmrt__rpc_peer_read(tvmrt_rpc_peer* p, const char* expected) {
  size_t missing = 0;
  if (p->greeted) return -1;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_greeting_missing_bytes(&p->received, &missing));
  while (missing != 0) {
    char part[512];
    size_t got = 0;
    tvmrt_why why;
    const tvmrt_stream_rc rc = tvmrt__stream_receive(
        p->fd, part, missing < sizeof(part) ? missing : sizeof(part), &got, &why);
    if (rc == TVMRT_STREAM_TIMEOUT) return 0;
    if (rc != TVMRT_STREAM_OK || got == 0) return -1;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&p->received, part, got));
    TVMRT_RETURN_IF_ERROR(tvmrt__rpc_greeting_missing_bytes(&p->received, &missing));
  }
  return check_key(p, expected);
}

int tvmrt__rpc_peer_fd(const tvmrt_rpc_peer* p) { return p->used ? p->fd : -1; }

int tvmrt__rpc_peer_release(tvmrt_rpc_peer* p) {
  const int fd = p->fd;
  tvmrt__buf_free(&p->received);
  memset(p, 0, sizeof(*p));
  tvmrt__stream_set_blocking(fd, true);
  return fd;
}

void tvmrt__rpc_peer_drop(tvmrt_rpc_peer* p) { tvmrt__stream_close(tvmrt__rpc_peer_release(p)); }
