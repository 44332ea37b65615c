/* Client side of a session: requests and their replies.
 *
 * Requests are serialised by the session's lock, and each gets a reply. Requests that free
 * something wait in a buffer for the next other request, since the thread that frees an object must
 * not wait for a peer: it may hold a lock that a function of the transport needs. A stream error
 * closes the session, since the start of the next packet is unknown; an error reported by the
 * server does not. A session is reference-counted by refs and memory blocks. It has a number in a
 * table, which its devices contain. */
#include "session.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/system.h"
#include "sdk/tensors.h"

enum { MAX_SESSIONS = 32, MAX_RETAINED_BYTES = 1 << 20 };

struct tvmrt_rpc_session {
  _Atomic int refs;
  int index;             /* in the table */
  tvmrt_channel channel; /* its socket is taken over, or its functions are retained */
  bool closed;           /* by either side, or broken: nothing can be sent any more */
  uint64_t max_bytes;    /* of a packet, if the peer has a limit; otherwise 0 */
  tvmrt_mutex free_lock; /* protects `frees`; held for short times */
  tvmrt_buf frees;       /* packets to be sent before the next request */
  tvmrt_mutex lock;      /* protects all following members */
  remote_writer request;
  tvmrt_buf body;
  remote_values reply;
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
  tvmrt__socket_shut_down(s->channel.fd);
  return -1;
}

/* Read header and code of the next reply; *left is the number of bytes after them. */
static int read_head(tvmrt_rpc_session* s, int* out_code, uint64_t* left) {
  uint8_t head[REMOTE_HEAD_BYTES];
  remote_reader in = {head, sizeof(head), 0};
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(&s->channel, head, sizeof(head), NULL));
  *left = tvmrt__remote_read_uint(&in, 8);
  *out_code = (int)(int32_t)(uint32_t)tvmrt__remote_read_uint(&in, 4);
  if (*left < 4) return tvmrt__fail("RPCError: the reply has no code.");
  *left -= 4;
  return 0;
}

/* Return -1. A timeout keeps its error kind; all other errors are an RPCError with the peer's
 * text. */
static int raise_remote(const remote_values* reply) {
  static const char timeout[] = "RPCSessionTimeoutError: ";
  const char* text = "(no text)";
  if (reply->count == 1 && reply->codes[0] == kTVMStr) text = reply->values[0].v_str;
  if (strncmp(text, timeout, sizeof(timeout) - 1) == 0) return tvmrt__fail("%s", text);
  return tvmrt__fail("RPCError: Error caught from RPC call:\n%s", text);
}

/* Read the values of a reply; an exception becomes an error. */
static int read_values(tvmrt_rpc_session* s, int code, uint64_t left) {
  remote_reader in;
  s->body.size = 0;
  if (tvmrt__channel_append(&s->channel, left, &s->body) != 0) return mark_broken(s);
  in = (remote_reader){(uint8_t*)s->body.data, s->body.size, 0};
  if (tvmrt__remote_read_values(&in, &s->reply) != kTvmErrorNoError) return -1;
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

/* Send the packets that free something. An error ends the session: its time may be over. */
static int send_frees(tvmrt_rpc_session* s, const tvmrt_buf* frees) {
  remote_reader in = {(uint8_t*)frees->data, frees->size, 0};
  while (in.left != 0) {
    remote_writer packet = {.data = in.at};
    const size_t bytes = (size_t)tvmrt__remote_read_uint(&in, 8);
    packet.size = bytes + 8;
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_send(&s->channel, &packet));
    TVMRT_RETURN_IF_ERROR(receive_values(s));
    in.at += bytes;
    in.left -= bytes;
  }
  return 0;
}

/* The session is closed if sending fails part-way. */
static int send_request(tvmrt_rpc_session* s) {
  tvmrt_buf frees;
  int rc;
  if (s->request.failed) return -1;
  if (s->closed) return tvmrt__fail("RPCError: the session is closed.");
  tvmrt__lock(&s->free_lock);
  frees = s->frees;
  memset(&s->frees, 0, sizeof(s->frees));
  tvmrt__unlock(&s->free_lock);
  rc = send_frees(s, &frees);
  tvmrt__buf_free(&frees);
  tvmrt__remote_end(&s->request);
  if (rc == 0) rc = tvmrt__channel_send(&s->channel, &s->request);
  return rc == 0 ? 0 : mark_broken(s);
}

/* `on_reply` reads the reply under the lock. */
static int exchange(tvmrt_rpc_session* s, tvmrt_rpc_code code, const uint64_t* handle,
                    const TVMValue* values, const int* codes, int count,
                    tvmrt_rpc_on_reply* on_reply, void* ctx) {
  tvmrt__remote_begin(&s->request, code);
  if (handle != NULL) tvmrt__remote_write_uint(&s->request, 8, *handle);
  tvmrt__remote_write_values(&s->request, values, codes, count);
  TVMRT_RETURN_IF_ERROR(send_request(s));
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
  /* large buffers are not kept for later requests */
  if (s->body.capacity > MAX_RETAINED_BYTES) tvmrt__buf_free(&s->body);
  if (s->request.capacity > MAX_RETAINED_BYTES) tvmrt__rpc_writer_free(&s->request);
  tvmrt__unlock(&s->lock);
  return rc;
}

/* Request to copy `bytes` bytes at offset `at`, as a 1-D tensor of bytes: the element type is only
 * known to the tensor's owner. */
static void write_copy(tvmrt_rpc_session* s, tvmrt_rpc_code code, DLDevice dev, const void* data,
                       uint64_t at, uint64_t bytes) {
  int64_t extent = (int64_t)(at + bytes);
  const DLTensor t = {.data = (void*)(uintptr_t)data,
                      .device = dev,
                      .ndim = 1,
                      .dtype = {kDLUInt, 8, 1},
                      .shape = &extent,
                      .byte_offset = at};
  tvmrt__remote_begin(&s->request, code);
  tvmrt__remote_write_tensor(&s->request, &t);
  tvmrt__remote_write_uint(&s->request, 8, bytes);
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

/* Each part is a packet of at most the peer's limit and gets a reply. */
int tvmrt__rpc_copy(tvmrt_rpc_session* s, tvmrt_rpc_code code, DLDevice dev, const void* remote,
                    void* local, uint64_t bytes) {
  enum { HEAD_BYTES = 44 + 8 }; /* of a one-dimensional copy */
  uint64_t at = 0;
  int rc = 0;
  tvmrt__lock(&s->lock);
  do {
    const uint64_t limit = s->max_bytes == 0 ? bytes : s->max_bytes - HEAD_BYTES;
    const size_t part = (size_t)(bytes - at < limit ? bytes - at : limit);
    char* data = (char*)local + at;
    /* The address is constant and the offset changes, since the peer looks up the address. */
    write_copy(s, code, dev, remote, at, part);
    if (code == TVMRT_RPC_COPY_TO) tvmrt__remote_write_tail(&s->request, data, part);
    rc = send_request(s);
    if (rc == 0) {
      rc = code == TVMRT_RPC_COPY_TO ? receive_values(s) : receive_copy(s, data, part);
    }
    at += part;
  } while (rc == 0 && at < bytes);
  tvmrt__unlock(&s->lock);
  return rc;
}

/* Sends nothing itself, see the head of this file. */
void tvmrt__rpc_post(tvmrt_rpc_session* s, tvmrt_rpc_code code, const TVMValue* values,
                     const int* codes, int count) {
  remote_writer packet = {.data = NULL};
  tvmrt__remote_begin(&packet, code);
  tvmrt__remote_write_values(&packet, values, codes, count);
  if (!packet.failed) {
    tvmrt__remote_end(&packet);
    tvmrt__lock(&s->free_lock);
    (void)tvmrt__buf_append(&s->frees, packet.data, packet.size);
    tvmrt__unlock(&s->free_lock);
  }
  tvmrt__rpc_writer_free(&packet);
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
int tvmrt__rpc_take_handle(tvmrt_rpc_session* s, const remote_values* reply, void* ctx) {
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

/* Only an error in the reply to the first packet matters. */
static int first_packet(tvmrt_rpc_session* s) {
  static const char version[] = TVMRT_RPC_VERSION;
  tvmrt__remote_begin(&s->request, TVMRT_RPC_INIT_SERVER);
  tvmrt__remote_write_data(&s->request, version, sizeof(version) - 1);
  tvmrt__remote_write_values(&s->request, NULL, NULL, 0);
  TVMRT_RETURN_IF_ERROR(send_request(s));
  return receive_values(s);
}

void tvmrt__rpc_session_limit(tvmrt_rpc_session* s, uint64_t max_bytes) {
  tvmrt__lock(&s->lock);
  s->max_bytes = max_bytes;
  tvmrt__unlock(&s->lock);
}

/* Until it has a number the session counts as closed, so that its end sends nothing. */
int tvmrt__rpc_session_begin(tvmrt_channel channel, tvmrt_rpc_session** out) {
  tvmrt_rpc_session* s = tvmrt__calloc(1, sizeof(*s));
  *out = NULL;
  if (s != NULL && (tvmrt__mutex_init(&s->lock) != 0 || tvmrt__mutex_init(&s->free_lock) != 0)) {
    (void)tvmrt__fail_memory(sizeof(s->lock));
    free(s);
    s = NULL;
  }
  if (s == NULL) {
    tvmrt__socket_close(channel.fd);
    return -1;
  }
  atomic_init(&s->refs, 1);
  s->channel = channel;
  if (channel.send != NULL) tvmrt__retain(channel.send);
  if (channel.receive != NULL) tvmrt__retain(channel.receive);
  s->index = MAX_SESSIONS;
  s->closed = true;
  if (enter(s) == 0) {
    s->closed = false;
    if (first_packet(s) == 0) {
      *out = s;
      return 0;
    }
  }
  tvmrt__rpc_session_release(s);
  return -1;
}

/* Called on any thread for each object made in the session. */
void tvmrt__rpc_session_retain(tvmrt_rpc_session* s) { (void)atomic_fetch_add(&s->refs, 1); }

/* The peer frees what is left with the session. */
void tvmrt__rpc_session_close(tvmrt_rpc_session* s) {
  tvmrt__lock(&s->lock);
  if (!s->closed) {
    tvmrt__lock(&s->free_lock);
    s->frees.size = 0;
    tvmrt__unlock(&s->free_lock);
    tvmrt__remote_begin(&s->request, TVMRT_RPC_SHUTDOWN);
    (void)send_request(s);
    s->closed = true;
    tvmrt__socket_shut_down(s->channel.fd);
  }
  tvmrt__unlock(&s->lock);
}

/* NULL does nothing. The last release sends the shutdown packet without waiting. */
void tvmrt__rpc_session_release(tvmrt_rpc_session* s) {
  if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1) return;
  /* first: devices must not find a session that is ending */
  leave(s);
  tvmrt__rpc_session_close(s);
  tvmrt__release(s->channel.send);
  tvmrt__release(s->channel.receive);
  tvmrt__socket_close(s->channel.fd);
  tvmrt__mutex_free(&s->lock);
  tvmrt__mutex_free(&s->free_lock);
  tvmrt__buf_free(&s->frees);
  tvmrt__rpc_writer_free(&s->request);
  tvmrt__buf_free(&s->body);
  free(s);
}
