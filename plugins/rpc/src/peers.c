/* Greetings, read by the server's loop as their bytes come.
 *
 * A peer without the key costs a descriptor and at most some kilobytes, for greet_seconds in all,
 * whatever the pace of its bytes. Where all places are taken, the oldest of those without the key
 * goes: a client sends its key with its first packet, so it is one that waits for nothing. */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

#include "handshake.h"
#include "platform/sockets.h"
#include "sdk/system.h"

/* The oldest of those that have sent the key, or have not; NULL: none. */
static tvmrt_rpc_peer* oldest(tvmrt_rpc_peers* peers, bool greeted) {
  tvmrt_rpc_peer* found = NULL;
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    tvmrt_rpc_peer* p = &peers->all[i];
    if (!p->used || p->greeted != greeted) continue;
    if (found == NULL || p->order < found->order) found = p;
  }
  return found;
}

bool tvmrt__rpc_peers_have_room(const tvmrt_rpc_peers* peers) {
  int i;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (!peers->all[i].used || !peers->all[i].greeted) return true;
  }
  return false;
}

/* Called where there is room. */
tvmrt_rpc_peer* tvmrt__rpc_peers_place(tvmrt_rpc_peers* peers, tvmrt_rpc_peer** ousted) {
  int i;
  *ousted = NULL;
  for (i = 0; i < TVMRT_RPC_MAX_PEERS; ++i) {
    if (!peers->all[i].used) return &peers->all[i];
  }
  *ousted = oldest(peers, false);
  return *ousted;
}

void tvmrt__rpc_peer_take(tvmrt_rpc_peers* peers, tvmrt_rpc_peer* place, int fd, bool joined,
                          double seconds) {
  memset(place, 0, sizeof(*place));
  place->used = true;
  place->fd = fd;
  place->joined = joined;
  place->order = peers->arrived++;
  place->deadline = tvmrt__seconds() + seconds;
  tvmrt__stream_set_waiting(fd, false);
}

/* In the order of their arrival, as the system's queue would have them. */
tvmrt_rpc_peer* tvmrt__rpc_peers_next(tvmrt_rpc_peers* peers) { return oldest(peers, true); }

/* A client with another key gets an answer that says so. What it has sent is read to its end by then, so that closing
 * does not take the answer back. */
static int judge(tvmrt_rpc_peer* p, const char* expected) {
  tvmrt_channel ch;
  p->greeted = expected != NULL && tvmrt__rpc_greeting_matches(&p->come, expected, &p->seconds);
  if (p->greeted) return 0;
  if (!p->joined) {
    tvmrt__channel_over(&ch, p->fd);
    (void)tvmrt__rpc_refuse(&ch);
  }
  return -1;
}

/* Never more than the greeting: what follows is the session's. A client that speaks before it is
 * answered, or goes, waits for no session. */
int tvmrt__rpc_peer_read(tvmrt_rpc_peer* p, const char* expected) {
  size_t needs = 0;
  if (p->greeted) return -1;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_greeting_needs(&p->come, &needs));
  while (needs != 0) {
    char part[512];
    size_t got = 0;
    tvmrt_why why;
    const tvmrt_stream_rc rc =
        tvmrt__stream_receive(p->fd, part, needs < sizeof(part) ? needs : sizeof(part), &got, &why);
    if (rc == TVMRT_STREAM_LATE) return 0;
    if (rc != TVMRT_STREAM_OK || got == 0) return -1;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&p->come, part, got));
    TVMRT_RETURN_IF_ERROR(tvmrt__rpc_greeting_needs(&p->come, &needs));
  }
  return judge(p, expected);
}

/* A client that a proxy has joined knows no better than that its session has begun. */
int tvmrt__rpc_peer_fd(const tvmrt_rpc_peer* p) {
  return p->used && !(p->greeted && p->joined) ? p->fd : -1;
}

int tvmrt__rpc_peer_release(tvmrt_rpc_peer* p) {
  const int fd = p->fd;
  tvmrt__buf_free(&p->come);
  memset(p, 0, sizeof(*p));
  tvmrt__stream_set_waiting(fd, true);
  return fd;
}

void tvmrt__rpc_peer_drop(tvmrt_rpc_peer* p) { tvmrt__stream_close(tvmrt__rpc_peer_release(p)); }
