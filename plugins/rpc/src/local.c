/* A server in the client's own process: a packet is answered while it is sent. Without a thread of its
 * own, so that what it calls may need what the client's thread holds. */
#include "local.h"

#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

typedef struct bytes {
  tvmrt_buf buf;
  size_t at; /* what is before it has been read */
} bytes;

/* Both channels end here; what one side sends the other finds in a buffer. */
struct tvmrt_rpc_local {
  tvmrt_rpc_endpoint endpoint;
  tvmrt_channel channel; /* the server's */
  bytes requests;
  bytes replies;
};

/* An empty buffer begins at its front again, so that it does not grow with the session. */
static int take(bytes* from, void* out, size_t most, size_t* got) {
  const size_t there = from->buf.size - from->at;
  *got = there < most ? there : most;
  if (*got != 0) memcpy(out, from->buf.data + from->at, *got);
  from->at += *got;
  if (from->at == from->buf.size) {
    from->at = 0;
    from->buf.size = 0;
  }
  return 0;
}

/* Copied: a sender's bytes are its own again when it returns. */
static int put(bytes* to, const void* head, size_t head_bytes, const void* tail,
               size_t tail_bytes) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&to->buf, head, head_bytes));
  return tvmrt__buf_append(&to->buf, tail, tail_bytes);
}

/* The server's answer waits in the buffer until the client reads it. */
static int server_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  return put(&((tvmrt_rpc_local*)ch->self)->replies, head, head_bytes, tail, tail_bytes);
}

/* All that there is: a server that finds nothing here has been asked for nothing. */
static int server_receive(tvmrt_channel* ch, void* out, size_t most, size_t* got) {
  return take(&((tvmrt_rpc_local*)ch->self)->requests, out, most, got);
}

/* A packet is sent whole, so one step answers it. */
static int client_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  tvmrt_rpc_local* local = ch->self;
  TVMRT_RETURN_IF_ERROR(put(&local->requests, head, head_bytes, tail, tail_bytes));
  /* A session that has ended leaves nothing to read, which the client finds out by itself. */
  return local->endpoint.ended ? 0 : tvmrt__rpc_endpoint_step(&local->endpoint);
}

/* 0 bytes say that the session has ended, as of any other stream. */
static int client_receive(tvmrt_channel* ch, void* out, size_t most, size_t* got) {
  return take(&((tvmrt_rpc_local*)ch->self)->replies, out, most, got);
}

/* *out is to be freed after the client's channel is no longer used. It must not move: channels
 * point to it. */
int tvmrt__rpc_local_new(tvmrt_channel* channel, tvmrt_rpc_local** out) {
  static const tvmrt_channel_kind server = {server_send, server_receive};
  static const tvmrt_channel_kind client = {client_send, client_receive};
  tvmrt_rpc_local* local = tvmrt__calloc(1, sizeof(*local));
  *out = local;
  if (local == NULL) return -1;
  tvmrt__channel_init(&local->channel, &server, local);
  tvmrt__channel_init(channel, &client, local);
  tvmrt__rpc_endpoint_begin(&local->endpoint, &local->channel, &tvmrt__rpc_default_limits);
  return 0;
}

/* NULL does nothing. The server's side ends with all that the client has left in its table. */
void tvmrt__rpc_local_free(tvmrt_rpc_local* local) {
  if (local == NULL) return;
  tvmrt__rpc_endpoint_end(&local->endpoint);
  tvmrt__buf_free(&local->requests.buf);
  tvmrt__buf_free(&local->replies.buf);
  free(local);
}
