/* Wire format of remote calls.
 *
 * Numbers are little-endian. A value list is a count, the type codes, and the value of each code.
 * Values point into the packet (strings, bytes) or into arrays of the list, which have a fixed size.
 * Everything is checked as untrusted input.
 *
 * A call of function 5 with the integer 7, as numbers of 8, 4, 8, 4, 4 and 8 bytes:
 *
 *   28 | 3 (kCallFunc) | 5 | 1 value | 0 (an int) | 7
 *
 * The length counts the bytes after it. */
#include "wire.h"

#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"

/* ---- reading ---- */

/* Signed, since type codes and device ids may be negative. */
static int read_i32(tvmrt_reader* in, int32_t* out) {
  uint64_t value;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 4, &value));
  *out = (int32_t)(uint32_t)value;
  return 0;
}

/* Any number is accepted; the device's existence is checked on use. */
static int read_device(tvmrt_reader* in, DLDevice* out) {
  int32_t type;
  TVMRT_RETURN_IF_ERROR(read_i32(in, &type));
  out->device_type = (DLDeviceType)type;
  return read_i32(in, &out->device_id);
}

/* One word: code, bits and lanes from the low end up. */
static int read_dtype(tvmrt_reader* in, DLDataType* out) {
  uint64_t bits;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 4, &bits));
  out->code = (uint8_t)bits;
  out->bits = (uint8_t)(bits >> 8);
  out->lanes = (uint16_t)(bits >> 16);
  return 0;
}

/* The address is the peer's and has not been checked yet. Any extent is accepted here;
 * tvmrt__tensor_bytes() rejects invalid shapes. */
int tvmrt__rpc_read_tensor(tvmrt_reader* in, tvmrt_rpc_seq* seq, DLTensor* out) {
  uint64_t data;
  int i;
  memset(out, 0, sizeof(*out));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &data));
  TVMRT_RETURN_IF_ERROR(read_device(in, &out->device));
  TVMRT_RETURN_IF_ERROR(read_i32(in, &out->ndim));
  TVMRT_RETURN_IF_ERROR(read_dtype(in, &out->dtype));
  if (out->ndim < 0 || out->ndim > TVMRT_MAX_NDIM ||
      out->ndim > TVMRT_RPC_MAX_EXTENTS - seq->num_extents) {
    return tvmrt__reader_fail(in, "its tensors have too many dimensions");
  }
  if (data > UINTPTR_MAX)
    return tvmrt__reader_fail(in, "an address does not fit into a pointer of this machine");
  out->data = (void*)(uintptr_t)data;
  out->shape = &seq->extents[seq->num_extents];
  for (i = 0; i < out->ndim; ++i) {
    uint64_t extent;
    TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &extent));
    seq->extents[seq->num_extents++] = (int64_t)extent;
  }
  return tvmrt__read_uint(in, 8, &out->byte_offset);
}

/* The bytes stay in the packet, and are valid as long as it. */
static int read_bytes(tvmrt_reader* in, TVMByteArray* out) {
  uint64_t size;
  const uint8_t* data;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &size));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(in, size, &data));
  out->data = (const char*)data;
  out->size = (size_t)size;
  return 0;
}

/* Codes outside the protocol fail, so that no value is left unset. */
static int read_value(tvmrt_reader* in, tvmrt_rpc_seq* seq, int i) {
  TVMValue* value = &seq->values[i];
  uint64_t number = 0;
  value->v_int64 = 0;
  switch (seq->codes[i]) {
    case kTVMNullptr:
      return 0;
    case kTVMDataType:
      TVMRT_RETURN_IF_ERROR(read_dtype(in, &value->v_type));
      /* a type has 8 bytes on the wire, 4 of them unused */
      return tvmrt__read_uint(in, 4, &number);
    case kDLDevice:
      return read_device(in, &value->v_device);
    case kTVMDLTensorHandle:
      value->v_handle = &seq->tensors[i];
      return tvmrt__rpc_read_tensor(in, seq, &seq->tensors[i]);
    case kTVMStr:
    case kTVMBytes:
      value->v_handle = &seq->bytes[i];
      return read_bytes(in, &seq->bytes[i]);
    case kTVMArgInt:
    case 1: /* an unsigned int */
    case kTVMArgFloat:
    case kTVMArgBool:
    case kTVMOpaqueHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      break;
    default:
      return tvmrt__reader_fail(in, "a value of a type that cannot be sent");
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &number));
  value->v_int64 = (int64_t)number;
  return 0;
}

/* The next value has been read by now, so its first byte can be overwritten with the string's
 * NUL. */
static void end_strings(tvmrt_rpc_seq* seq) {
  int i;
  for (i = 0; i < seq->count; ++i) {
    if (seq->codes[i] != kTVMStr) continue;
    ((char*)(uintptr_t)seq->bytes[i].data)[seq->bytes[i].size] = '\0';
    seq->values[i].v_str = seq->bytes[i].data;
  }
}

/* On failure the list is empty. */
int tvmrt__rpc_read_seq(tvmrt_reader* in, tvmrt_rpc_seq* seq) {
  int32_t count;
  int i;
  seq->count = 0;
  seq->num_extents = 0;
  TVMRT_RETURN_IF_ERROR(read_i32(in, &count));
  if (count < 0 || count > TVMRT_RPC_MAX_VALUES) {
    return tvmrt__reader_fail(in, "it has more than 256 values");
  }
  for (i = 0; i < count; ++i) TVMRT_RETURN_IF_ERROR(read_i32(in, &seq->codes[i]));
  for (i = 0; i < count; ++i) TVMRT_RETURN_IF_ERROR(read_value(in, seq, i));
  /* A packet contains one list and nothing after it. */
  if (tvmrt__reader_left(in) != 0) return tvmrt__reader_fail(in, "bytes are left over");
  seq->count = count;
  end_strings(seq);
  return 0;
}

/* ---- writing ---- */

/* The length prefix is filled in by tvmrt__rpc_end(). */
int tvmrt__rpc_begin(tvmrt_buf* out, tvmrt_rpc_code code) {
  out->size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, 0));
  return tvmrt__write_uint(out, 4, (uint64_t)code);
}

/* `more` is the number of bytes sent from elsewhere; the length prefix includes them. */
void tvmrt__rpc_end(tvmrt_buf* out, uint64_t more) {
  const uint64_t bytes = out->size - 8 + more;
  int i;
  for (i = 0; i < 8; ++i) out->data[i] = (char)(uint8_t)(bytes >> (8 * i));
}

/* The peer's device types do not contain the session's number. */
static int write_device(tvmrt_buf* out, DLDevice dev) {
  const int type = (int)dev.device_type % TVMRT_RPC_SESSION_MASK;
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, (uint32_t)type));
  return tvmrt__write_uint(out, 4, (uint32_t)dev.device_id);
}

/* Inverse of read_dtype(). */
static int write_dtype(tvmrt_buf* out, DLDataType t) {
  return tvmrt__write_uint(out, 4,
                           (uint32_t)t.code | (uint32_t)t.bits << 8 | (uint32_t)t.lanes << 16);
}

/* The address is the peer's and is sent as a number. */
int tvmrt__rpc_write_tensor(tvmrt_buf* out, const DLTensor* t) {
  int i;
  if (!tvmrt__has_shape(t)) {
    return tvmrt__fail_value("a tensor whose shape is NULL cannot be passed to a remote function.");
  }
  if (!tvmrt__is_compact(t)) {
    return tvmrt__fail_value("a tensor with strides cannot be passed to a remote function.");
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, (uintptr_t)t->data));
  TVMRT_RETURN_IF_ERROR(write_device(out, t->device));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, (uint32_t)t->ndim));
  TVMRT_RETURN_IF_ERROR(write_dtype(out, t->dtype));
  for (i = 0; i < t->ndim; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, (uint64_t)t->shape[i]));
  }
  return tvmrt__write_uint(out, 8, t->byte_offset);
}

/* Borrows the number of bytes, which is its shape. */
DLTensor tvmrt__rpc_bytes(DLDevice dev, const void* data, int64_t* bytes) {
  DLTensor t;
  memset(&t, 0, sizeof(t));
  t.data = (void*)(uintptr_t)data;
  t.device = dev;
  t.ndim = 1;
  t.dtype = (DLDataType){kDLUInt, 8, 1};
  t.shape = bytes;
  return t;
}

/* Without a NUL; the reader adds one. */
static int write_bytes(tvmrt_buf* out, const char* data, size_t size) {
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, size));
  return tvmrt__buf_append(out, data, size);
}

/* `code` was checked by prepare() or set by the server, so it is always a code of the protocol. */
static int write_value(tvmrt_buf* out, const TVMValue* value, int code) {
  const TVMByteArray* bytes = value->v_handle;
  switch (code) {
    case kTVMNullptr:
      return 0;
    case kTVMDataType:
      TVMRT_RETURN_IF_ERROR(write_dtype(out, value->v_type));
      return tvmrt__write_uint(out, 4, 0);
    case kDLDevice:
      return write_device(out, value->v_device);
    case kTVMDLTensorHandle:
      return tvmrt__rpc_write_tensor(out, value->v_handle);
    case kTVMStr:
      return write_bytes(out, value->v_str, strlen(value->v_str));
    case kTVMBytes:
      return write_bytes(out, bytes->data, bytes->size);
    default:
      return tvmrt__write_uint(out, 8, (uint64_t)value->v_int64);
  }
}

/* All codes precede the values, so that a reader knows the types first. On failure `out` contains a
 * part of the list. */
int tvmrt__rpc_write_seq(tvmrt_buf* out, const TVMValue* values, const int* codes, int count) {
  int i;
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, (uint32_t)count));
  for (i = 0; i < count; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, (uint32_t)codes[i]));
  }
  for (i = 0; i < count; ++i) TVMRT_RETURN_IF_ERROR(write_value(out, &values[i], codes[i]));
  return 0;
}

/* Answer of a system call. */
int tvmrt__rpc_write_return(tvmrt_buf* out, const TVMValue* value, int code) {
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(out, TVMRT_RPC_RETURN));
  return tvmrt__rpc_write_seq(out, value, &code, 1);
}

int tvmrt__rpc_write_null(tvmrt_buf* out) {
  static const TVMValue none = {0};
  return tvmrt__rpc_write_return(out, &none, kTVMNullptr);
}
