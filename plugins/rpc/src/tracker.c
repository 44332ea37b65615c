/* Connection of a server to a tracker: JSON messages with a length prefix.
 *
 *   [5, {"key": "server:KEY", "addr": [null, 9090]}]   address of the server; answer 0
 *   [3, "KEY", [9090, "KEY:0.123"], null]              one-time key for a client; answer 0
 *   [7]                                                answer: the unused one-time keys
 *
 * A tracker assigns free servers to clients by key. The server announces a one-time key for its
 * next client and polls whether the tracker has assigned it. The server's loop calls
 * tvmrt__rpc_tracker_poll() before each wait; all blocking calls have a time limit. */
#include "tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base.h"
#include "sdk/system.h"

/* The longest answer is the list of all servers' keys. */
enum { MAX_ANSWER_BYTES = 1 << 20 };

static const double query_interval = 2; /* between two polls of the one-time key */
static const double retry_seconds = 5;  /* until the tracker is retried */
static const double claim_seconds = 6;  /* for a client with the one-time key to connect */
static const double answer_seconds =
    10; /* for connecting to the tracker, and for all its answers in one turn */

/* `where` is NULL for a server without a tracker. */
int tvmrt__rpc_tracker_init(tvmrt_rpc_tracker* t, const char* where) {
  t->fd = -1;
  return tvmrt__split_host_port("tracker", where, &t->host, &t->port);
}

/* Send one message and read its answer into `out`. */
static int send_request(tvmrt_rpc_tracker* t, const tvmrt_buf* message, tvmrt_buf* out) {
  uint8_t head[4];
  uint32_t size = (uint32_t)message->size;
  int i;
  /* little-endian, as trackers expect */
  for (i = 0; i < 4; ++i) head[i] = (uint8_t)(size >> (8 * i));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__channel_send(&t->channel, head, sizeof(head), message->data, message->size));
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&t->channel, head, sizeof(head), NULL));
  size = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
  if (size > MAX_ANSWER_BYTES) return tvmrt__fail("RPCError: the tracker's answer is too long.");
  out->size = 0;
  return tvmrt__channel_append(&t->channel, size, out);
}

/* Expect the answer "0"; other answers are an error number or a list. */
static int expect_success(const tvmrt_buf* answer) {
  if (strcmp(answer->data, "0") == 0) return 0;
  return tvmrt__fail("RPCError: the tracker refuses this server.");
}

/* Write the message with the server's address. */
static int write_info(tvmrt_buf* out, const char* key, int port, const char* custom_addr) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "[5, {\"key\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, key));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ", \"addr\": ["));
  TVMRT_RETURN_IF_ERROR(custom_addr == NULL ? tvmrt__buf_puts(out, "null")
                                            : tvmrt__json_write_string(out, custom_addr));
  return tvmrt__buf_printf(out, ", %d]}]", port);
}

/* Write the message with the server's port and one-time key, and with its address if that differs
 * from the connection's. */
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

/* The tracker's magic number is exchanged, so that another kind of server is detected. */
static int greet(tvmrt_rpc_tracker* t) {
  static const uint8_t magic[4] = {0x71, 0xf2, 0x02, 0x00}; /* 0x2f271 */
  uint8_t answer[4];
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_send(&t->channel, magic, 4, NULL, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&t->channel, answer, 4, NULL));
  return memcmp(answer, magic, 4) == 0
             ? 0
             : tvmrt__fail("RPCError: the server at this address is not a tracker.");
}

/* Send a message whose only answer is success. */
static int send_message(tvmrt_rpc_tracker* t, const tvmrt_buf* message) {
  tvmrt_buf answer = {NULL, 0, 0};
  int rc = send_request(t, message, &answer);
  if (rc == 0) rc = expect_success(&answer);
  tvmrt__buf_free(&answer);
  return rc;
}

/* An opened descriptor stays in t->fd, also on failure; disconnect() closes it. */
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
  if (rc == 0) rc = send_message(t, &message);
  tvmrt__buf_free(&message);
  return rc;
}

/* Announce a random one-time key for the next client. */
static int announce(tvmrt_rpc_tracker* t, const char* key, int port, const char* custom_addr) {
  tvmrt_buf message = {NULL, 0, 0};
  int rc;
  (void)snprintf(t->match_key, sizeof(t->match_key), "%.120s:0.%llu", key,
                 (unsigned long long)(tvmrt__random_number() & 0xffffffffffffULL));
  rc = write_put(&message, key, t->match_key, port, custom_addr);
  if (rc == 0) rc = send_message(t, &message);
  tvmrt__buf_free(&message);
  t->claimed = 0;
  return rc;
}

/* Poll the unused one-time keys. A key that was assigned but whose client does not connect is
 * replaced. */
static int poll_key(tvmrt_rpc_tracker* t) {
  tvmrt_buf message = {NULL, 0, 0};
  tvmrt_buf answer = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(&message, "[7]");
  if (rc == 0) rc = send_request(t, &message, &answer);
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

/* The tracker removes the announcement when the connection closes. */
static void disconnect(tvmrt_rpc_tracker* t) {
  tvmrt__stream_close(t->fd);
  t->fd = -1;
  t->match_key[0] = '\0';
}

/* *log is a line for the log, or NULL. After an error the tracker is retried. */
void tvmrt__rpc_tracker_poll(tvmrt_rpc_tracker* t, const char* key, int port,
                             const char* custom_addr, const char** log) {
  int rc = 0;
  *log = NULL;
  if (t->host == NULL || (tvmrt__seconds() < t->next && t->match_key[0] != '\0')) return;
  if (t->fd < 0 && tvmrt__seconds() < t->next) return;
  /* the server's loop is blocked meanwhile */
  if (t->fd >= 0) tvmrt__channel_set_deadline(&t->channel, answer_seconds);
  if (t->fd < 0) {
    rc = connect_tracker(t, key, port, custom_addr);
    if (rc == 0) *log = "registered at the tracker";
  } else if (t->match_key[0] != '\0') {
    rc = poll_key(t);
  }
  if (rc == 0 && t->match_key[0] == '\0') rc = announce(t, key, port, custom_addr);
  t->next = tvmrt__seconds() + (rc == 0 ? query_interval : retry_seconds);
  if (rc == 0) return;
  *log = "the tracker does not answer; it is tried again";
  disconnect(t);
}

/* The client with the key has connected; the next tvmrt__rpc_tracker_poll() makes a new key. */
void tvmrt__rpc_tracker_used(tvmrt_rpc_tracker* t) { t->match_key[0] = '\0'; }

/* The tracker removes the server when the connection closes. */
void tvmrt__rpc_tracker_close(tvmrt_rpc_tracker* t) {
  disconnect(t);
  free(t->host);
}
