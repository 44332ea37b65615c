/* Reading from a byte stream in protocol units.
 *
 * A channel abstracts the transport: a socket, or a pair of functions of a frontend. A channel
 * is used by one thread at a time and owns nothing. */
#include "channel.h"

#include <string.h>

#include "sdk/values.h"

/* `self` belongs to the channel kind and outlives the channel. Channels with a descriptor set it
 * themselves. */
void tvmrt__channel_init(tvmrt_channel* ch, const tvmrt_channel_kind* kind, void* self) {
  ch->kind = kind;
  ch->self = self;
  ch->fd = -1;
}

/* If `ended` is not NULL, an end of the stream before the first byte is not an error, since peers
 * disconnect between packets. */
int tvmrt__channel_read(tvmrt_channel* ch, void* out, size_t size, bool* ended) {
  size_t have = 0;
  if (ended != NULL) *ended = false;
  while (have < size) {
    size_t received = 0;
    TVMRT_RETURN_IF_ERROR(ch->kind->receive(ch, (char*)out + have, size - have, &received));
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
int tvmrt__channel_append(tvmrt_channel* ch, uint64_t size, tvmrt_buf* out) {
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

/* ---- functions ---- */

/* The function gets one packet in one piece. */
static int functions_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                          size_t tail_bytes) {
  const tvmrt_channel_functions* functions = ch->self;
  tvmrt_buf packet = {NULL, 0, 0};
  TVMByteArray bytes;
  TVMValue arg;
  int code = kTVMBytes;
  int rc = tvmrt__buf_append(&packet, head, head_bytes);
  if (rc == 0 && tail_bytes != 0) rc = tvmrt__buf_append(&packet, tail, tail_bytes);
  bytes.data = packet.data;
  bytes.size = packet.size;
  arg.v_handle = &bytes;
  if (rc == 0) rc = tvmrt__func_call(functions->send, &arg, &code, 1);
  tvmrt__buf_free(&packet);
  return rc;
}

/* The function may return fewer bytes than requested. */
static int functions_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  const tvmrt_channel_functions* functions = ch->self;
  TVMValue arg;
  TVMValue result;
  TVMByteArray bytes = {NULL, 0};
  int code = kTVMArgInt;
  int result_code = kTVMNullptr;
  const tvmrt_args in = {"the function that receives", &result, &result_code, 1};
  int rc;
  arg.v_int64 = (int64_t)capacity;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(functions->receive, &arg, &code, 1, &result, &result_code));
  rc = tvmrt__arg_bytes(&in, 0, &bytes);
  if (rc == 0 && bytes.size > capacity) {
    rc = tvmrt__fail_value("%s returned more bytes than were requested.", in.callee);
  }
  if (rc == 0 && bytes.size != 0) memcpy(out, bytes.data, bytes.size);
  *received = rc == 0 ? bytes.size : 0;
  tvmrt__release(tvmrt__value_object(&result, result_code));
  return rc;
}

/* The functions are the session's, which outlives the channel. */
void tvmrt__channel_over_functions(tvmrt_channel* ch, tvmrt_channel_functions* functions) {
  static const tvmrt_channel_kind kind = {functions_send, functions_receive};
  tvmrt__channel_init(ch, &kind, functions);
}
