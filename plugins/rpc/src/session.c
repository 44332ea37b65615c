/* Client side of a session: requests and their replies.
 *
 * Requests are serialised by the session's lock, and each gets a reply. Requests that free
 * something are sent without waiting; their replies are read before the next one. A stream error
 * closes the session, since the start of the next packet is unknown; an error reported by the
 * server does not. A session is reference-counted by refs and memory blocks. It has a number in a
 * table, which its devices contain. */
#include "session.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "local.h"
#include "sdk/system.h"
#include "sdk/tensors.h"

/* This many replies fit into every socket's buffer, so the server is not blocked. */
enum { MAX_UNREAD = 64 };

enum { MAX_SESSIONS = 32, TAIL_BYTES = 4096, MAX_RETAINED_BYTES = 1 << 20 };

struct tvmrt_rpc_session {
  _Atomic int refs;
  int index;              /* in the table */
  int fd;                 /* -1: no socket */
  bool closed;            /* by either side, or broken: nothing can be sent any more */
  tvmrt_rpc_local* local; /* the server, if it is this process; or NULL */
  tvmrt_board* board;     /* the line, if the peer is a board; or NULL */
  uint64_t max_bytes;     /* of a packet, if the peer has a limit; otherwise 0 */
  tvmrt_mutex lock;       /* protects all following members */
  tvmrt_channel channel;
  tvmrt_buf request;
  tvmrt_buf body;
  tvmrt_rpc_seq reply;
  int unread; /* replies still to be read and discarded */
};

static tvmrt_mutex table_lock = TVMRT_MUTEX_INIT;
static tvmrt_rpc_session* table[MAX_SESSIONS]; /* borrowed: a session removes itself at its end */

/* ---- the table ---- */

/* The size of the table is the number of sessions that devices can name. On failure the index is
 * out of range, which leave() checks. */
static int enter(tvmrt_rpc_session* s) {
  int i;
  tvmrt__lock(&table_lock);
  for (i = 0; i < MAX_SESSIONS && table[i] != NULL; ++i) continue;
  if (i < MAX_SESSIONS) table[i] = s;
  tvmrt__unlock(&table_lock);
  s->index = i;
  if (i < MAX_SESSIONS) return 0;
  return tvmrt__fail("RPCError: maximum number of RPC session reached: %d are open, close one.",
                     MAX_SESSIONS);
}

/* The number may be assigned to another session afterwards. */
static void leave(const tvmrt_rpc_session* s) {
  tvmrt__lock(&table_lock);
  if (s->index < MAX_SESSIONS && table[s->index] == s) table[s->index] = NULL;
  tvmrt__unlock(&table_lock);
}

/* Borrowed: the owner of a device's memory also keeps the session alive. */
tvmrt_rpc_session* tvmrt__rpc_session_of(DLDevice dev) {
  const int i = (int)dev.device_type / TVMRT_RPC_SESSION_MASK - 1;
  tvmrt_rpc_session* s = NULL;
  tvmrt__lock(&table_lock);
  if (i >= 0 && i < MAX_SESSIONS) s = table[i];
  tvmrt__unlock(&table_lock);
  if (s == NULL) (void)tvmrt__fail_value("RPC session %d of this device is closed.", i);
  return s;
}

int tvmrt__rpc_session_index(const tvmrt_rpc_session* s) { return s->index; }

/* ---- requests; the session is locked ---- */

/* Close the session and return -1. The peer notices the closed stream. */
static int mark_broken(tvmrt_rpc_session* s) {
  s->closed = true; /* the stream position is inside a packet */
  if (s->fd >= 0) tvmrt__socket_shut_down(s->fd);
  return -1;
}

/* The session is closed if sending fails part-way. */
static int send_request(tvmrt_rpc_session* s, const void* tail, size_t tail_bytes) {
  if (s->closed) return tvmrt__fail("RPCError: the session is closed.");
  tvmrt__rpc_end(&s->request, tail_bytes);
  if (tvmrt__channel_send(&s->channel, s->request.data, s->request.size, tail, tail_bytes) != 0) {
    return mark_broken(s);
  }
  return 0;
}

/* Read header and code of the next reply; *left is the number of bytes after them. */
static int read_next(tvmrt_rpc_session* s, int* out_code, uint64_t* left) {
  uint8_t head[TVMRT_RPC_PACKET_HEAD_BYTES];
  uint64_t code;
  tvmrt_reader in;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&s->channel, head, sizeof(head), NULL));
  tvmrt__reader_init(&in, "the reply", head, sizeof(head));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, left));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 4, &code));
  if (*left < 4) return tvmrt__fail("RPCError: the reply has no code.");
  *left -= 4;
  *out_code = (int)(int32_t)(uint32_t)code;
  return 0;
}

/* Read and discard the replies that no caller waits for. */
static int discard_replies(tvmrt_rpc_session* s) {
  for (; s->unread > 0; --s->unread) {
    int code;
    uint64_t left;
    TVMRT_RETURN_IF_ERROR(read_next(s, &code, &left));
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_skip(&s->channel, left));
  }
  return 0;
}

/* Replies that no caller waits for precede the wanted one. */
static int read_head(tvmrt_rpc_session* s, int* out_code, uint64_t* left) {
  TVMRT_RETURN_IF_ERROR(discard_replies(s));
  return read_next(s, out_code, left);
}

/* Return -1. A timeout keeps its error kind; all other errors are an RPCError with the peer's
 * text. */
static int raise_remote(const tvmrt_rpc_seq* reply) {
  static const char timeout[] = "RPCSessionTimeoutError: ";
  const char* text = "(no text)";
  if (reply->count == 1 && reply->codes[0] == kTVMStr) text = reply->values[0].v_str;
  if (strncmp(text, timeout, sizeof(timeout) - 1) == 0) return tvmrt__fail("%s", text);
  return tvmrt__fail("RPCError: Error caught from RPC call:\n%s", text);
}

/* Read the values of a reply; an exception becomes an error. */
static int read_values(tvmrt_rpc_session* s, int code, uint64_t left) {
  tvmrt_reader in;
  s->body.size = 0;
  if (tvmrt__channel_append(&s->channel, left, &s->body) != 0) return mark_broken(s);
  tvmrt__reader_init(&in, "the reply", s->body.data, s->body.size);
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_read_seq(&in, &s->reply));
  if (code == TVMRT_RPC_EXCEPTION) return raise_remote(&s->reply);
  if (code == TVMRT_RPC_RETURN) return 0;
  (void)tvmrt__fail("RPCError: the reply has the unknown code %d.", code);
  return mark_broken(s);
}

/* An unreadable reply closes the session; an exception does not. */
static int receive_values(tvmrt_rpc_session* s) {
  int code = 0;
  uint64_t left = 0;
  if (read_head(s, &code, &left) != 0) return mark_broken(s);
  return read_values(s, code, left);
}

/* A long trailing byte array, as in an upload, is sent without a copy. */
static int write_request(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                         const TVMValue* values, const int* codes, int count, TVMByteArray* tail) {
  const TVMByteArray* last =
      count > 0 && codes[count - 1] == kTVMBytes ? values[count - 1].v_handle : NULL;
  int i;
  /* a short one is copied, since one part is cheaper to send */
  if (last != NULL && last->size < TAIL_BYTES) last = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(&s->request, code));
  if (handle != NULL) TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(&s->request, 8, *handle));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_codes(&s->request, codes, count));
  for (i = 0; i < count - (last != NULL); ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_value(&s->request, &values[i], codes[i]));
  }
  if (last == NULL) return 0;
  *tail = *last;
  return tvmrt__write_uint(&s->request, 8, last->size);
}

/* `on_reply` reads the reply under the lock. */
static int exchange(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                    const TVMValue* values, const int* codes, int count,
                    tvmrt_rpc_on_reply* on_reply, void* ctx) {
  TVMByteArray tail = {NULL, 0};
  TVMRT_RETURN_IF_ERROR(write_request(s, code, handle, values, codes, count, &tail));
  TVMRT_RETURN_IF_ERROR(send_request(s, tail.data, tail.size));
  TVMRT_RETURN_IF_ERROR(receive_values(s));
  return on_reply == NULL ? 0 : on_reply(s, &s->reply, ctx);
}

/* `values` are borrowed. `on_reply` must not make a request: the session is locked. */
int tvmrt__rpc_request(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                       const TVMValue* values, const int* codes, int count,
                       tvmrt_rpc_on_reply* on_reply, void* ctx) {
  int rc;
  tvmrt__lock(&s->lock);
  rc = exchange(s, code, handle, values, codes, count, on_reply, ctx);
  /* a large buffer is not kept for later replies */
  if (s->body.capacity > MAX_RETAINED_BYTES) tvmrt__buf_free(&s->body);
  tvmrt__unlock(&s->lock);
  return rc;
}

/* Request to copy `bytes` bytes at offset `at`, as a 1-D tensor of bytes. */
static int write_copy(tvmrt_rpc_session* s, tvmrt_rpc_code code, DLDevice dev, const void* data,
                      uint64_t at, uint64_t bytes) {
  int64_t extent = (int64_t)(at + bytes);
  DLTensor t = tvmrt__rpc_bytes(dev, data, &extent);
  t.byte_offset = at;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(&s->request, code));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_tensor(&s->request, &t));
  return tvmrt__write_uint(&s->request, 8, bytes);
}

/* How many of the remaining bytes of a copy go into one packet. */
static uint64_t copy_part(const tvmrt_rpc_session* s, uint64_t left) {
  enum { HEAD_BYTES = 44 + 8 }; /* of a one-dimensional copy */
  if (s->max_bytes == 0 || left <= s->max_bytes - HEAD_BYTES) return left;
  return s->max_bytes - HEAD_BYTES;
}

/* Receive directly into the destination. A reply of another kind is an error of the peer. */
static int receive_copy(tvmrt_rpc_session* s, void* to, uint64_t bytes) {
  int code = 0;
  uint64_t left = 0;
  if (read_head(s, &code, &left) != 0) return mark_broken(s);
  if (code != TVMRT_RPC_COPY_ACK) return read_values(s, code, left);
  if (left != bytes) {
    (void)tvmrt__fail("RPCError: the reply to a copy of %llu bytes contains %llu bytes.",
                      (unsigned long long)bytes, (unsigned long long)left);
    return mark_broken(s);
  }
  return tvmrt__channel_read(&s->channel, to, (size_t)bytes, NULL) == 0 ? 0 : mark_broken(s);
}

/* Copy in packets of the peer's maximum size; each gets a reply. `remote` is the remote address;
 * `from` or `to` is the local buffer. */
static int copy_in_parts(tvmrt_rpc_session* s, tvmrt_rpc_code code, DLDevice dev,
                         const void* remote, const char* from, char* to, uint64_t bytes) {
  const bool sends = code == TVMRT_RPC_COPY_TO;
  uint64_t at = 0;
  int rc = 0;
  tvmrt__lock(&s->lock);
  do {
    const uint64_t part = copy_part(s, bytes - at);
    /* The address is constant and the offset changes, since the peer looks up the address. */
    rc = write_copy(s, code, dev, remote, at, part);
    if (rc == 0) rc = sends ? send_request(s, from + at, (size_t)part) : send_request(s, NULL, 0);
    if (rc == 0) rc = sends ? receive_values(s) : receive_copy(s, to + at, part);
    at += part;
  } while (rc == 0 && at < bytes);
  tvmrt__unlock(&s->lock);
  return rc;
}

int tvmrt__rpc_copy_to(tvmrt_rpc_session* s, DLDevice dev, const void* from, void* to,
                       uint64_t bytes) {
  return copy_in_parts(s, TVMRT_RPC_COPY_TO, dev, to, from, NULL, bytes);
}

int tvmrt__rpc_copy_from(tvmrt_rpc_session* s, DLDevice dev, const void* from, void* to,
                         uint64_t bytes) {
  return copy_in_parts(s, TVMRT_RPC_COPY_FROM, dev, from, NULL, to, bytes);
}

/* If MAX_UNREAD replies are pending, wait for this one and all before it. */
static int post(tvmrt_rpc_session* s, tvmrt_rpc_code code, const TVMValue* values, const int* codes,
                int count) {
  TVMByteArray tail = {NULL, 0};
  TVMRT_RETURN_IF_ERROR(write_request(s, code, NULL, values, codes, count, &tail));
  TVMRT_RETURN_IF_ERROR(send_request(s, NULL, 0));
  if (s->unread >= MAX_UNREAD) return receive_values(s);
  s->unread++;
  return 0;
}

/* Does not wait, since the caller may hold a lock that the peer needs for its answer. Keeps the
 * current error text, since objects are freed while an error is propagated. */
void tvmrt__rpc_post(tvmrt_rpc_session* s, tvmrt_rpc_code code, const TVMValue* values,
                     const int* codes, int count) {
  char* saved = TVMGetLastError()[0] == '\0' ? NULL : tvmrt__strdup(TVMGetLastError());
  tvmrt__lock(&s->lock);
  if (!s->closed) (void)post(s, code, values, codes, count);
  tvmrt__unlock(&s->lock);
  TVMPackedFuncSetLastError(saved == NULL ? "" : saved);
  free(saved);
}

/* The type code is sent as well, as TVM's clients do. */
void tvmrt__rpc_free_handle(tvmrt_rpc_session* s, uint64_t handle, int code) {
  static const int codes[2] = {kTVMOpaqueHandle, kTVMArgInt};
  TVMValue values[2];
  values[0].v_int64 = (int64_t)handle;
  values[1].v_int64 = code;
  tvmrt__rpc_post(s, TVMRT_RPC_FREE_HANDLE, values, codes, 2);
}

/* ctx points to the handle; 0 if the peer has no function of that name. */
int tvmrt__rpc_take_handle(tvmrt_rpc_session* s, const tvmrt_rpc_seq* reply, void* ctx) {
  (void)s;
  if (reply->count != 1 ||
      (reply->codes[0] != kTVMOpaqueHandle && reply->codes[0] != kTVMNullptr)) {
    return tvmrt__fail("RPCError: the reply has no handle.");
  }
  *(uint64_t*)ctx = (uint64_t)reply->values[0].v_int64;
  return 0;
}

int tvmrt__rpc_find_global(tvmrt_rpc_session* s, const char* name, uint64_t* out) {
  static const int code = kTVMStr;
  TVMValue arg;
  arg.v_str = name;
  *out = 0;
  return tvmrt__rpc_request(s, TVMRT_RPC_GET_GLOBAL, NULL, &arg, &code, 1, tvmrt__rpc_take_handle,
                            out);
}

/* ---- begin and end ---- */

/* The transport is a board, this process, or a socket. */
static int open_channel(tvmrt_rpc_session* s) {
  if (s->board != NULL) {
    tvmrt__board_channel(s->board, &s->channel);
    return 0;
  }
  if (s->fd < 0) return tvmrt__rpc_local_new(&s->channel, &s->local);
  tvmrt__channel_over(&s->channel, s->fd);
  return 0;
}

/* ctx points to an int64_t. */
static int take_int(tvmrt_rpc_session* s, const tvmrt_rpc_seq* reply, void* ctx) {
  (void)s;
  if (reply->count != 2 || reply->codes[1] != kTVMArgInt) {
    return tvmrt__fail("RPCError: the reply has no integer.");
  }
  *(int64_t*)ctx = reply->values[1].v_int64;
  return 0;
}

/* Query the board's maximum packet size. */
static int query_limit(tvmrt_rpc_session* s) {
  enum { MIN_LIMIT = 64 };
  uint64_t f = 0;
  int64_t limit = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_find_global(s, "tvm.rpc.server.GetCRTMaxPacketSize", &f));
  /* without this function, the board accepts what fits its memory */
  if (f == 0) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_request(s, TVMRT_RPC_CALL, &f, NULL, NULL, 0, take_int, &limit));
  if (limit < MIN_LIMIT) {
    return tvmrt__fail("RPCError: the board reports an invalid packet size.");
  }
  s->max_bytes = (uint64_t)limit;
  return 0;
}

/* Only an error in the reply to the first packet matters. A board's line has sent it already. */
static int first_packets(tvmrt_rpc_session* s) {
  if (s->board != NULL) return query_limit(s);
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_init(&s->request));
  TVMRT_RETURN_IF_ERROR(send_request(s, NULL, 0));
  return receive_values(s);
}

/* Takes over the connection or the board, also on failure. Until the channel is open the session
 * counts as closed, so that its end sends nothing. */
int tvmrt__rpc_session_begin(int fd, tvmrt_board* board, tvmrt_rpc_session** out) {
  tvmrt_rpc_session* s = tvmrt__calloc(1, sizeof(*s));
  *out = NULL;
  if (s != NULL && tvmrt__mutex_init(&s->lock) != 0) {
    (void)tvmrt__fail_memory(sizeof(s->lock));
    free(s);
    s = NULL;
  }
  if (s == NULL) {
    tvmrt__socket_close(fd);
    tvmrt__board_free(board);
    return -1;
  }
  atomic_init(&s->refs, 1);
  s->fd = fd;
  s->board = board;
  s->index = MAX_SESSIONS;
  s->closed = true;
  if (open_channel(s) == 0 && enter(s) == 0) {
    s->closed = false;
    if (first_packets(s) == 0) {
      *out = s;
      return 0;
    }
  }
  tvmrt__rpc_session_release(s);
  return -1;
}

/* Called on any thread for each object made in the session. */
void tvmrt__rpc_session_retain(tvmrt_rpc_session* s) { (void)atomic_fetch_add(&s->refs, 1); }

/* An explicit close waits for earlier requests, so that the peer reads all of them. */
void tvmrt__rpc_session_close(tvmrt_rpc_session* s, bool in_order) {
  tvmrt__lock(&s->lock);
  if (!s->closed) {
    if (in_order) (void)discard_replies(s);
    if (tvmrt__rpc_begin(&s->request, TVMRT_RPC_SHUTDOWN) == 0) (void)send_request(s, NULL, 0);
    s->closed = true;
    if (s->fd >= 0) tvmrt__socket_shut_down(s->fd);
    tvmrt__rpc_local_free(s->local); /* with its folder, since this may be the interpreter's end */
    s->local = NULL;
  }
  tvmrt__unlock(&s->lock);
}

/* NULL does nothing. The last release sends the shutdown packet without waiting. */
void tvmrt__rpc_session_release(tvmrt_rpc_session* s) {
  if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1) return;
  /* first: devices must not find a session that is ending */
  leave(s);
  tvmrt__rpc_session_close(s, false);
  tvmrt__rpc_local_free(s->local);
  tvmrt__board_free(s->board);
  tvmrt__socket_close(s->fd);
  tvmrt__mutex_free(&s->lock);
  tvmrt__buf_free(&s->request);
  tvmrt__buf_free(&s->body);
  tvmrt__rpc_seq_free(&s->reply);
  free(s);
}
