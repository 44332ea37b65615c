/* Firmware runtime: sessions of remote calls over a serial line.
 *
 * One server; the board's program passes it the received bytes, and it answers in the same call,
 * with its own buffers. A line that accepts no more bytes ends the server's loop with an error. */
#include <tvm/runtime/crt/microtvm_rpc_server.h>

#include "../../../src_backend/mem_functions.h"
#include "remote.h"

enum { VERSION = 1 };

typedef struct remote_server {
  microtvm_rpc_channel_write_t write;
  void* write_ctx;
  tvmrt_frame_reader frames;
  uint8_t session[2]; /* the nonces of client and server; zeros: no session */
  uint8_t nonce;
  int is_line_broken;
  remote_session calls;
  uint8_t message[REMOTE_MESSAGE_BYTES + 1]; /* a text at its end gets a NUL */
  uint8_t reply[REMOTE_PACKET_BYTES];
} remote_server;

/* static: a server has no other memory, and an image has one line */
static remote_server the_server;

/* The program's function may send fewer bytes than given, but at least one. Any other result would
 * lead out of bounds, and counts as a broken line. */
static int write_all(void* ctx, const uint8_t* data, size_t bytes) {
  const remote_server* s = ctx;
  while (bytes != 0) {
    const ssize_t sent = s->write(s->write_ctx, data, bytes);
    if (sent < 1 || (size_t)sent > bytes) return kTvmErrorWriteStreamShortWrite;
    data += sent;
    bytes -= (size_t)sent;
  }
  return kTvmErrorNoError;
}

/* A message with a head, which has the session's id unless it is the first one, and a body. A
 * failure is stored and returned at the end of the loop: a message that was begun cannot be
 * undone. */
static void send_message(remote_server* s, tvmrt_message_type type, const void* body,
                         size_t bytes) {
  tvmrt_frame_writer w;
  uint8_t head[TVMRT_MESSAGE_HEAD_BYTES];
  int rc;
  w.write = write_all;
  w.ctx = s;
  w.crc = 0;
  head[0] = s->session[0];
  head[1] = s->session[1];
  head[2] = (uint8_t)type;
  rc = tvmrt__frame_begin(&w, (uint32_t)(sizeof(head) + bytes));
  if (rc == 0) rc = tvmrt__frame_put(&w, head, sizeof(head));
  if (rc == 0 && bytes != 0) rc = tvmrt__frame_put(&w, body, bytes);
  if (rc == 0) rc = tvmrt__frame_end(&w);
  if (rc != 0) s->is_line_broken = 1;
}

/* ---- messages ---- */

/* A client that begins during another's session gets a board in its state after reset. A nonce of 0
 * is invalid. The reply has the version and, in its head, the nonce of the server. */
static void begin_session(remote_server* s, uint8_t client_nonce) {
  static const uint8_t version = VERSION;
  if (client_nonce == 0) return;
  if (s->calls.initialised) {
    s->calls.ended = 1;
    return;
  }
  s->nonce = tvmrt__frame_next_nonce(s->nonce);
  s->session[0] = client_nonce;
  s->session[1] = s->nonce;
  send_message(s, TVMRT_MESSAGE_REPLY, &version, sizeof(version));
}

static void take_packet(remote_server* s, uint8_t* packet, size_t bytes) {
  remote_writer out;
  out.data = s->reply;
  out.capacity = sizeof(s->reply);
  out.size = 0;
  out.failed = 0;
  tvmrt__remote_answer(&s->calls, packet, bytes, &out);
  if (s->calls.ended) return; /* no client reads an answer to that */
  send_message(s, TVMRT_MESSAGE_PACKET, s->reply, out.size);
}

/* Messages of other sessions, of unknown types and too short ones are dropped: the line may have
 * damaged them. The end of session 0 0 ends any session: it is sent by clients that do not know the
 * board's session. */
static void take_message(remote_server* s, size_t bytes) {
  uint8_t* m = s->message;
  int is_ours;
  if (bytes < TVMRT_MESSAGE_HEAD_BYTES) return;
  is_ours = m[0] == s->session[0] && m[1] == s->session[1];
  if (m[2] == TVMRT_MESSAGE_INIT) {
    begin_session(s, m[0]);
  } else if (m[2] == TVMRT_MESSAGE_TERMINATE) {
    if (!is_ours && (m[0] != 0 || m[1] != 0)) return;
    if (s->calls.initialised) s->calls.ended = 1;
    s->session[0] = 0;
    s->session[1] = 0;
  } else if (!is_ours || m[0] == 0) {
    return; /* of a session that has ended */
  } else if (m[2] == TVMRT_MESSAGE_PACKET) {
    take_packet(s, m + TVMRT_MESSAGE_HEAD_BYTES, bytes - TVMRT_MESSAGE_HEAD_BYTES);
  }
}

/* ---- the server ---- */

/* The first byte before the first frame, which no receiver takes for a start. */
static const uint8_t wake_up = 0xfe;

/* May be called again, after the board was asked to restart: memory that clients allocated is
 * freed. The first message informs the client that there is no session. There is one server, so the
 * handle is always the same; never NULL. */
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func,
                                            void* write_func_ctx) {
  remote_server* s = &the_server;
  tvmrt__remote_free_all(&s->calls.handles);
  s->calls.initialised = 0;
  s->calls.ended = 0;
  s->write = write_func;
  s->write_ctx = write_func_ctx;
  s->session[0] = 0;
  s->session[1] = 0;
  s->is_line_broken = 0;
  tvmrt__frame_reader_init(&s->frames, s->message, REMOTE_MESSAGE_BYTES);
  if (write_all(s, &wake_up, 1) != 0) s->is_line_broken = 1;
  send_message(s, TVMRT_MESSAGE_TERMINATE, NULL, 0);
  return s;
}

/* Bytes remain only if the session has ended or the line is broken. kTvmErrorPlatformShutdown asks
 * the program to reset the board. *new_data and *new_data_size are set to the remaining bytes. */
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data,
                                      size_t* new_data_size) {
  remote_server* s = server;
  while (*new_data_size != 0 && !s->is_line_broken) {
    const uint8_t byte = **new_data;
    ++*new_data;
    --*new_data_size;
    if (tvmrt__frame_take(&s->frames, byte) != TVMRT_FRAME_COMPLETE) continue;
    take_message(s, s->frames.length);
    if (s->calls.ended) return kTvmErrorPlatformShutdown;
  }
  return s->is_line_broken ? kTvmErrorWriteStreamShortWrite : kTvmErrorNoError;
}
