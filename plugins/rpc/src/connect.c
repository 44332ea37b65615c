/* Functions that begin a session on the client's side.
 *
 * They return the session's root module. A session is owned by all objects that came from it and
 * ends with the last of them.
 *
 * There are three transports: a socket, a line to a board through two packed functions, and this
 * process itself. They differ only in the channel; the packets are equal. */
#include <stdio.h>
#include <string.h>

#include "functions.h"
#include "remote.h"

/* Time limit for a server's answer; the server may be busy with another client. */
static const double connect_seconds = 60;

/* Takes over the descriptor and the board, also on failure. The session's reference moves to the
 * root module. */
static int return_session(int fd, tvmrt_board* board, TVMValue* out, int* out_code) {
  tvmrt_rpc_session* s;
  tvmrt_module* root;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_session_begin(fd, board, &s));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_root(s, &root));
  return tvmrt__ret_object(out, out_code, &root->base);
}

/* ---- greeting ---- */

/* Keys are a few words, so longer ones are rejected. */
enum { MAX_KEY_BYTES = 4096 };

/* Little-endian on every machine. */
static int read_word(tvmrt_channel* ch, uint64_t* out) {
  uint8_t bytes[4];
  tvmrt_reader in;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, bytes, 4, NULL));
  tvmrt__reader_init(&in, "the greeting", bytes, 4);
  return tvmrt__read_uint(&in, 4, out);
}

/* Send the first bytes of a connection: the magic word, a length, "client:" and the key, which
 * options may follow. */
static int send_key(tvmrt_channel* ch, const char* key) {
  static const char prefix[] = "client:";
  tvmrt_buf out = {NULL, 0, 0};
  int rc = tvmrt__write_uint(&out, 4, TVMRT_RPC_MAGIC);
  if (rc == 0) rc = tvmrt__write_uint(&out, 4, sizeof(prefix) - 1 + strlen(key));
  if (rc == 0) rc = tvmrt__buf_puts(&out, prefix);
  if (rc == 0) rc = tvmrt__buf_puts(&out, key);
  if (rc == 0) rc = tvmrt__channel_send(ch, out.data, out.size, NULL, 0);
  tvmrt__buf_free(&out);
  return rc;
}

/* The server answers with the magic word and its name, which is not checked: it has accepted the
 * key. `where` is for error texts. */
static int greet(tvmrt_channel* ch, const char* key, const char* where) {
  uint64_t word = 0;
  uint64_t size = 0;
  TVMRT_RETURN_IF_ERROR(send_key(ch, key));
  TVMRT_RETURN_IF_ERROR(read_word(ch, &word));
  if (word == TVMRT_RPC_DUPLICATE) {
    return tvmrt__fail("RPCError: %s: the server already have key=%s in use.", where, key);
  }
  if (word == TVMRT_RPC_MISMATCH) {
    return tvmrt__fail("RPCError: %s: cannot find server that matches key=%s.", where, key);
  }
  if (word != TVMRT_RPC_MAGIC) return tvmrt__fail("RPCError: %s is not TVM RPC server.", where);
  TVMRT_RETURN_IF_ERROR(read_word(ch, &size));
  if (size <= MAX_KEY_BYTES) return tvmrt__channel_skip(ch, size);
  return tvmrt__fail("RPCError: a key of %u bytes is too long.", (unsigned)size);
}

/* ---- functions ---- */

/* The time limit covers the greeting, but not the session. */
static int connect_to(const char* host, int port, const char* key, int* out_fd) {
  tvmrt_channel ch;
  char where[300];
  (void)snprintf(where, sizeof(where), "%.256s:%d", host, port);
  TVMRT_RETURN_IF_ERROR(tvmrt__socket_connect(host, port, connect_seconds, out_fd));
  tvmrt__channel_over(&ch, *out_fd);
  tvmrt__socket_set_timeout(*out_fd, connect_seconds);
  if (greet(&ch, key, where) != 0) {
    tvmrt__socket_close(*out_fd);
    return -1;
  }
  tvmrt__socket_set_timeout(*out_fd, 0); /* no limit for the duration of calls */
  return 0;
}

/* (host, port, key), and since 0.9 whether to log. */
TVMRT_PLUGIN_NATIVE(rpc_connect) {
  const char* host;
  const char* key;
  int64_t port;
  int fd = -1;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, 4));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &host));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &key));
  TVMRT_RETURN_IF_ERROR(connect_to(host, port < 0 || port > 65535 ? -1 : (int)port, key, &fd));
  return return_session(fd, NULL, out, out_code);
}

/* A server in this process with its own handle table, for testing client code. */
TVMRT_PLUGIN_NATIVE(rpc_local_session) {
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 0, 0));
  return return_session(-1, NULL, out, out_code);
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
  return return_session(-1, board, out, out_code);
}
