/* Server in the client's own process: each packet is answered while it is sent. It has no thread of
 * its own, so called functions can use the client thread's locks and thread-local state. */
#include "local.h"

#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

typedef struct bytes {
  tvmrt_buf buf;
  size_t at; /* bytes before it have been read */
} bytes;

/* Both channels end here; each side's bytes go to a buffer that the other side reads. */
struct tvmrt_rpc_local {
  tvmrt_rpc_endpoint endpoint;
  tvmrt_channel channel; /* the server's */
  bytes requests;
  bytes replies;
};

/* An emptied buffer is reset to its start, so that it does not grow with the session. */
static int take(bytes* from, void* out, size_t capacity, size_t* received) {
  const size_t available = from->buf.size - from->at;
  *received = available < capacity ? available : capacity;
  if (*received != 0) memcpy(out, from->buf.data + from->at, *received);
  from->at += *received;
  if (from->at == from->buf.size) {
    from->at = 0;
    from->buf.size = 0;
  }
  return 0;
}

/* The bytes are copied, since the sender may reuse its buffers after the call. */
static int append(bytes* to, const void* head, size_t head_bytes, const void* tail,
                  size_t tail_bytes) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&to->buf, head, head_bytes));
  return tvmrt__buf_append(&to->buf, tail, tail_bytes);
}

/* The server's answer stays in the buffer until the client reads it. */
static int server_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  return append(&((tvmrt_rpc_local*)ch->self)->replies, head, head_bytes, tail, tail_bytes);
}

/* Receives 0 bytes if there is no request. */
static int server_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  return take(&((tvmrt_rpc_local*)ch->self)->requests, out, capacity, received);
}

/* A packet is sent in one call, so one step answers it. */
static int client_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                       size_t tail_bytes) {
  tvmrt_rpc_local* local = ch->self;
  TVMRT_RETURN_IF_ERROR(append(&local->requests, head, head_bytes, tail, tail_bytes));
  /* After the end of the session there is nothing to read, which the client detects itself. */
  return local->endpoint.ended ? 0 : tvmrt__rpc_endpoint_step(&local->endpoint);
}

/* 0 bytes mean that the session has ended, as in other streams. */
static int client_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  return take(&((tvmrt_rpc_local*)ch->self)->replies, out, capacity, received);
}

/* Free *out after the last use of the client's channel. The object must not move, since the
 * channels point to it. */
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

/* NULL does nothing. Also frees everything that the client has left in the handle table. */
void tvmrt__rpc_local_free(tvmrt_rpc_local* local) {
  if (local == NULL) return;
  tvmrt__rpc_endpoint_end(&local->endpoint);
  tvmrt__buf_free(&local->requests.buf);
  tvmrt__buf_free(&local->replies.buf);
  free(local);
}
