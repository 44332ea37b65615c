/* Server side of one session.
 *
 * One endpoint serves one client: it reads packets, and sends the answer to each
 * (firmware/remote/remote_packets.c). Lengths are claims, so packets and memory are limited. Errors
 * of called functions are sent as answers; a packet that cannot be read to its end closes the
 * session. */
#include "endpoint.h"

#include <string.h>

#include "functions.h"
#include "sdk/values.h"

enum { MAX_RETAINED_BYTES = 1 << 20 /* of a packet's buffer, reused for the next packet */ };

/* The tail is sent from its original location, without a copy. There is no answer if there was no
 * memory even for an error's. */
static int send_answer(tvmrt_rpc_endpoint* ep) {
  return ep->answer.failed ? -1 : tvmrt__channel_send(&ep->channel, &ep->answer);
}

/* -1 ends the session: the connection is broken, or there is no memory for an error text. */
int tvmrt__rpc_endpoint_step(tvmrt_rpc_endpoint* ep) {
  uint8_t head[8];
  remote_reader in = {head, sizeof(head), 0};
  bool ended = false;
  uint64_t bytes;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&ep->channel, head, sizeof(head), &ended));
  ep->session.ended = ended;
  bytes = tvmrt__remote_read_uint(&in, 8);
  /* as TVM's servers do */
  if (ended || bytes == 0) return 0;
  if (bytes < 4 || bytes > ep->max_packet_bytes) {
    (void)tvmrt__fail_value("a packet of %llu bytes is too short, or exceeds %llu bytes.",
                            (unsigned long long)bytes, (unsigned long long)ep->max_packet_bytes);
    ep->session.ended = 1; /* the start of the next packet is not looked for */
    tvmrt__remote_write_error(&ep->answer, kTvmErrorFramingPayloadOverflow);
    return send_answer(ep);
  }
  ep->packet.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&ep->packet, head, sizeof(head)));
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_append(&ep->channel, bytes, &ep->packet));
  /* an answer must not contain an error of an earlier packet */
  tvmrt__forget_error();
  tvmrt__remote_answer(&ep->session, (uint8_t*)ep->packet.data, ep->packet.size, &ep->answer);
  rc = ep->session.ended ? 0 : send_answer(ep);
  tvmrt__release(ep->session.result);
  ep->session.result = NULL;
  if (ep->packet.capacity > MAX_RETAINED_BYTES) tvmrt__buf_free(&ep->packet);
  return rc;
}

/* The limits are large enough for networks with all weights. */
void tvmrt__rpc_endpoint_begin(tvmrt_rpc_endpoint* ep, tvmrt_channel channel) {
  memset(ep, 0, sizeof(*ep));
  ep->channel = channel;
  ep->max_packet_bytes = (uint64_t)1 << 34;
  ep->session.handles.max_memory = (uint64_t)1 << 34;
}

/* Free everything the client has left. */
void tvmrt__rpc_endpoint_end(tvmrt_rpc_endpoint* ep) {
  tvmrt__remote_free_all(&ep->session.handles);
  tvmrt__buf_free(&ep->packet);
  tvmrt__rpc_writer_free(&ep->answer);
}

/* (connected descriptor): serve a client whose key was checked, until its session ends. */
TVMRT_PLUGIN_NATIVE(rpc_server_loop) {
  tvmrt_rpc_endpoint ep;
  int64_t fd;
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  tvmrt__rpc_endpoint_begin(&ep, (tvmrt_channel){(int)fd, NULL, NULL});
  do {
    rc = tvmrt__rpc_endpoint_step(&ep);
  } while (rc == 0 && !ep.session.ended);
  tvmrt__rpc_endpoint_end(&ep);
  return rc;
}
