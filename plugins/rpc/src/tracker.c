/* A server's line to a tracker: messages of JSON, each with its length before it.
 *
 *   [5, {"key": "server:KEY", "addr": [null, 9090]}]   where it is; answered by 0
 *   [3, "KEY", [9090, "KEY:0.123"], null]              a key for one client; answered by 0
 *   [7]                                                answered by the keys that nobody has yet
 *
 * A tracker gives clients the address of a free server of a key. The server announces itself with a
 * key of its own for one client, made anew for each; it looks from time to time whether somebody
 * has got it. Kept by the server's loop, which calls tvmrt__rpc_tracker_tend() before each wait;
 * all that can block has a time limit. */
#include "tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/bytes.h"
#include "sdk/system.h"

/* The list of keys of all servers is the longest answer. */
enum { MAX_ANSWER_BYTES = 1 << 20 };

static const double ask_seconds = 2;   /* between two looks at the key */
static const double retry_seconds = 5; /* until the tracker is tried again */
static const double claim_seconds = 6; /* for a client that got the key to come */
static const double answer_seconds =
    10; /* for the tracker to connect, and for all its answers of a turn */

/* `where` is NULL for a server that registers nowhere. */
int tvmrt__rpc_tracker_init(tvmrt_rpc_tracker* t, const char* where) {
  t->fd = -1;
  return tvmrt__socket_place("tracker", where, &t->host, &t->port);
}

/* One message, and its answer in `out`. */
static int ask(tvmrt_rpc_tracker* t, const tvmrt_buf* message, tvmrt_buf* out) {
  uint8_t head[4];
  uint32_t size = (uint32_t)message->size;
  int i;
  /* little-endian, as trackers read it */
  for (i = 0; i < 4; ++i) head[i] = (uint8_t)(size >> (8 * i));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__channel_send(&t->channel, head, sizeof(head), message->data, message->size));
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&t->channel, head, sizeof(head), NULL));
  size = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
  if (size > MAX_ANSWER_BYTES) return tvmrt__fail("RPCError: the tracker's answer is too long.");
  out->size = 0;
  return tvmrt__channel_append(&t->channel, size, out);
}

/* The tracker's "0". What it says otherwise is a number of an error, or a list. */
static int expect_success(const tvmrt_buf* answer) {
  if (strcmp(answer->data, "0") == 0) return 0;
  return tvmrt__fail("RPCError: the tracker refuses this server.");
}

/* Tell where the server is. */
static int write_info(tvmrt_buf* out, const char* key, int port, const char* custom_addr) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "[5, {\"key\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, key));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ", \"addr\": ["));
  TVMRT_RETURN_IF_ERROR(custom_addr == NULL ? tvmrt__buf_puts(out, "null")
                                            : tvmrt__json_write_string(out, custom_addr));
  return tvmrt__buf_printf(out, ", %d]}]", port);
}

/* What the tracker gives to one client: the port and the key of its turn, and the address if it is
 * another than the connection's. */
static int write_put(tvmrt_buf* out, const char* key, const char* match_key, int port,
                     const char* custom_addr) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "[3, "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, key));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(out, ", [%d, ", port));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, match_key));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "], "));
  TVMRT_RETURN_IF_ERROR(custom_addr == NULL ? tvmrt__buf_puts(out, "null")
                                            : tvmrt__json_write_string(out, custom_addr));
  return tvmrt__buf_puts(out, "]");
}

/* The tracker's own number goes both ways, so that another kind of server is not taken for one. */
static int greet(tvmrt_rpc_tracker* t) {
  static const uint8_t magic[4] = {0x71, 0xf2, 0x02, 0x00}; /* 0x2f271 */
  uint8_t answer[4];
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_send(&t->channel, magic, 4, NULL, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&t->channel, answer, 4, NULL));
  return memcmp(answer, magic, 4) == 0 ? 0 : tvmrt__fail("RPCError: that is no tracker.");
}

/* A message that is answered by no more than that it came well. */
static int tell(tvmrt_rpc_tracker* t, const tvmrt_buf* message) {
  tvmrt_buf answer = {NULL, 0, 0};
  int rc = ask(t, message, &answer);
  if (rc == 0) rc = expect_success(&answer);
  tvmrt__buf_free(&answer);
  return rc;
}

/* A descriptor that was opened stays in t->fd also on failure: hang_up() closes it. */
static int connect_tracker(tvmrt_rpc_tracker* t, const char* key, int port,
                           const char* custom_addr) {
  tvmrt_buf message = {NULL, 0, 0};
  char named[200];
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__socket_connect(t->host, t->port, answer_seconds, &t->fd));
  tvmrt__channel_over(&t->channel, t->fd);
  tvmrt__channel_set_deadline(&t->channel, answer_seconds);
  (void)snprintf(named, sizeof(named), "server:%s", key);
  rc = greet(t);
  if (rc == 0) rc = write_info(&message, named, port, custom_addr);
  if (rc == 0) rc = tell(t, &message);
  tvmrt__buf_free(&message);
  return rc;
}

/* A key for the next client, which nobody can guess. */
static int announce(tvmrt_rpc_tracker* t, const char* key, int port, const char* custom_addr) {
  tvmrt_buf message = {NULL, 0, 0};
  int rc;
  (void)snprintf(t->match_key, sizeof(t->match_key), "%.120s:0.%llu", key,
                 (unsigned long long)(tvmrt__random_number() & 0xffffffffffffULL));
  rc = write_put(&message, key, t->match_key, port, custom_addr);
  if (rc == 0) rc = tell(t, &message);
  tvmrt__buf_free(&message);
  t->claimed = 0;
  return rc;
}

/* The keys that no client has yet; a key that is gone and brings nobody is made anew. */
static int look(tvmrt_rpc_tracker* t) {
  tvmrt_buf message = {NULL, 0, 0};
  tvmrt_buf answer = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(&message, "[7]");
  if (rc == 0) rc = ask(t, &message, &answer);
  if (rc == 0 && strstr(answer.data, t->match_key) != NULL) {
    t->claimed = 0;
  } else if (rc == 0 && t->claimed == 0) {
    t->claimed = tvmrt__seconds();
  } else if (rc == 0 && tvmrt__seconds() - t->claimed > claim_seconds) {
    t->match_key[0] = '\0';
  }
  tvmrt__buf_free(&message);
  tvmrt__buf_free(&answer);
  return rc;
}

/* What was announced ends with the connection: the tracker forgets it. */
static void hang_up(tvmrt_rpc_tracker* t) {
  tvmrt__stream_close(t->fd);
  t->fd = -1;
  t->match_key[0] = '\0';
}

/* *log is a line to be logged, or NULL. An error is no end: the tracker is tried again. */
void tvmrt__rpc_tracker_tend(tvmrt_rpc_tracker* t, const char* key, int port,
                             const char* custom_addr, const char** log) {
  int rc = 0;
  *log = NULL;
  if (t->host == NULL || (tvmrt__seconds() < t->next && t->match_key[0] != '\0')) return;
  if (t->fd < 0 && tvmrt__seconds() < t->next) return;
  /* the server's loop waits meanwhile */
  if (t->fd >= 0) tvmrt__channel_set_deadline(&t->channel, answer_seconds);
  if (t->fd < 0) {
    rc = connect_tracker(t, key, port, custom_addr);
    if (rc == 0) *log = "registered at the tracker";
  } else if (t->match_key[0] != '\0') {
    rc = look(t);
  }
  if (rc == 0 && t->match_key[0] == '\0') rc = announce(t, key, port, custom_addr);
  t->next = tvmrt__seconds() + (rc == 0 ? ask_seconds : retry_seconds);
  if (rc == 0) return;
  *log = "the tracker does not answer; it is tried again";
  hang_up(t);
}

/* The client that got the key is here: the next tend() makes another. */
void tvmrt__rpc_tracker_used(tvmrt_rpc_tracker* t) { t->match_key[0] = '\0'; }

/* The server's place at the tracker goes with the connection. */
void tvmrt__rpc_tracker_close(tvmrt_rpc_tracker* t) {
  hang_up(t);
  free(t->host);
}
