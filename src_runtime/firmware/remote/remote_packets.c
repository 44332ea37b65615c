/* Packets of remote calls, and their answers, of boards and hosts.
 *
 * The protocol is TVM's RPC, without callbacks. The client is not trusted: each handle and address
 * in a packet is compared with those that this client knows before it is read, written or called
 * (remote_handles.c; on hosts the plug-in's handles.c). An answer is written into one buffer from
 * its beginning; if it fails midway, the error replaces it, and the session goes on. */
#include "../../../src_backend/mem_functions.h"
#include "../../../src_backend/string_functions.h"
#include "remote.h"

/* The arguments of a call or a system call, and its answer. */
typedef struct request {
  remote_session* session;
  remote_values in;
  remote_writer* out;
} request;

/* ---- answers ---- */

static tvm_crt_error_t reply(const request* r, const TVMValue* values, const int* codes,
                             int count) {
  tvmrt__remote_begin(r->out, TVMRT_RPC_RETURN);
  tvmrt__remote_write_values(r->out, values, codes, count);
  return kTvmErrorNoError;
}

/* One value, without a preceding type. */
static tvm_crt_error_t reply_int(const request* r, int code, uint64_t number) {
  TVMValue value;
  value.v_int64 = (int64_t)number;
  return reply(r, &value, &code, 1);
}

/* Calls without a result get an answer, too, since clients count answers. */
static tvm_crt_error_t reply_empty(const request* r) { return reply_int(r, kTVMNullptr, 0); }

void tvmrt__remote_write_error(remote_writer* out, tvm_crt_error_t code) {
  static const int type = kTVMStr;
  char room[16];
  TVMValue value;
  value.v_str = tvmrt__remote_error_text(code, room);
  tvmrt__remote_begin(out, TVMRT_RPC_EXCEPTION);
  tvmrt__remote_write_values(out, &value, &type, 1);
  tvmrt__remote_end(out);
}

/* ---- calls ---- */

/* Handles become objects, which are borrowed from the table. A tensor is used at the address that
 * the client gives; an opaque handle only as NULL, since its target is unknown. */
static tvm_crt_error_t resolve(request* r, int i) {
  const remote_handles* handles = &r->session->handles;
  TVMValue* value = &r->in.values[i];
  /* the client's machine may have wider addresses */
  const uint64_t number = (uint64_t)value->v_int64;
  switch (r->in.codes[i]) {
    case kTVMDLTensorHandle:
      return tvmrt__remote_check_access(handles, &r->in.tensors[i],
                                        tvmrt__remote_tensor_bytes(&r->in.tensors[i]));
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      return tvmrt__remote_find_handle(handles, r->in.codes[i], number, &value->v_handle);
    case kTVMOpaqueHandle:
      if (number != 0) {
        return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                           "an address cannot be an argument of a remote call.");
      }
      value->v_handle = NULL;
      return kTvmErrorNoError;
    default:
      return kTvmErrorNoError;
  }
}

/* Codes and values like a packed function's: the type, so that clients know the meaning of a
 * number, and the value. A tensor is followed by its handle; the client may then access its memory.
 * Handles are added first: without room in the table the client gets an error instead. */
static tvm_crt_error_t reply_result(const request* r, TVMValue value, int code) {
  TVMValue values[3];
  int codes[3] = {kTVMArgInt, kTVMNullptr, kTVMOpaqueHandle};
  int count = 2;
  uint64_t number = 0;
  tvm_crt_error_t rc = kTvmErrorNoError;
  values[0].v_int64 = code;
  values[1] = value;
  codes[1] = code;
  switch (code) {
    case kTVMNullptr:
    case kTVMArgInt:
    case kTVMArgFloat:
    case kTVMArgBool: /* unchanged: the code gives the client the width of a number */
    case kTVMDataType:
    case kDLDevice:
    case kTVMBytes:
      break;
    case kTVMStr:
      if (value.v_str == NULL) {
        return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg, "a text that is NULL.");
      }
      break;
    case kTVMNDArrayHandle:
      rc = tvmrt__remote_add_handle(&r->session->handles, code, value.v_handle, &number);
      codes[1] = kTVMDLTensorHandle;
      values[2].v_int64 = (int64_t)number;
      count = 3;
      break;
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      rc = tvmrt__remote_add_handle(&r->session->handles, code, value.v_handle, &number);
      codes[1] = kTVMOpaqueHandle;
      values[1].v_int64 = (int64_t)number;
      break;
    default:
      return REMOTE_FAIL(
          kTvmErrorFunctionCallNotImplemented,
          "a result that is an object or an address cannot be sent; return plain values.");
  }
  return rc != kTvmErrorNoError ? rc : reply(r, values, codes, count);
}

/* An error of the function is returned as its code. */
static tvm_crt_error_t call(request* r, uint64_t number) {
  TVMValue result;
  void* function = NULL;
  int code = kTVMNullptr;
  int i;
  tvm_crt_error_t rc =
      tvmrt__remote_find_handle(&r->session->handles, kTVMPackedFuncHandle, number, &function);
  for (i = 0; i < r->in.count && rc == kTvmErrorNoError; ++i) rc = resolve(r, i);
  if (rc != kTvmErrorNoError) return rc;
  result.v_int64 = 0;
  rc = tvmrt__remote_call(r->session, function, &r->in, r->out, &result, &code);
  return rc != kTvmErrorNoError ? rc : reply_result(r, result, code);
}

/* ---- system calls ---- */

/* Checks the number of arguments and the types of the first two; the others are checked where they
 * are read. */
static tvm_crt_error_t expect(const request* r, int count, int first, int second) {
  if (r->in.count < count) {
    return REMOTE_FAIL(kTvmErrorFunctionCallWrongArgType,
                       "a system call takes %d arguments, got %d.", count, r->in.count);
  }
  if (r->in.codes[0] != first || (count > 1 && r->in.codes[1] != second)) {
    return REMOTE_FAIL(
        kTvmErrorFunctionCallWrongArgType,
        "argument 0 or 1 of a system call has another type than TVM's clients send.");
  }
  return kTvmErrorNoError;
}

/* An unknown name gives NULL, and is not an error. */
static tvm_crt_error_t get_global(const request* r) {
  void* f = NULL;
  uint64_t number = 0;
  tvm_crt_error_t rc = expect(r, 1, kTVMStr, 0);
  if (rc == kTvmErrorNoError) {
    rc = tvmrt__remote_find_global(r->session, r->in.values[0].v_str, &f);
  }
  if (rc == kTvmErrorNoError && f != NULL) {
    rc = tvmrt__remote_add_handle(&r->session->handles, kTVMPackedFuncHandle, f, &number);
  }
  return rc != kTvmErrorNoError ? rc : reply_int(r, kTVMOpaqueHandle, number);
}

static tvm_crt_error_t reply_memory(const request* r, uint64_t bytes, size_t alignment,
                                    DLDevice dev) {
  void* data = NULL;
  const tvm_crt_error_t rc =
      tvmrt__remote_allocate(&r->session->handles, dev, bytes, alignment, &data);
  return rc != kTvmErrorNoError ? rc : reply_int(r, kTVMOpaqueHandle, (uintptr_t)data);
}

/* (device, bytes, alignment, type) -> address. The alignment is at most a page: a larger one would
 * use memory that no limit counts. */
static tvm_crt_error_t allocate(const request* r) {
  const TVMValue* v = r->in.values;
  const tvm_crt_error_t rc = expect(r, 4, kDLDevice, kTVMArgInt);
  if (rc != kTvmErrorNoError) return rc;
  if (r->in.codes[2] != kTVMArgInt || v[1].v_int64 < 0 || v[2].v_int64 < 0 || v[2].v_int64 > 4096) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                       "memory of a negative size, or aligned to more than 4096 bytes.");
  }
  return reply_memory(r, (uint64_t)v[1].v_int64, (size_t)v[2].v_int64, v[0].v_device);
}

/* Memory for a described tensor, whose data is not used. The second value is a memory scope. */
static tvm_crt_error_t allocate_like(const request* r) {
  const char* scope = "";
  const tvm_crt_error_t rc = expect(r, 1, kTVMDLTensorHandle, 0);
  if (rc != kTvmErrorNoError) return rc;
  if (r->in.count > 1 && r->in.codes[1] == kTVMStr) scope = r->in.values[1].v_str;
  if (*scope != '\0' && !tvmrt__text_equal(scope, "global")) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                       "there is no memory scope '%s'; there is: global.", scope);
  }
  return reply_memory(r, tvmrt__remote_tensor_bytes(&r->in.tensors[0]), 0, r->in.tensors[0].device);
}

/* Frees only memory that this client has allocated. NULL is ignored. */
static tvm_crt_error_t free_memory(const request* r) {
  const TVMValue* v = r->in.values;
  tvm_crt_error_t rc = expect(r, 2, kDLDevice, kTVMOpaqueHandle);
  if (rc == kTvmErrorNoError && v[1].v_int64 != 0) {
    rc = tvmrt__remote_free(&r->session->handles, v[0].v_device, (uint64_t)v[1].v_int64);
  }
  return rc != kTvmErrorNoError ? rc : reply_empty(r);
}

/* Two empty tensors may have no addresses, which the copy requires. */
static tvm_crt_error_t copy_among(request* r) {
  DLTensor* t = r->in.tensors;
  size_t bytes = 0;
  int i;
  tvm_crt_error_t rc = expect(r, 2, kTVMDLTensorHandle, kTVMDLTensorHandle);
  for (i = 0; i < 2 && rc == kTvmErrorNoError; ++i) {
    const size_t size = tvmrt__remote_tensor_bytes(&t[i]);
    bytes |= size;
    rc = tvmrt__remote_check_access(&r->session->handles, &t[i], size);
  }
  if (rc == kTvmErrorNoError && bytes != 0) {
    rc = (tvm_crt_error_t)TVMDeviceCopyDataFromTo(&t[0], &t[1], NULL);
  }
  return rc != kTvmErrorNoError ? rc : reply_empty(r);
}

/* Only whether the CPU exists is known. */
static tvm_crt_error_t get_attribute(const request* r) {
  const tvm_crt_error_t rc = expect(r, 2, kDLDevice, kTVMArgInt);
  if (rc != kTvmErrorNoError) return rc;
  if (r->in.values[1].v_int64 != 0) return reply_empty(r);
  return reply_int(r, kTVMArgInt, r->in.values[0].v_device.device_type == kDLCPU);
}

static tvm_crt_error_t free_handle(const request* r) {
  tvm_crt_error_t rc = expect(r, 1, kTVMOpaqueHandle, 0);
  if (rc == kTvmErrorNoError) {
    rc = tvmrt__remote_drop_handle(&r->session->handles, (uint64_t)r->in.values[0].v_int64);
  }
  return rc != kTvmErrorNoError ? rc : reply_empty(r);
}

/* The numbers are TVM's; unknown ones are answered by an error, and the session continues. */
static tvm_crt_error_t system_call(request* r, uint32_t code) {
  switch (code) {
    case TVMRT_RPC_GET_GLOBAL:
      return get_global(r);
    case TVMRT_RPC_FREE_HANDLE:
      return free_handle(r);
    case TVMRT_RPC_GET_ATTR:
      return get_attribute(r);
    case TVMRT_RPC_ALLOC:
      return allocate(r);
    case TVMRT_RPC_ALLOC_SCOPE:
      return allocate_like(r);
    case TVMRT_RPC_FREE_DATA:
      return free_memory(r);
    case TVMRT_RPC_COPY_REMOTE:
      return copy_among(r);
    case TVMRT_RPC_NEW_STREAM:
    case TVMRT_RPC_GET_STREAM: /* the default stream, which is the only one */
      return reply_int(r, kTVMOpaqueHandle, 0);
    default: /* selecting the device or a stream; waiting for a stream, whose work is complete when
                its call is answered */
      return reply_empty(r);
  }
}

/* ---- copies ---- */

/* Bytes to the server follow the head in the packet; bytes from it follow the answer's head. Copies
 * count bytes, so the tensor's shape is not used. */
static tvm_crt_error_t copy(request* r, uint32_t code, remote_reader* in) {
  DLTensor* t = &r->in.tensors[0];
  tvm_crt_error_t rc = tvmrt__remote_read_tensor(in, &r->in, t);
  uint64_t bytes;
  uint8_t* data;
  if (rc != kTvmErrorNoError) return rc;
  bytes = tvmrt__remote_read_uint(in, 8);
  if (in->failed || in->left != (code == TVMRT_RPC_COPY_TO ? bytes : 0)) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                       "a copy of %llu bytes contains %zu bytes of data.",
                       (unsigned long long)bytes, in->left);
  }
  if (t->device.device_type != kDLCPU) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                       "this server copies from and to CPU memory only.");
  }
  rc = tvmrt__remote_check_access(&r->session->handles, t, bytes);
  if (rc != kTvmErrorNoError) return rc;
  data = bytes == 0 ? NULL : (uint8_t*)t->data + t->byte_offset;
  if (code == TVMRT_RPC_COPY_TO) {
    if (bytes != 0) memcpy(data, in->at, (size_t)bytes);
    return reply_empty(r);
  }
  tvmrt__remote_begin(r->out, TVMRT_RPC_COPY_ACK);
  tvmrt__remote_write_tail(r->out, data, (size_t)bytes);
  return kTvmErrorNoError;
}

/* ---- packets ---- */

/* There is only one kind of session, so arguments are not allowed. */
static tvm_crt_error_t begin_session(request* r, remote_reader* in) {
  const uint64_t size = tvmrt__remote_read_uint(in, 8);
  tvm_crt_error_t rc;
  if (size > in->left) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg, "an RPC packet ends too early.");
  }
  rc = tvmrt__remote_check_version(in->at, (size_t)size);
  if (rc != kTvmErrorNoError) return rc;
  in->left -= (size_t)size;
  in->at += (size_t)size;
  rc = tvmrt__remote_read_values(in, &r->in);
  if (rc != kTvmErrorNoError) return rc;
  if (r->in.count != 0) {
    return REMOTE_FAIL(kTvmErrorFunctionCallNumArguments,
                       "this server offers sessions on its own machine only; connect to the "
                       "other machine directly.");
  }
  if (r->session->initialised) {
    return REMOTE_FAIL(kTvmErrorSessionInvalidState, "Server has already been initialized");
  }
  r->session->initialised = 1;
  return reply_empty(r);
}

/* The stated length must equal the received one. Before the session has begun only its end is
 * accepted. */
static tvm_crt_error_t answer(request* r, remote_reader* in) {
  const uint64_t bytes = tvmrt__remote_read_uint(in, 8);
  const uint32_t code = (uint32_t)tvmrt__remote_read_uint(in, 4);
  uint64_t function;
  tvm_crt_error_t rc;
  r->in.num_extents = 0;
  if (in->failed || bytes != in->left + 4) {
    return REMOTE_FAIL(kTvmErrorFramingPayloadIncomplete, "an RPC packet is incomplete.");
  }
  if (code == TVMRT_RPC_SHUTDOWN) {
    r->session->ended = 1;
    return reply_empty(r);
  }
  if (code == TVMRT_RPC_INIT_SERVER) return begin_session(r, in);
  if (!r->session->initialised) {
    return REMOTE_FAIL(kTvmErrorSessionInvalidState,
                       "the session has not started: its first packet must be kInitServer (2).");
  }
  if (code == TVMRT_RPC_COPY_FROM || code == TVMRT_RPC_COPY_TO) return copy(r, code, in);
  if (code != TVMRT_RPC_CALL && (code < TVMRT_RPC_GET_GLOBAL || code > TVMRT_RPC_GET_STREAM)) {
    return REMOTE_FAIL(kTvmErrorFunctionCallNotImplemented, "Unknown event %d", (int)code);
  }
  function = code == TVMRT_RPC_CALL ? tvmrt__remote_read_uint(in, 8) : 0;
  rc = tvmrt__remote_read_values(in, &r->in);
  if (rc != kTvmErrorNoError) return rc;
  return code == TVMRT_RPC_CALL ? call(r, function) : system_call(r, code);
}

/* Always writes an answer. The packet is changed: texts in it get their NUL. */
void tvmrt__remote_answer(remote_session* s, uint8_t* packet, size_t bytes, remote_writer* out) {
  request r;
  remote_reader in;
  tvm_crt_error_t rc;
  r.session = s;
  r.out = out;
  in.at = packet;
  in.left = bytes;
  in.failed = 0;
  rc = answer(&r, &in);
  if (rc == kTvmErrorNoError && out->failed) rc = kTvmErrorBufferTooSmall;
  if (rc != kTvmErrorNoError) {
    tvmrt__remote_write_error(out, rc);
  } else {
    tvmrt__remote_end(out);
  }
}
