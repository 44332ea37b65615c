/* Values in packets of remote calls, of boards and hosts.
 *
 * Numbers are little-endian. A list of values is a count, the type codes, and the value of each
 * code. A call of function 5 with the integer 7, as numbers of 8, 4, 8, 4, 4 and 8 bytes:
 *
 *   28 | 3 (kCallFunc) | 5 | 1 value | 0 (an int) | 7
 *
 * The length counts the bytes after it. Values are read into a struct of fixed size: texts and bytes
 * point into the packet. Everything is checked as untrusted input. Missing data sets `failed`, which
 * callers test after reading; a writer without room does the same, and its output is then
 * invalid. */
#include "../../../src_backend/mem_functions.h"
#include "../../../src_backend/string_functions.h"
#include "remote.h"

/* ---- reading ---- */

/* The next bytes, written to only by end_texts(); NULL if there are fewer. */
static uint8_t* take(remote_reader* in, uint64_t bytes) {
  uint8_t* at = in->at;
  if (bytes > in->left) {
    in->failed = 1;
    return NULL;
  }
  in->at += (size_t)bytes;
  in->left -= (size_t)bytes;
  return at;
}

/* Little-endian, up to 8 bytes; 0 if they are missing, and `failed` is set. */
uint64_t tvmrt__remote_read_uint(remote_reader* in, size_t bytes) {
  const uint8_t* at = take(in, bytes);
  uint64_t value = 0;
  size_t i;
  if (at == NULL) return 0;
  for (i = 0; i < bytes; ++i) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

/* Signed, since type codes and device ids may be negative. */
static int32_t read_i32(remote_reader* in) {
  return (int32_t)(uint32_t)tvmrt__remote_read_uint(in, 4);
}

/* Any number is accepted; the device's existence is checked on use. */
static void read_device(remote_reader* in, DLDevice* out) {
  out->device_type = (DLDeviceType)read_i32(in);
  out->device_id = read_i32(in);
}

/* One word: code, bits and lanes from the low end up. */
static void read_dtype(remote_reader* in, DLDataType* out) {
  const uint32_t word = (uint32_t)tvmrt__remote_read_uint(in, 4);
  out->code = (uint8_t)word;
  out->bits = (uint8_t)(word >> 8);
  out->lanes = (uint16_t)(word >> 16);
}

/* Its address comes from the peer and is not checked yet. Extents of all tensors share one array.
 * The rank is checked before any extent is read; any extent is accepted here. The caller tests
 * `failed`. */
tvm_crt_error_t tvmrt__remote_read_tensor(remote_reader* in, remote_values* values, DLTensor* out) {
  const uint64_t address = tvmrt__remote_read_uint(in, 8);
  int32_t i;
  out->data = (void*)(uintptr_t)address;
  out->strides = NULL;
  read_device(in, &out->device);
  out->ndim = read_i32(in);
  read_dtype(in, &out->dtype);
  if (address > UINTPTR_MAX || out->ndim < 0 || out->ndim > REMOTE_MAX_NDIM ||
      out->ndim > REMOTE_MAX_EXTENTS - values->num_extents) {
    return REMOTE_FAIL(
        kTvmErrorFunctionCallInvalidArg,
        "a tensor in an RPC packet has too many dimensions, or an address that is too long.");
  }
  out->shape = &values->extents[values->num_extents];
  for (i = 0; i < out->ndim; ++i) out->shape[i] = (int64_t)tvmrt__remote_read_uint(in, 8);
  values->num_extents += out->ndim;
  out->byte_offset = tvmrt__remote_read_uint(in, 8);
  return kTvmErrorNoError;
}

/* The code gives the number of bytes. An unknown code ends the packet, as the next value could not
 * be found. */
static tvm_crt_error_t read_value(remote_reader* in, remote_values* all, int i) {
  TVMValue* value = &all->values[i];
  uint64_t size;
  value->v_int64 = 0;
  switch (all->codes[i]) {
    case kTVMNullptr:
      break;
    case kTVMDataType:
      read_dtype(in, &value->v_type);
      /* a type has 8 bytes on the wire, 4 of them unused */
      (void)tvmrt__remote_read_uint(in, 4);
      break;
    case kDLDevice:
      read_device(in, &value->v_device);
      break;
    case kTVMDLTensorHandle:
      value->v_handle = &all->tensors[i];
      return tvmrt__remote_read_tensor(in, all, &all->tensors[i]);
    case kTVMStr:
    case kTVMBytes:
      value->v_handle = &all->bytes[i];
      size = tvmrt__remote_read_uint(in, 8);
      all->bytes[i].size = (size_t)size;
      all->bytes[i].data = (const char*)take(in, size);
      break;
    case kTVMArgInt:
    case 1: /* an unsigned int */
    case kTVMArgFloat:
    case kTVMArgBool:
    case kTVMOpaqueHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      value->v_int64 = (int64_t)tvmrt__remote_read_uint(in, 8);
      break;
    default:
      return REMOTE_FAIL(kTvmErrorFunctionCallWrongArgType,
                         "a value in an RPC packet has a type that cannot be sent.");
  }
  return kTvmErrorNoError;
}

/* A text ends where the next value begins, which was already read: so its NUL may be written there.
 * The NUL of the last text is written after the packet, where there is room for it. */
static void end_texts(remote_values* all) {
  int i;
  for (i = 0; i < all->count; ++i) {
    if (all->codes[i] == kTVMStr) {
      ((char*)(uintptr_t)all->bytes[i].data)[all->bytes[i].size] = '\0';
      all->values[i].v_str = all->bytes[i].data;
    }
  }
}

/* All codes come first, then all values. Missing ones are read as 0, which has no effect: `count` is 0
 * on failure, so that no partial result is used. */
tvm_crt_error_t tvmrt__remote_read_values(remote_reader* in, remote_values* out) {
  const uint64_t count = tvmrt__remote_read_uint(in, 4);
  int i;
  out->count = 0;
  out->num_extents = 0;
  if (count > REMOTE_MAX_VALUES) {
    return REMOTE_FAIL(kTvmErrorFunctionCallNumArguments,
                       "an RPC packet has more than 256 values.");
  }
  for (i = 0; i < (int)count; ++i) out->codes[i] = read_i32(in);
  for (i = 0; i < (int)count; ++i) {
    const tvm_crt_error_t rc = read_value(in, out, i);
    if (rc != kTvmErrorNoError) return rc;
  }
  if (in->failed || in->left != 0) {
    return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                       "an RPC packet ends too early, or bytes are left over.");
  }
  out->count = (int)count;
  end_texts(out);
  return kTvmErrorNoError;
}

/* ---- writing ---- */

/* All or nothing: data that does not fit leaves the size unchanged, so the length at the end stays
 * correct. */
void tvmrt__remote_write_bytes(remote_writer* out, const void* data, size_t bytes) {
  if (bytes > out->capacity - out->size && !tvmrt__remote_grow(out, bytes)) {
    out->failed = 1;
    return;
  }
  /* An evaluator's times are already in place. */
  if (bytes != 0 && data != out->data + out->size) memcpy(out->data + out->size, data, bytes);
  out->size += bytes;
}

void tvmrt__remote_write_uint(remote_writer* out, size_t bytes, uint64_t value) {
  uint8_t text[8];
  size_t i;
  for (i = 0; i < bytes; ++i) text[i] = (uint8_t)(value >> (8 * i));
  tvmrt__remote_write_bytes(out, text, bytes);
}

void tvmrt__remote_write_data(remote_writer* out, const void* data, size_t bytes) {
  tvmrt__remote_write_uint(out, 8, bytes);
  tvmrt__remote_write_bytes(out, data, bytes);
}

/* The length is set later by tvmrt__remote_end(). */
void tvmrt__remote_begin(remote_writer* out, uint32_t code) {
  out->size = 0;
  out->failed = 0;
  out->tail_bytes = 0;
  tvmrt__remote_write_uint(out, 8, 0);
  tvmrt__remote_write_uint(out, 4, code);
}

/* Sets the length, now that the size is known. The length does not include itself. */
void tvmrt__remote_end(remote_writer* out) {
  const size_t size = out->size;
  out->size = 0;
  tvmrt__remote_write_uint(out, 8, size - 8 + out->tail_bytes);
  out->size = size;
}

/* The peer's device types do not contain the session's number. */
static void write_device(remote_writer* out, DLDevice dev) {
  tvmrt__remote_write_uint(out, 4, (uint32_t)dev.device_type % TVMRT_RPC_SESSION_MASK);
  tvmrt__remote_write_uint(out, 4, (uint32_t)dev.device_id);
}

static void write_dtype(remote_writer* out, DLDataType t) {
  tvmrt__remote_write_uint(out, 4,
                           (uint32_t)t.code | (uint32_t)t.bits << 8 | (uint32_t)t.lanes << 16);
}

/* The format of tvmrt__remote_read_tensor(). */
void tvmrt__remote_write_tensor(remote_writer* out, const DLTensor* t) {
  int32_t i;
  tvmrt__remote_write_uint(out, 8, (uintptr_t)t->data);
  write_device(out, t->device);
  tvmrt__remote_write_uint(out, 4, (uint32_t)t->ndim);
  write_dtype(out, t->dtype);
  for (i = 0; i < t->ndim; ++i) tvmrt__remote_write_uint(out, 8, (uint64_t)t->shape[i]);
  tvmrt__remote_write_uint(out, 8, t->byte_offset);
}

static void write_value(remote_writer* out, const TVMValue* value, int code) {
  const TVMByteArray* bytes = (const TVMByteArray*)value->v_handle;
  switch (code) {
    case kTVMNullptr:
      break;
    case kTVMDataType:
      write_dtype(out, value->v_type);
      tvmrt__remote_write_uint(out, 4, 0);
      break;
    case kDLDevice:
      write_device(out, value->v_device);
      break;
    case kTVMDLTensorHandle:
      tvmrt__remote_write_tensor(out, (const DLTensor*)value->v_handle);
      break;
    case kTVMStr:
      tvmrt__remote_write_data(out, value->v_str, tvmrt__text_length(value->v_str));
      break;
    case kTVMBytes:
      tvmrt__remote_write_data(out, bytes->data, bytes->size);
      break;
    default:
      tvmrt__remote_write_uint(out, 8, (uint64_t)value->v_int64);
      break;
  }
}

/* All codes precede the values, so that a reader knows the types first. */
void tvmrt__remote_write_values(remote_writer* out, const TVMValue* values, const int* codes,
                                int count) {
  int i;
  tvmrt__remote_write_uint(out, 4, (uint32_t)count);
  for (i = 0; i < count; ++i) tvmrt__remote_write_uint(out, 4, (uint32_t)codes[i]);
  for (i = 0; i < count; ++i) write_value(out, &values[i], codes[i]);
}
