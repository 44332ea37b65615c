/* Packets and their parts over a byte stream. */
#include "channel.h"

#include <string.h>

#include "sdk/values.h"

/* The function gets one packet in one piece. */
static int call_send(TVMFunctionHandle send, const remote_writer* packet) {
  tvmrt_buf whole = {NULL, 0, 0};
  TVMByteArray bytes;
  TVMValue arg;
  int code = kTVMBytes;
  int rc = tvmrt__buf_append(&whole, packet->data, packet->size);
  if (rc == 0) rc = tvmrt__buf_append(&whole, packet->tail, packet->tail_bytes);
  bytes.data = whole.data;
  bytes.size = whole.size;
  arg.v_handle = &bytes;
  if (rc == 0) rc = tvmrt__func_call(send, &arg, &code, 1);
  tvmrt__buf_free(&whole);
  return rc;
}

int tvmrt__channel_send(const tvmrt_channel* ch, const remote_writer* packet) {
  if (ch->send != NULL) return call_send(ch->send, packet);
  TVMRT_RETURN_IF_ERROR(tvmrt__socket_send(ch->fd, packet->data, packet->size));
  return tvmrt__socket_send(ch->fd, packet->tail, packet->tail_bytes);
}

/* The function may return fewer bytes than requested; none at the end of the stream. */
static int receive(const tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  TVMValue arg;
  TVMValue result;
  TVMByteArray bytes = {NULL, 0};
  int code = kTVMArgInt;
  int result_code = kTVMNullptr;
  const tvmrt_args in = {"the function that receives", &result, &result_code, 1};
  int rc;
  if (ch->receive == NULL) return tvmrt__socket_receive(ch->fd, out, capacity, received);
  arg.v_int64 = (int64_t)capacity;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(ch->receive, &arg, &code, 1, &result, &result_code));
  rc = tvmrt__arg_bytes(&in, 0, &bytes);
  if (rc == 0 && bytes.size > capacity) {
    rc = tvmrt__fail_value("%s returned more bytes than were requested.", in.callee);
  }
  if (rc == 0 && bytes.size != 0) memcpy(out, bytes.data, bytes.size);
  *received = rc == 0 ? bytes.size : 0;
  tvmrt__release(tvmrt__value_object(&result, result_code));
  return rc;
}

/* If `ended` is not NULL, an end of the stream before the first byte is not an error, since peers
 * disconnect between packets. */
int tvmrt__channel_read(const tvmrt_channel* ch, void* out, size_t size, bool* ended) {
  size_t have = 0;
  if (ended != NULL) *ended = false;
  while (have < size) {
    size_t received = 0;
    TVMRT_RETURN_IF_ERROR(receive(ch, (char*)out + have, size - have, &received));
    if (received == 0) {
      if (ended == NULL || have != 0) {
        return tvmrt__fail("RPCError: the other side has closed the connection.");
      }
      *ended = true;
      return 0;
    }
    have += received;
  }
  return 0;
}

/* Memory grows with the bytes received, since `size` is only the peer's claim. */
int tvmrt__channel_append(const tvmrt_channel* ch, uint64_t size, tvmrt_buf* out) {
  /* so that an empty result has a buffer, too */
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, 0));
  while (size != 0) {
    uint64_t part = out->size < 65536 ? 65536 : out->size;
    if (part > size) part = size;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, (size_t)part));
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, out->data + out->size, (size_t)part, NULL));
    out->size += (size_t)part;
    out->data[out->size] = '\0';
    size -= part;
  }
  return 0;
}
