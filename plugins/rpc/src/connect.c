/* Functions that begin a session, on the client and the server side.
 *
 * Clients connect with these functions and get the session's root module. Servers run the service
 * loop over an accepted connection. A session is owned by all objects that came from it and ends
 * with the last of them.
 *
 * There are three transports: a socket, a line to a board through two packed functions, and this
 * process itself. They differ only in the channel; the packets are equal. */
#include <stdio.h>
#include <string.h>

#include "endpoint.h"
#include "functions.h"
#include "handshake.h"
#include "session.h"

/* Time limit for a server's answer; the server may be busy with another client. */
static const double connect_seconds = 60;

/* Takes over the session's reference, which moves to the root module. */
static int return_root(tvmrt_rpc_session* s, TVMValue* out, int* out_code) {
  tvmrt_module* root;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_root(s, &root));
  return tvmrt__ret_object(out, out_code, &root->base);
}

/* Takes over the descriptor, also on failure; -1: a session in this process. */
static int return_session(int fd, const tvmrt_args* init, TVMValue* out, int* out_code) {
  tvmrt_rpc_session* s;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_session_begin(fd, init, &s));
  return return_root(s, out, out_code);
}

/* The time limit covers the whole greeting, but not the session. */
static int connect_to(const char* host, int port, const char* key, int* out_fd) {
  tvmrt_channel ch;
  char where[300];
  (void)snprintf(where, sizeof(where), "%.256s:%d", host, port);
  TVMRT_RETURN_IF_ERROR(tvmrt__socket_connect(host, port, connect_seconds, out_fd));
  tvmrt__channel_over(&ch, *out_fd);
  tvmrt__channel_set_deadline(&ch, connect_seconds);
  if (tvmrt__rpc_greet(&ch, key, where) != 0) {
    tvmrt__stream_close(*out_fd);
    return -1;
  }
  tvmrt__channel_set_deadline(&ch, 0); /* no limit for the duration of calls */
  return 0;
}

/* (host, port, key, whether to log since 0.9, values of kInitServer ...). */
TVMRT_PLUGIN_NATIVE(rpc_connect) {
  const char* host;
  const char* key;
  int64_t port;
  int fd = -1;
  int first = 3;
  tvmrt_args init = {"rpc.Connect", args, type_codes, 0};
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &host));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &key));
  /* A number or bool is the log flag; the values of kInitServer begin with a string. */
  if (num_args > 3 && (type_codes[3] == kTVMArgInt || type_codes[3] == kTVMArgBool)) first = 4;
  init.values += first;
  init.codes += first;
  init.count = num_args - first;
  if (init.count < 0) init.count = 0;
  TVMRT_RETURN_IF_ERROR(connect_to(host, port < 0 || port > 65535 ? -1 : (int)port, key, &fd));
  return return_session(fd, &init, out, out_code);
}

/* A server in this process with its own handle table, for testing client code. */
TVMRT_PLUGIN_NATIVE(rpc_local_session) {
  static const tvmrt_args init = {"rpc.LocalSession", NULL, NULL, 0};
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 0, 0));
  return return_session(-1, &init, out, out_code);
}

/* Convert an argument from microseconds to seconds; 0 selects the default. */
static int arg_seconds(const tvmrt_args* in, int i, double otherwise, double* out) {
  int64_t micros;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, i, &micros));
  if (micros < 0) return tvmrt__fail_value("%s: a timeout is negative.", in->callee);
  *out = micros == 0 ? otherwise : (double)micros * 1e-6;
  return 0;
}

/* (name, send function, receive function, microseconds until a start is retried, time limit of the
 * start, time limit of an answer, close function or None, whether to log). */
TVMRT_PLUGIN_NATIVE(rpc_connect_board) {
  tvmrt_board_options options;
  tvmrt_board* board;
  tvmrt_rpc_session* s;
  TVMRT_GLOBAL_ARGS;
  memset(&options, 0, sizeof(options));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 7, 8));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &options.name));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 1, TVMRT_TYPE_FUNCTION, &options.send));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 2, TVMRT_TYPE_FUNCTION, &options.receive));
  TVMRT_RETURN_IF_ERROR(arg_seconds(&in, 3, 0.5, &options.retry));
  TVMRT_RETURN_IF_ERROR(arg_seconds(&in, 4, 10, &options.start));
  TVMRT_RETURN_IF_ERROR(arg_seconds(&in, 5, 600, &options.answer));
  if (type_codes[6] != kTVMNullptr) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 6, TVMRT_TYPE_FUNCTION, &options.close));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__board_open(&options, &board));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_session_over(board, &s));
  return return_root(s, out, out_code);
}

/* ---- a channel of two packed functions ---- */

/* Borrowed from the arguments of the serving call, which hold them until it returns. */
typedef struct function_pair {
  TVMFunctionHandle send;
  TVMFunctionHandle receive;
} function_pair;

/* Send in a loop: frontend functions may send a part and return its size. */
static int send_part(TVMFunctionHandle f, const char* data, size_t size) {
  while (size != 0) {
    TVMByteArray bytes = {data, size};
    TVMValue arg;
    TVMValue sent;
    int kind = kTVMBytes;
    int code = kTVMNullptr;
    arg.v_handle = &bytes;
    TVMRT_RETURN_IF_ERROR(TVMFuncCall(f, &arg, &kind, 1, &sent, &code));
    if (code != kTVMArgInt || sent.v_int64 <= 0 || (uint64_t)sent.v_int64 > size) {
      return tvmrt__fail("RPCError: the send function sent too few bytes.");
    }
    data += sent.v_int64;
    size -= (size_t)sent.v_int64;
  }
  return 0;
}

/* Sends head and tail separately, since the function takes one buffer; this avoids a copy. */
static int functions_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                          size_t tail_bytes) {
  const function_pair* pair = ch->self;
  TVMRT_RETURN_IF_ERROR(send_part(pair->send, head, head_bytes));
  return send_part(pair->send, tail, tail_bytes);
}

/* The bytes are copied and released before the next call, since they may be in the thread's slot.
 * An empty result means that the peer has disconnected. */
static int functions_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  const function_pair* pair = ch->self;
  TVMValue arg;
  TVMValue result;
  TVMByteArray bytes = {NULL, 0};
  int kind = kTVMArgInt;
  int code = kTVMNullptr;
  const tvmrt_args in = {"the function that receives", &result, &code, 1};
  int rc;
  arg.v_int64 = (int64_t)capacity;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(pair->receive, &arg, &kind, 1, &result, &code));
  rc = tvmrt__arg_bytes(&in, 0, &bytes);
  if (rc == 0 && bytes.size > capacity)
    rc = tvmrt__fail("RPCError: the receive function returned more bytes than were requested.");
  if (rc == 0 && bytes.size != 0) memcpy(out, bytes.data, bytes.size);
  *received = bytes.size;
  tvmrt__release(tvmrt__value_object(&result, code));
  return rc;
}

/* ---- the server's functions ---- */

/* Programs may register hooks for the start and the end of serving. A failing start hook prevents
 * serving; hooks are not given the result of the session. */
static int serve(tvmrt_channel* ch) {
  TVMRT_RETURN_IF_ERROR(tvmrt__global_notify("tvm.rpc.server.start", NULL, NULL, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_serve(ch, &tvmrt__rpc_default_limits));
  return tvmrt__global_notify("tvm.rpc.server.shutdown", NULL, NULL, 0);
}

/* (connected descriptor), or (send function, receive function). */
TVMRT_PLUGIN_NATIVE(rpc_server_loop) {
  static const tvmrt_channel_kind kind = {functions_send, functions_receive};
  tvmrt_channel ch;
  function_pair pair;
  int64_t fd;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 2));
  if (num_args == 1) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
    tvmrt__channel_over(&ch, (int)fd);
    return serve(&ch);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_FUNCTION, &pair.send));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 1, TVMRT_TYPE_FUNCTION, &pair.receive));
  tvmrt__channel_init(&ch, &kind, &pair);
  return serve(&ch);
}

/* (connected descriptor, text): answer the peer's last request with an error. */
TVMRT_PLUGIN_NATIVE(rpc_return_exception) {
  tvmrt_channel ch;
  tvmrt_buf packet = {NULL, 0, 0};
  const char* text;
  int64_t fd;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &text));
  tvmrt__channel_over(&ch, (int)fd);
  rc = tvmrt__rpc_write_exception(&packet, text);
  if (rc == 0) rc = tvmrt__channel_send(&ch, packet.data, packet.size, NULL, 0);
  tvmrt__buf_free(&packet);
  return rc;
}
