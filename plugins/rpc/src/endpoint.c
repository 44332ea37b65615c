/* Server side of one session.
 *
 * One endpoint serves one client: it reads packets, executes them and answers each. The client is
 * not trusted. It names objects by numbers of a handle table (handles.c) and memory by addresses,
 * which are checked against its allocations. Lengths are claims, so packets and memory are limited. Errors of called functions are sent as answers; a packet that cannot be read to its end
 * closes the session. */
#include "endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

enum { MAX_RETAINED_BYTES = 1 << 20 /* of a packet's buffer, reused for the next packet */ };

/* ---- answers ---- */

static int write_exception(tvmrt_buf* out, const char* text) {
  const int code = kTVMStr;
  TVMValue value;
  value.v_str = text;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(out, TVMRT_RPC_EXCEPTION));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_seq(out, &value, &code, 1));
  tvmrt__rpc_end(out, 0);
  return 0;
}

/* Answer of a called function: (type, value). The type comes first, so that clients know the
 * meaning of a number. */
static int reply_pair(tvmrt_rpc_endpoint* ep, int type, const TVMValue* value, int code) {
  TVMValue pair[2];
  int codes[2] = {kTVMArgInt, kTVMNullptr};
  pair[0].v_int64 = type;
  pair[1] = *value;
  codes[1] = code;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(&ep->reply, TVMRT_RPC_RETURN));
  return tvmrt__rpc_write_seq(&ep->reply, pair, codes, 2);
}

/* Takes over the object for the handle table, also on failure. */
static int reply_tensor(tvmrt_rpc_endpoint* ep, tvmrt_object* owned) {
  TVMValue values[3];
  static const int codes[3] = {kTVMArgInt, kTVMDLTensorHandle, kTVMOpaqueHandle};
  DLTensor t = ((tvmrt_ndarray*)(void*)owned)->dl;
  uint64_t number;
  int rc;
  /* borrowed until the client frees the handle */
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_add(&ep->handles, kTVMNDArrayHandle, owned, &number));
  values[0].v_int64 = kTVMNDArrayHandle;
  values[1].v_handle = &t;
  values[2].v_int64 = (int64_t)number;
  rc = tvmrt__rpc_begin(&ep->reply, TVMRT_RPC_RETURN);
  if (rc == 0) rc = tvmrt__rpc_write_seq(&ep->reply, values, codes, 3);
  if (rc != 0) (void)tvmrt__rpc_handles_drop(&ep->handles, number);
  return rc;
}

/* Strings are sent as plain values. Takes over the object. */
static int reply_object(tvmrt_rpc_endpoint* ep, tvmrt_object* owned, int code) {
  TVMValue value;
  uint64_t number;
  if (owned->type_index == TVMRT_TYPE_NDARRAY) return reply_tensor(ep, owned);
  if (code == kTVMModuleHandle || code == kTVMPackedFuncHandle) {
    TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_add(&ep->handles, code, owned, &number));
    value.v_int64 = (int64_t)number;
    return reply_pair(ep, code, &value, kTVMOpaqueHandle);
  }
  if (owned->type_index == TVMRT_TYPE_STRING) {
    int rc;
    value.v_str = ((const tvmrt_string*)(const void*)owned)->data;
    rc = reply_pair(ep, kTVMStr, &value, kTVMStr);
    tvmrt__release(owned);
    return rc;
  }
  tvmrt__release(owned);
  return tvmrt__fail_type("a result that is an object cannot be sent; return plain values.");
}

/* Takes over the object of the value, if any. NULL handles are sent as kTVMNullptr. */
static int reply_result(tvmrt_rpc_endpoint* ep, const TVMValue* value, int code) {
  tvmrt_object* object = tvmrt__value_object(value, code);
  if (object != NULL) return reply_object(ep, object, code);
  if (code == kTVMNullptr || (code >= kTVMObjectHandle && code <= kTVMPackedFuncHandle)) {
    const int null = kTVMNullptr;
    TVMValue type;
    type.v_int64 = null;
    return reply_pair(ep, null, &type, null);
  }
  if (code == kTVMOpaqueHandle) return tvmrt__fail_type("a result that is an address is not sent.");
  return reply_pair(ep, code, value, code);
}

/* ---- arguments ---- */

/* Translate handles of the client into objects of this process, which are borrowed from the table.
 * Addresses other than NULL are not accepted. */
static int resolve(tvmrt_rpc_endpoint* ep, TVMValue* value, int code) {
  tvmrt_object* object = NULL;
  const uint64_t number = (uint64_t)value->v_int64;
  switch (code) {
    case kTVMDLTensorHandle:
      return tvmrt__rpc_handles_check_tensor(&ep->handles, value->v_handle);
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_find(&ep->handles, number, code, &object));
      value->v_handle = object;
      return 0;
    case kTVMOpaqueHandle:
      if (number != 0)
        return tvmrt__fail_type("an address cannot be an argument of a remote call.");
      value->v_handle = NULL;
      return 0;
    default:
      return 0;
  }
}

/* ---- packets ---- */

/* The wire format differs between versions, so only an equal version is accepted. */
static int init_server(tvmrt_rpc_endpoint* ep, tvmrt_reader* in) {
  uint64_t size;
  const uint8_t* version;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &size));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, size, &version));
  if (size != strlen(TVMRT_RPC_VERSION) || memcmp(version, TVMRT_RPC_VERSION, (size_t)size) != 0) {
    return tvmrt__fail("the client speaks version %.*s of the protocol, this server speaks %s.",
                       size > 16 ? 16 : (int)size, (const char*)version, TVMRT_RPC_VERSION);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_read_seq(in, &ep->args));
  if (ep->initialised) return tvmrt__fail("Server has already been initialized");
  if (ep->args.count != 0) {
    return tvmrt__fail_value(
        "this server offers sessions on its own machine only; connect to the other machine "
        "directly.");
  }
  ep->initialised = true;
  return tvmrt__rpc_write_null(&ep->reply);
}

/* The arguments are in the endpoint's memory until the next packet. */
static int call(tvmrt_rpc_endpoint* ep, tvmrt_reader* in) {
  tvmrt_object* f = NULL;
  TVMValue result;
  uint64_t number;
  int code = kTVMNullptr;
  int i;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &number));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_read_seq(in, &ep->args));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_find(&ep->handles, number, kTVMPackedFuncHandle, &f));
  for (i = 0; i < ep->args.count; ++i) {
    TVMRT_RETURN_IF_ERROR(resolve(ep, &ep->args.values[i], ep->args.codes[i]));
  }
  tvmrt__retain(f); /* it may free its own handle if the server is its own client */
  rc = TVMFuncCall(f, ep->args.values, ep->args.codes, ep->args.count, &result, &code);
  tvmrt__release(f);
  return rc != 0 ? -1 : reply_result(ep, &result, code);
}

/* Copy the packet's data to a tensor in the client's memory, or make an answer with the tensor's
 * data, which are sent from there: *tail. Copies count bytes, so the shape is not needed. */
static int copy(tvmrt_rpc_endpoint* ep, int code, tvmrt_reader* in, TVMByteArray* tail) {
  DLTensor t;
  uint64_t bytes;
  const uint8_t* data;
  ep->args.num_extents = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_read_tensor(in, &ep->args, &t));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &bytes));
  if (tvmrt__reader_left(in) != (code == TVMRT_RPC_COPY_TO ? bytes : 0)) {
    return tvmrt__fail_value("a copy of %llu bytes contains %zu bytes of data.",
                             (unsigned long long)bytes, tvmrt__reader_left(in));
  }
  if (t.device.device_type != kDLCPU) {
    return tvmrt__fail_value("this server copies from and to CPU memory only.");
  }
  TVMRT_RETURN_IF_ERROR(
      tvmrt__rpc_handles_check(&ep->handles, t.device, t.data, t.byte_offset, bytes));
  if (code == TVMRT_RPC_COPY_FROM) {
    tail->data = tvmrt__tensor_data(&t);
    tail->size = (size_t)bytes;
    return tvmrt__rpc_begin(&ep->reply, TVMRT_RPC_COPY_ACK);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, bytes, &data));
  if (bytes != 0) memcpy(tvmrt__tensor_data(&t), data, (size_t)bytes);
  return tvmrt__rpc_write_null(&ep->reply);
}

/* Handle one packet. On -1 the error text is sent as the answer and the session goes on. The body
 * was read completely, so `in` is bounded by it. */
static int answer(tvmrt_rpc_endpoint* ep, int code, tvmrt_reader* in, TVMByteArray* tail) {
  if (code == TVMRT_RPC_INIT_SERVER) return init_server(ep, in);
  if (!ep->initialised) {
    return tvmrt__fail("the session has not started: its first packet must be kInitServer (2).");
  }
  if (code == TVMRT_RPC_CALL) return call(ep, in);
  if (code == TVMRT_RPC_COPY_FROM || code == TVMRT_RPC_COPY_TO) return copy(ep, code, in, tail);
  if (code < TVMRT_RPC_GET_GLOBAL || code > TVMRT_RPC_GET_STREAM) {
    return tvmrt__fail("Unknown event %d", code);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_read_seq(in, &ep->args));
  return tvmrt__rpc_syscall(ep, code);
}

/* The tail is sent from its original location, without a copy. */
static int send_reply(tvmrt_rpc_endpoint* ep, const void* tail, size_t tail_bytes) {
  tvmrt__rpc_end(&ep->reply, tail_bytes);
  return tvmrt__channel_send(ep->channel, ep->reply.data, ep->reply.size, tail, tail_bytes);
}

/* The error text is copied, since sending may overwrite it. */
static int send_error(tvmrt_rpc_endpoint* ep) {
  char* text = tvmrt__strdup(TVMGetLastError());
  int rc;
  if (text == NULL) return -1;
  rc = write_exception(&ep->reply, text);
  free(text);
  return rc != 0 ? rc : send_reply(ep, NULL, 0);
}

/* ---- the session ---- */

/* -1 ends the session: the connection is broken, or there is no memory for an error text. */
int tvmrt__rpc_endpoint_step(tvmrt_rpc_endpoint* ep) {
  uint8_t head[8];
  uint64_t bytes;
  uint64_t code = 0;
  tvmrt_reader in;
  TVMByteArray tail = {NULL, 0};
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ep->channel, head, sizeof(head), &ep->ended));
  if (ep->ended) return 0;
  tvmrt__reader_init(&in, "the packet", head, sizeof(head));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &bytes));
  /* as TVM's servers do */
  if (bytes == 0) return 0;
  if (bytes < 4 || bytes > ep->max_packet_bytes) {
    (void)tvmrt__fail_value("a packet of %llu bytes is too short, or exceeds %llu bytes.",
                            (unsigned long long)bytes, (unsigned long long)ep->max_packet_bytes);
    ep->ended = true; /* the start of the next packet is not looked for */
    return send_error(ep);
  }
  /* the buffer is reused for the next packet, up to a limit */
  ep->body.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__channel_append(ep->channel, bytes, &ep->body));
  /* an answer must not contain an error of an earlier packet */
  tvmrt__forget_error();
  tvmrt__reader_init(&in, "the packet", ep->body.data, ep->body.size);
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 4, &code));
  ep->ended = code == TVMRT_RPC_SHUTDOWN;
  if (ep->ended) return 0;
  /* signed, as in TVM, and compared with the known codes */
  if (answer(ep, (int)(int32_t)(uint32_t)code, &in, &tail) != 0) return send_error(ep);
  if (ep->body.capacity > MAX_RETAINED_BYTES) tvmrt__buf_free(&ep->body);
  return send_reply(ep, tail.data, tail.size);
}

/* The limits are large enough for networks with all weights. */
void tvmrt__rpc_endpoint_begin(tvmrt_rpc_endpoint* ep, tvmrt_channel* channel) {
  memset(ep, 0, sizeof(*ep));
  ep->channel = channel;
  ep->max_packet_bytes = (uint64_t)1 << 34;
  ep->max_memory_bytes = (uint64_t)1 << 34;
}

/* Free everything the client has left. */
void tvmrt__rpc_endpoint_end(tvmrt_rpc_endpoint* ep) {
  tvmrt__rpc_handles_free(&ep->handles);
  tvmrt__buf_free(&ep->body);
  tvmrt__buf_free(&ep->reply);
}

/* (connected descriptor): serve a client whose key was checked, until its session ends. */
TVMRT_PLUGIN_NATIVE(rpc_server_loop) {
  tvmrt_rpc_endpoint ep;
  tvmrt_channel ch;
  int64_t fd;
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
  tvmrt__channel_over(&ch, (int)fd);
  tvmrt__rpc_endpoint_begin(&ep, &ch);
  do {
    rc = tvmrt__rpc_endpoint_step(&ep);
  } while (rc == 0 && !ep.ended);
  tvmrt__rpc_endpoint_end(&ep);
  return rc;
}
