/* First bytes of a connection, before the packets.
 *
 * Words and texts are TVM's. A client sends its key, followed by options; the server answers with
 * its key. The peer is not trusted: the key's length is limited, and its buffer grows with the
 * received bytes.
 *
 *   client: magic, length, "client:KEY -timeout=5"
 *   server: magic, length, "server:KEY"; or one of two error words and the end of the connection
 *
 * Words and lengths have 32 bits. */
#include "handshake.h"

#include <string.h>

#include "sdk/base.h"
#include "wire.h"

/* Keys are a few words, so longer ones are rejected. */
enum { MAX_KEY_BYTES = 4096, HEAD_BYTES = 8 };

/* Little-endian on every machine. */
static uint32_t word_at(const void* data) {
  const uint8_t* bytes = data;
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static int read_word(tvmrt_channel* ch, uint32_t* out) {
  uint8_t bytes[4];
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, bytes, 4, NULL));
  *out = word_at(bytes);
  return 0;
}

static int check_key_bytes(uint32_t size) {
  if (size <= MAX_KEY_BYTES) return 0;
  return tvmrt__fail("RPCError: a key of %u bytes is too long.", size);
}

/* Read a text of limited length. The caller frees it, also on failure. */
static int read_text(tvmrt_channel* ch, tvmrt_buf* out) {
  uint32_t size;
  TVMRT_RETURN_IF_ERROR(read_word(ch, &size));
  TVMRT_RETURN_IF_ERROR(check_key_bytes(size));
  return tvmrt__channel_append(ch, size, out);
}

/* Send a word and, if `key` is not NULL, a text of prefix and key. */
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

/* Client side. The server's name is not checked: the server has accepted the key. */
int tvmrt__rpc_greet(tvmrt_channel* ch, const char* key, const char* where) {
  tvmrt_buf peer_key = {NULL, 0, 0};
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
  rc = read_text(ch, &peer_key);
  tvmrt__buf_free(&peer_key);
  return rc;
}

/* An invalid time is ignored like an unknown option. */
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

/* Compare the words of a client's greeting: the key, and options. Changes the text. */
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

/* ---- the server's part ---- */

/* The magic word is checked first, so that a peer with another protocol is rejected at once. */
int tvmrt__rpc_greeting_missing_bytes(const tvmrt_buf* received, size_t* out) {
  uint32_t size;
  *out = 4 - received->size;
  if (received->size < 4) return 0;
  if (word_at(received->data) != TVMRT_RPC_MAGIC) {
    return tvmrt__fail("RPCError: the other side is not an RPC client.");
  }
  *out = HEAD_BYTES - received->size;
  if (received->size < HEAD_BYTES) return 0;
  size = word_at(received->data + 4);
  TVMRT_RETURN_IF_ERROR(check_key_bytes(size));
  *out = HEAD_BYTES + size - received->size;
  return 0;
}

bool tvmrt__rpc_greeting_matches(const tvmrt_buf* received, const char* expected,
                                 double* out_seconds) {
  *out_seconds = 0;
  return matches(received->data + HEAD_BYTES, expected, out_seconds);
}

int tvmrt__rpc_welcome(tvmrt_channel* ch, const char* server_key) {
  return send_text(ch, TVMRT_RPC_MAGIC, "server:", server_key);
}

int tvmrt__rpc_refuse(tvmrt_channel* ch) { return send_text(ch, TVMRT_RPC_MISMATCH, NULL, NULL); }
