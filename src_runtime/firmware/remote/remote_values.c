/* Firmware runtime: values in packets of remote calls.
 *
 * Values are read into a struct of fixed size, one per session: texts and bytes point into the
 * packet. Missing or excess data sets `failed`, which callers test after reading; a writer without
 * room does the same, and its output is then invalid. */
#include "../../../src_backend/mem_functions.h"
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

static void read_device(remote_reader* in, DLDevice* out) {
  out->device_type = (DLDeviceType)(int32_t)(uint32_t)tvmrt__remote_read_uint(in, 4);
  out->device_id = (int32_t)(uint32_t)tvmrt__remote_read_uint(in, 4);
}

static void read_dtype(remote_reader* in, DLDataType* out) {
  out->code = (uint8_t)tvmrt__remote_read_uint(in, 1);
  out->bits = (uint8_t)tvmrt__remote_read_uint(in, 1);
  out->lanes = (uint16_t)tvmrt__remote_read_uint(in, 2);
}

/* Its address comes from the client and is not checked yet. Extents of all tensors share one array.
 * The rank is checked before any extent is read. */
tvm_crt_error_t tvmrt__remote_read_tensor(remote_reader* in, remote_values* values, DLTensor* out) {
  uint64_t address = tvmrt__remote_read_uint(in, 8);
  int32_t i;
  out->data = (void*)(uintptr_t)address;
  out->strides = NULL;
  read_device(in, &out->device);
  out->ndim = (int32_t)(uint32_t)tvmrt__remote_read_uint(in, 4);
  read_dtype(in, &out->dtype);
  if (in->failed || address > UINTPTR_MAX || out->ndim < 0 ||
      out->ndim > REMOTE_MAX_EXTENTS - values->num_extents) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  out->shape = &values->extents[values->num_extents];
  for (i = 0; i < out->ndim; ++i) out->shape[i] = (int64_t)tvmrt__remote_read_uint(in, 8);
  values->num_extents += out->ndim;
  out->byte_offset = tvmrt__remote_read_uint(in, 8);
  return in->failed ? kTvmErrorFunctionCallInvalidArg : kTvmErrorNoError;
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
      return kTvmErrorFunctionCallWrongArgType;
  }
  return in->failed ? kTvmErrorFunctionCallInvalidArg : kTvmErrorNoError;
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

/* All codes come first, then all values. `count` is 0 on failure, so that no partial result is
 * used. */
tvm_crt_error_t tvmrt__remote_read_values(remote_reader* in, remote_values* out) {
  const uint64_t count = tvmrt__remote_read_uint(in, 4);
  int i;
  out->count = 0;
  out->num_extents = 0;
  if (in->failed) return kTvmErrorFunctionCallInvalidArg;
  if (count > REMOTE_MAX_VALUES) return kTvmErrorFunctionCallNumArguments;
  for (i = 0; i < (int)count; ++i) {
    out->codes[i] = (int)(int32_t)(uint32_t)tvmrt__remote_read_uint(in, 4);
  }
  for (i = 0; i < (int)count; ++i) {
    const tvm_crt_error_t rc = read_value(in, out, i);
    if (rc != kTvmErrorNoError) return rc;
  }
  if (in->failed || in->left != 0) return kTvmErrorFunctionCallInvalidArg;
  out->count = (int)count;
  end_texts(out);
  return kTvmErrorNoError;
}

/* ---- writing ---- */

/* All or nothing: data that does not fit leaves the size unchanged, so the length at the end stays
 * correct. */
void tvmrt__remote_write_bytes(remote_writer* out, const void* data, size_t bytes) {
  if (bytes > out->capacity - out->size) {
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

/* The length is set later by tvmrt__remote_end(). */
void tvmrt__remote_begin(remote_writer* out, uint32_t code) {
  out->size = 0;
  out->failed = 0;
  tvmrt__remote_write_uint(out, 8, 0);
  tvmrt__remote_write_uint(out, 4, code);
}

/* Sets the length, now that the size is known. The length does not include itself. */
void tvmrt__remote_end(remote_writer* out) {
  const size_t size = out->size;
  out->size = 0;
  tvmrt__remote_write_uint(out, 8, size - 8);
  out->size = size;
}

/* The format of tvmrt__remote_read_tensor(). Strides are not sent: tensors of executors are
 * contiguous. */
void tvmrt__remote_write_tensor(remote_writer* out, const DLTensor* t) {
  int32_t i;
  tvmrt__remote_write_uint(out, 8, (uintptr_t)t->data);
  tvmrt__remote_write_uint(out, 4, (uint32_t)t->device.device_type);
  tvmrt__remote_write_uint(out, 4, (uint32_t)t->device.device_id);
  tvmrt__remote_write_uint(out, 4, (uint32_t)t->ndim);
  tvmrt__remote_write_uint(out, 1, t->dtype.code);
  tvmrt__remote_write_uint(out, 1, t->dtype.bits);
  tvmrt__remote_write_uint(out, 2, t->dtype.lanes);
  for (i = 0; i < t->ndim; ++i) tvmrt__remote_write_uint(out, 8, (uint64_t)t->shape[i]);
  tvmrt__remote_write_uint(out, 8, t->byte_offset);
}
