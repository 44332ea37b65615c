/* The first bytes of a connection, before packets.
 *
 * The words and texts are TVM's. A client says what it wants by its key, with options behind it;
 * the server answers by its own. Nothing of the other side is trusted: a key has a longest length
 * and is read into memory that grows with what has come.
 *
 *   client: magic, length, "client:KEY -timeout=5"
 *   server: magic, length, "server:KEY"; or one of two other words, and the end of the connection
 *
 * Words and lengths have 32 bits. Behind a proxy a server begins, by its own line, and the proxy hands
 * it the client's when there is one. */
#include "handshake.h"

#include <string.h>

#include "../base/json.h"
#include "wire.h"

/* Keys have a few words; what is longer was no key. */
enum { MAX_KEY_BYTES = 4096 };

/* Little-endian, whatever the machine. */
static int read_word(tvmrt_channel* ch, uint32_t* out) {
  uint8_t bytes[4];
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, bytes, 4, NULL));
  *out = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  return 0;
}

/* Not longer than a key can be. The text is the caller's to free, also on failure. */
static int read_text(tvmrt_channel* ch, tvmrt_buf* out) {
  uint32_t size;
  TVMRT_RETURN_IF_ERROR(read_word(ch, &size));
  if (size > MAX_KEY_BYTES) return tvmrt__fail("RPCError: a key of %u bytes is too long.", size);
  return tvmrt__channel_append(ch, size, out);
}

/* A word, and the two parts of a text where it says something. */
static int send_text(tvmrt_channel* ch, uint32_t word, const char* prefix, const char* key) {
  tvmrt_buf out = {NULL, 0, 0};
  int rc = tvmrt__write_uint(&out, 4, word);
  if (rc == 0 && key != NULL) rc = tvmrt__write_uint(&out, 4, strlen(prefix) + strlen(key));
  if (rc == 0 && key != NULL) rc = tvmrt__buf_puts(&out, prefix);
  if (rc == 0 && key != NULL) rc = tvmrt__buf_puts(&out, key);
  if (rc == 0) rc = tvmrt__channel_send(ch, out.data, out.size, NULL, 0);
  tvmrt__buf_free(&out);
  return rc;
}

/* The client's part. What a server is called is not compared: it has found the key right. */
int tvmrt__rpc_greet(tvmrt_channel* ch, const char* key, const char* where) {
  tvmrt_buf theirs = {NULL, 0, 0};
  uint32_t word;
  int rc;
  TVMRT_RETURN_IF_ERROR(send_text(ch, TVMRT_RPC_MAGIC, "client:", key));
  TVMRT_RETURN_IF_ERROR(read_word(ch, &word));
  if (word == TVMRT_RPC_DUPLICATE) {
    return tvmrt__fail("RPCError: %s: the server already have key=%s in use.", where, key);
  }
  if (word == TVMRT_RPC_MISMATCH) {
    return tvmrt__fail("RPCError: %s: cannot find server that matches key=%s.", where, key);
  }
  if (word != TVMRT_RPC_MAGIC) return tvmrt__fail("RPCError: %s is not TVM RPC server.", where);
  rc = read_text(ch, &theirs);
  tvmrt__buf_free(&theirs);
  return rc;
}

/* What is no time is no option either. */
static void read_timeout(const char* text, double* out_seconds) {
  tvmrt_parser in;
  double seconds;
  tvmrt__parse_init(&in, "a session's timeout", text, strlen(text));
  if (tvmrt__parse_real(&in, &seconds) != 0) {
    tvmrt__forget_error();
  } else if (seconds > 0 && seconds < 1e9) {
    *out_seconds = seconds;
  }
}

/* The words of a client's key: what it is, and options. Changes the text. */
static bool matches(char* text, const char* expected, double* out_seconds) {
  static const char prefix[] = "client:";
  static const char timeout[] = "-timeout=";
  char* rest = NULL;
  const char* word = strtok_r(text, " \t\n", &rest);
  if (word == NULL || strncmp(word, prefix, sizeof(prefix) - 1) != 0) return false;
  if (strcmp(word + sizeof(prefix) - 1, expected) != 0) return false;
  while ((word = strtok_r(NULL, " \t\n", &rest)) != NULL) {
    const size_t size = sizeof(timeout) - 1;
    if (strncmp(word, timeout, size) == 0) read_timeout(word + size, out_seconds);
  }
  return true;
}

/* The server's part. A client of another key is told so before the connection ends. */
int tvmrt__rpc_welcome(tvmrt_channel* ch, const char* expected, const char* server_key,
                       double* out_seconds) {
  tvmrt_buf theirs = {NULL, 0, 0};
  uint32_t word;
  int rc;
  *out_seconds = 0;
  TVMRT_RETURN_IF_ERROR(read_word(ch, &word));
  if (word != TVMRT_RPC_MAGIC) return tvmrt__fail("RPCError: the other side is no RPC client.");
  rc = read_text(ch, &theirs);
  if (rc == 0 && !matches(theirs.data, expected, out_seconds)) {
    (void)send_text(ch, TVMRT_RPC_MISMATCH, NULL, NULL);
    rc = tvmrt__fail("RPCError: a client came with a key that is not this server's.");
  }
  tvmrt__buf_free(&theirs);
  return rc != 0 ? rc : send_text(ch, TVMRT_RPC_MAGIC, "server:", server_key);
}

/* A server's first word to a proxy, which answers when a client has come. */
int tvmrt__rpc_offer(tvmrt_channel* ch, const char* key) {
  return send_text(ch, TVMRT_RPC_MAGIC, "server:", key);
}

/* The words of the client come through the proxy, which has only compared keys. */
int tvmrt__rpc_joined(tvmrt_channel* ch, const char* expected, double* out_seconds) {
  tvmrt_buf theirs = {NULL, 0, 0};
  uint32_t word;
  int rc;
  *out_seconds = 0;
  TVMRT_RETURN_IF_ERROR(read_word(ch, &word));
  if (word != TVMRT_RPC_MAGIC)
    return tvmrt__fail("RPCError: the proxy has no client for this key.");
  rc = read_text(ch, &theirs);
  if (rc == 0 && !matches(theirs.data, expected, out_seconds)) {
    rc = tvmrt__fail("RPCError: the proxy has sent a client of another key.");
  }
  tvmrt__buf_free(&theirs);
  return rc;
}
