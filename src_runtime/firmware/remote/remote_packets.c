/* Firmware runtime: packets of remote calls, and their answers.
 *
 * The protocol is TVM's RPC, without features that boards cannot have: callbacks, and functions
 * with reference counts. Addresses in packets are not trusted: each is compared with those that
 * this client knows (remote_handles.c) before it is read, written or called. An answer is written
 * into the one buffer from its beginning; if it fails midway, the error replaces it. */
#include <tvm/runtime/crt/stack_allocator.h>

#include "../../../src_backend/mem_functions.h"
#include "../../../src_backend/string_functions.h"
#include "remote.h"

enum {
  /* TVM's codes; those from GET_GLOBAL to GET_STREAM are system calls, which answer() recognises by
   * this range */
  PACKET_SHUTDOWN = 1,
  PACKET_INIT = 2,
  PACKET_CALL = 3,
  PACKET_RETURN = 4,
  PACKET_EXCEPTION = 5,
  PACKET_COPY_FROM = 6,
  PACKET_COPY_TO = 7,
  PACKET_COPY_ACK = 8,
  PACKET_GET_GLOBAL = 9,
  PACKET_FREE_HANDLE = 10,
  PACKET_SET_DEVICE = 11,
  PACKET_GET_ATTR = 12,
  PACKET_ALLOC = 13,
  PACKET_FREE_DATA = 14,
  PACKET_SYNC = 15,
  PACKET_COPY_REMOTE = 16,
  PACKET_ALLOC_SCOPE = 17,
  PACKET_NEW_STREAM = 18,
  PACKET_FREE_STREAM = 19,
  PACKET_SET_STREAM = 20,
  PACKET_GET_STREAM = 21
};

/* The arguments of a call or a system call, and its answer. */
typedef struct request {
  remote_session* session;
  remote_values in;
  remote_writer* out;
} request;

/* ---- answers ---- */

/* All codes precede the values, so they are written first. */
static void write_codes(remote_writer* out, int count, int first, int second, int third) {
  tvmrt__remote_write_uint(out, 4, (uint32_t)count);
  tvmrt__remote_write_uint(out, 4, (uint32_t)first);
  if (count > 1) tvmrt__remote_write_uint(out, 4, (uint32_t)second);
  if (count > 2) tvmrt__remote_write_uint(out, 4, (uint32_t)third);
}

/* One value of 8 bytes. */
static tvm_crt_error_t reply_int(const request* r, int code, uint64_t value) {
  tvmrt__remote_begin(r->out, PACKET_RETURN);
  write_codes(r->out, 1, code, 0, 0);
  tvmrt__remote_write_uint(r->out, 8, value);
  return kTvmErrorNoError;
}

/* The answer of functions that return nothing. */
static tvm_crt_error_t reply_empty(const request* r) {
  tvmrt__remote_begin(r->out, PACKET_RETURN);
  write_codes(r->out, 1, kTVMNullptr, 0, 0);
  return kTvmErrorNoError;
}

/* The text of an error is its code, which the client can explain. Eight digits, without
 * printf(). */
static void reply_error(remote_writer* out, uint32_t code) {
  static const char digits[] = "0123456789abcdef";
  char text[] = "code 0x00000000";
  size_t i;
  for (i = sizeof(text) - 2; code != 0; --i) {
    text[i] = digits[code & 15u];
    code >>= 4;
  }
  tvmrt__remote_begin(out, PACKET_EXCEPTION);
  write_codes(out, 1, kTVMStr, 0, 0);
  tvmrt__remote_write_uint(out, 8, sizeof(text) - 1);
  tvmrt__remote_write_bytes(out, text, sizeof(text) - 1);
}

/* ---- calls ---- */

/* Addresses from the client are used only if it knows them. A tensor is used at the address that
 * the client gives; an opaque handle only as NULL, since its target is unknown. */
static tvm_crt_error_t check_argument(request* r, int i) {
  TVMValue* value = &r->in.values[i];
  /* the client's machine may have wider addresses */
  const uint64_t number = (uint64_t)value->v_int64;
  remote_handle_kind kind = REMOTE_HANDLE_FUNCTION;
  switch (r->in.codes[i]) {
    case kTVMDLTensorHandle:
      if (tvmrt__remote_may_access(&r->session->handles, &r->in.tensors[i],
                                   tvmrt__remote_tensor_bytes(&r->in.tensors[i]))) {
        return kTvmErrorNoError;
      }
      return kTvmErrorFunctionCallInvalidArg;
    case kTVMModuleHandle:
      kind = REMOTE_HANDLE_MODULE;
      break;
    case kTVMPackedFuncHandle:
      break;
    case kTVMOpaqueHandle:
      if (number != 0) return kTvmErrorFunctionCallInvalidArg;
      value->v_handle = NULL;
      return kTvmErrorNoError;
    default:
      return kTvmErrorNoError;
  }
  if (!tvmrt__remote_has_handle(&r->session->handles, kind, number)) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  value->v_handle = (void*)(uintptr_t)number;
  return kTvmErrorNoError;
}

/* The client may then access this memory, and no other. */
static tvm_crt_error_t reply_tensor(const request* r, const DLTensor* t) {
  const size_t bytes = tvmrt__remote_tensor_bytes(t);
  const tvm_crt_error_t rc = tvmrt__remote_add_handle(&r->session->handles, REMOTE_HANDLE_MEMORY,
                                                      t->data, (size_t)t->byte_offset + bytes, 0);
  if (rc != kTvmErrorNoError) return rc;
  tvmrt__remote_begin(r->out, PACKET_RETURN);
  write_codes(r->out, 3, kTVMArgInt, kTVMDLTensorHandle, kTVMOpaqueHandle);
  tvmrt__remote_write_uint(r->out, 8, kTVMNDArrayHandle);
  tvmrt__remote_write_tensor(r->out, t);
  tvmrt__remote_write_uint(r->out, 8, (uintptr_t)t);
  return kTvmErrorNoError;
}

/* Data that does not fit sets the writer's `failed`, which becomes an error at the end. */
static tvm_crt_error_t reply_bytes(const request* r, int code, const char* data, size_t bytes) {
  tvmrt__remote_begin(r->out, PACKET_RETURN);
  write_codes(r->out, 2, kTVMArgInt, code, 0);
  tvmrt__remote_write_uint(r->out, 8, (uint32_t)code);
  tvmrt__remote_write_uint(r->out, 8, bytes);
  tvmrt__remote_write_bytes(r->out, data, bytes);
  return kTvmErrorNoError;
}

/* The resource is added first: without room in the table the client gets an error instead of an
 * unusable number. */
static tvm_crt_error_t reply_handle(const request* r, int code, remote_handle_kind kind,
                                    const void* handle) {
  const tvm_crt_error_t rc = tvmrt__remote_add_handle(&r->session->handles, kind, handle, 0, 0);
  if (rc != kTvmErrorNoError) return rc;
  tvmrt__remote_begin(r->out, PACKET_RETURN);
  write_codes(r->out, 2, kTVMArgInt, kTVMOpaqueHandle, 0);
  tvmrt__remote_write_uint(r->out, 8, (uint32_t)code);
  tvmrt__remote_write_uint(r->out, 8, (uintptr_t)handle);
  return kTvmErrorNoError;
}

/* Codes and values like a packed function's: the type and the value. */
static tvm_crt_error_t reply_result(const request* r, TVMValue value, int code) {
  const TVMByteArray* bytes = (const TVMByteArray*)value.v_handle;
  switch (code) {
    case kTVMNullptr:
      tvmrt__remote_begin(r->out, PACKET_RETURN);
      write_codes(r->out, 2, kTVMArgInt, kTVMNullptr, 0);
      tvmrt__remote_write_uint(r->out, 8, kTVMNullptr);
      return kTvmErrorNoError;
    case kTVMArgInt:
    case kTVMArgFloat:
    /* unchanged: the code gives the client the width of a number */
    case kTVMArgBool:
      tvmrt__remote_begin(r->out, PACKET_RETURN);
      write_codes(r->out, 2, kTVMArgInt, code, 0);
      tvmrt__remote_write_uint(r->out, 8, (uint32_t)code);
      tvmrt__remote_write_uint(r->out, 8, (uint64_t)value.v_int64);
      return kTvmErrorNoError;
    case kTVMStr:
      if (value.v_str == NULL) return kTvmErrorFunctionCallInvalidArg;
      return reply_bytes(r, code, value.v_str, tvmrt__text_length(value.v_str));
    case kTVMBytes:
      return reply_bytes(r, code, bytes->data, bytes->size);
    case kTVMNDArrayHandle:
      return reply_tensor(r, (const DLTensor*)value.v_handle);
    case kTVMModuleHandle:
      return reply_handle(r, code, REMOTE_HANDLE_MODULE, value.v_handle);
    case kTVMPackedFuncHandle:
      return reply_handle(r, code, REMOTE_HANDLE_FUNCTION, value.v_handle);
    default:
      return kTvmErrorFunctionCallNotImplemented;
  }
}

/* An evaluator writes its times directly into the answer: there is no other memory. An error of the
 * function is returned as its code. */
static tvm_crt_error_t call(request* r, uint64_t function) {
  TVMValue result;
  int code = kTVMNullptr;
  int rc;
  int i;
  if (!tvmrt__remote_has_handle(&r->session->handles, REMOTE_HANDLE_FUNCTION, function)) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  for (i = 0; i < r->in.count; ++i) {
    const tvm_crt_error_t error = check_argument(r, i);
    if (error != kTvmErrorNoError) return error;
  }
  result.v_int64 = 0;
  tvmrt__remote_set_times(r->out->data + REMOTE_RESULT_OFFSET,
                          r->out->capacity - REMOTE_RESULT_OFFSET);
  rc = TVMFuncCall((TVMFunctionHandle)(uintptr_t)function, r->in.values, r->in.codes, r->in.count,
                   &result, &code);
  return rc != 0 ? (tvm_crt_error_t)rc : reply_result(r, result, code);
}

/* ---- system calls ---- */

/* Checks the first two arguments of a system call; the others are checked where they are read. */
static int has_codes(const request* r, int count, int first, int second) {
  if (r->in.count != count || r->in.codes[0] != first) return 0;
  return count < 2 || r->in.codes[1] == second;
}

/* Built-in functions come first, so that a program's own cannot replace them. An unknown name gives
 * NULL, and is not an error. */
static tvm_crt_error_t get_global(const request* r) {
  TVMFunctionHandle f = NULL;
  tvm_crt_error_t rc;
  if (!has_codes(r, 1, kTVMStr, 0)) return kTvmErrorFunctionCallWrongArgType;
  f = tvmrt__remote_builtin(r->in.values[0].v_str);
  if (f == NULL) {
    rc = (tvm_crt_error_t)TVMFuncGetGlobal(r->in.values[0].v_str, &f);
    if (rc != kTvmErrorNoError) return rc;
  }
  if (f != NULL) {
    rc = tvmrt__remote_add_handle(&r->session->handles, REMOTE_HANDLE_FUNCTION, f, 0, 0);
    if (rc != kTvmErrorNoError) return rc;
  }
  return reply_int(r, kTVMOpaqueHandle, (uintptr_t)f);
}

/* Owned by the session: memory that a client does not free is released when the board restarts. */
static tvm_crt_error_t reply_memory(const request* r, uint64_t bytes, size_t alignment,
                                    DLDevice dev) {
  const DLDataType hint = {kDLUInt, 8, 1};
  void* data = NULL;
  tvm_crt_error_t rc;
  if (bytes > SIZE_MAX || (alignment & (alignment - 1)) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  rc = (tvm_crt_error_t)TVMDeviceAllocDataSpace(dev, (size_t)bytes, alignment, hint, &data);
  if (rc != kTvmErrorNoError) return rc;
  rc = tvmrt__remote_add_handle(&r->session->handles, REMOTE_HANDLE_MEMORY, data, (size_t)bytes, 1);
  if (rc != kTvmErrorNoError) {
    (void)TVMDeviceFreeDataSpace(dev, data);
    return rc;
  }
  return reply_int(r, kTVMOpaqueHandle, (uintptr_t)data);
}

/* Clients ask for the alignment of their own machine; code on boards needs no more than this. */
static tvm_crt_error_t allocate(const request* r) {
  const TVMValue* v = r->in.values;
  size_t alignment;
  if (!has_codes(r, 4, kDLDevice, kTVMArgInt) || r->in.codes[2] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (v[1].v_int64 < 0 || v[2].v_int64 < 0 || v[2].v_int64 > 4096) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  /* checked above, so that nothing is truncated */
  alignment = (size_t)v[2].v_int64;
  if (alignment > TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES) alignment = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES;
  return reply_memory(r, (uint64_t)v[1].v_int64, alignment, v[0].v_device);
}

/* Memory for a described tensor. The second value is a memory scope; a board has only one. */
static tvm_crt_error_t allocate_like(const request* r) {
  if (r->in.count != 2 || r->in.codes[0] != kTVMDLTensorHandle) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (r->in.codes[1] != kTVMNullptr) return kTvmErrorFunctionCallInvalidArg;
  return reply_memory(r, tvmrt__remote_tensor_bytes(&r->in.tensors[0]), 0, r->in.tensors[0].device);
}

/* Frees only memory that this client has allocated; otherwise returns an error without effect. */
static tvm_crt_error_t free_memory(const request* r) {
  tvm_crt_error_t rc;
  if (!has_codes(r, 2, kDLDevice, kTVMOpaqueHandle)) return kTvmErrorFunctionCallWrongArgType;
  rc = tvmrt__remote_free(&r->session->handles, (uint64_t)r->in.values[1].v_int64);
  return rc != kTvmErrorNoError ? rc : reply_empty(r);
}

/* Two empty tensors may have no addresses, which the copy requires. */
static tvm_crt_error_t copy_among(const request* r) {
  const remote_handles* handles = &r->session->handles;
  DLTensor from;
  DLTensor to;
  tvm_crt_error_t rc;
  if (!has_codes(r, 3, kTVMDLTensorHandle, kTVMDLTensorHandle)) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  from = r->in.tensors[0];
  to = r->in.tensors[1];
  if (!tvmrt__remote_may_access(handles, &from, tvmrt__remote_tensor_bytes(&from)) ||
      !tvmrt__remote_may_access(handles, &to, tvmrt__remote_tensor_bytes(&to))) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  if (tvmrt__remote_tensor_bytes(&from) == 0 && tvmrt__remote_tensor_bytes(&to) == 0) {
    return reply_empty(r);
  }
  rc = (tvm_crt_error_t)TVMDeviceCopyDataFromTo(&from, &to, NULL);
  return rc != kTvmErrorNoError ? rc : reply_empty(r);
}

/* Only whether the CPU exists is known. */
static tvm_crt_error_t get_attribute(const request* r) {
  if (!has_codes(r, 2, kDLDevice, kTVMArgInt)) return kTvmErrorFunctionCallWrongArgType;
  if (r->in.values[1].v_int64 != 0) return reply_empty(r);
  return reply_int(r, kTVMArgInt, r->in.values[0].v_device.device_type == kDLCPU);
}

/* The numbers are TVM's; unknown ones are answered by an error, and the session continues. */
static tvm_crt_error_t system_call(const request* r, uint32_t code) {
  switch (code) {
    case PACKET_GET_GLOBAL:
      return get_global(r);
    case PACKET_GET_ATTR:
      return get_attribute(r);
    case PACKET_ALLOC:
      return allocate(r);
    case PACKET_ALLOC_SCOPE:
      return allocate_like(r);
    case PACKET_FREE_DATA:
      return free_memory(r);
    case PACKET_COPY_REMOTE:
      return copy_among(r);
    case PACKET_NEW_STREAM:
    case PACKET_GET_STREAM: /* the only one */
      return reply_int(r, kTVMOpaqueHandle, 0);
    case PACKET_FREE_HANDLE: /* nothing is counted: all handles live as long as the image */
    case PACKET_SET_DEVICE:
    case PACKET_SYNC:
    case PACKET_FREE_STREAM:
    case PACKET_SET_STREAM:
      return reply_empty(r);
    default:
      return kTvmErrorFunctionCallNotImplemented;
  }
}

/* ---- copies ---- */

/* Bytes to the board follow the head in the packet; bytes from it follow the answer's head. */
static tvm_crt_error_t copy(request* r, uint32_t code, remote_reader* in) {
  DLTensor* t = &r->in.tensors[0];
  const tvm_crt_error_t rc = tvmrt__remote_read_tensor(in, &r->in, t);
  uint64_t bytes;
  uint8_t* data;
  if (rc != kTvmErrorNoError) return rc;
  bytes = tvmrt__remote_read_uint(in, 8);
  /* the stated number of bytes must be exact */
  if (in->failed || in->left != (code == PACKET_COPY_TO ? bytes : 0) ||
      !tvmrt__remote_may_access(&r->session->handles, t, bytes)) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  data = bytes == 0 ? NULL : (uint8_t*)t->data + t->byte_offset;
  if (code == PACKET_COPY_TO) {
    if (bytes != 0) memcpy(data, in->at, (size_t)bytes);
    return reply_empty(r);
  }
  tvmrt__remote_begin(r->out, PACKET_COPY_ACK);
  tvmrt__remote_write_bytes(r->out, data, (size_t)bytes);
  return kTvmErrorNoError;
}

/* ---- packets ---- */

/* The version's text is ignored, and arguments are not allowed: there is only one kind of
 * session. */
static tvm_crt_error_t begin_session(const request* r, remote_reader* in) {
  const uint64_t size = tvmrt__remote_read_uint(in, 8);
  if (in->failed || size > in->left) return kTvmErrorFunctionCallInvalidArg;
  in->left -= (size_t)size;
  in->at += (size_t)size;
  if (tvmrt__remote_read_uint(in, 4) != 0) return kTvmErrorFunctionCallNumArguments;
  if (in->failed || r->session->initialised) return kTvmErrorSessionInvalidState;
  r->session->initialised = 1;
  return reply_empty(r);
}

/* The stated length must equal the received one, as the frame was complete. Before the session has
 * begun only its end is accepted. */
static tvm_crt_error_t answer(request* r, remote_reader* in) {
  const uint64_t bytes = tvmrt__remote_read_uint(in, 8);
  const uint32_t code = (uint32_t)tvmrt__remote_read_uint(in, 4);
  uint64_t function;
  tvm_crt_error_t rc;
  r->in.num_extents = 0;
  if (in->failed || bytes != in->left + 4) return kTvmErrorFramingPayloadIncomplete;
  if (code == PACKET_SHUTDOWN) {
    r->session->ended = 1;
    return reply_empty(r);
  }
  if (code == PACKET_INIT) return begin_session(r, in);
  if (!r->session->initialised) return kTvmErrorSessionInvalidState;
  if (code == PACKET_COPY_FROM || code == PACKET_COPY_TO) return copy(r, code, in);
  if (code != PACKET_CALL && (code < PACKET_GET_GLOBAL || code > PACKET_GET_STREAM)) {
    return kTvmErrorFunctionCallNotImplemented;
  }
  function = code == PACKET_CALL ? tvmrt__remote_read_uint(in, 8) : 0;
  rc = tvmrt__remote_read_values(in, &r->in);
  if (rc != kTvmErrorNoError) return rc;
  return code == PACKET_CALL ? call(r, function) : system_call(r, code);
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
  if (rc != kTvmErrorNoError) reply_error(out, (uint32_t)rc);
  tvmrt__remote_end(out);
}
