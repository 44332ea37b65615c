/* System calls of the protocol: functions by name, and memory.
 *
 * Each reads its arguments from the endpoint, executes and writes the answer. Types are checked
 * first, since clients of several releases send them. Addresses are checked against the session's
 * memory.
 *
 * On failure the caller sends the error text as the answer. The session goes on, since its packet
 * was read completely. */
#include <string.h>

#include "endpoint.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* Handles and addresses have the same wire form. */
static int reply_handle(tvmrt_rpc_endpoint* ep, uint64_t number) {
  TVMValue value;
  value.v_int64 = (int64_t)number;
  return tvmrt__rpc_write_return(&ep->reply, &value, kTVMOpaqueHandle);
}

/* Check the number and the types of a system call's arguments. */
static int expect(const tvmrt_rpc_endpoint* ep, int count, const int* codes) {
  int i;
  if (ep->args.count < count) {
    return tvmrt__fail_type("a system call takes %d arguments, got %d.", count, ep->args.count);
  }
  for (i = 0; i < count; ++i) {
    const int got = ep->args.codes[i];
    const bool null_handle = codes[i] == kTVMOpaqueHandle && got == kTVMNullptr;
    const bool is_bool = codes[i] == kTVMArgInt && got == kTVMArgBool;
    if (got == codes[i] || null_handle || is_bool) continue;
    return tvmrt__fail_type("argument %d of a system call must be %s, got %s.", i,
                            tvmrt__code_name(codes[i]), tvmrt__code_name(got));
  }
  return 0;
}

/* The client owns the handle and frees it; 0: no such function. */
static int get_global(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kTVMStr};
  tvmrt_func* f = NULL;
  uint64_t number = 0;
  TVMRT_RETURN_IF_ERROR(expect(ep, 1, codes));
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(ep->args.values[0].v_str, &f));
  if (f == NULL) return reply_handle(ep, 0);
  TVMRT_RETURN_IF_ERROR(
      tvmrt__rpc_handles_add(&ep->handles, kTVMPackedFuncHandle, &f->base, &number));
  return reply_handle(ep, number);
}

/* The type code is not checked, since the table stores it. */
static int free_handle(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kTVMOpaqueHandle, kTVMArgInt};
  TVMRT_RETURN_IF_ERROR(expect(ep, 2, codes));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__rpc_handles_drop(&ep->handles, (uint64_t)ep->args.values[0].v_int64));
  return tvmrt__rpc_write_null(&ep->reply);
}

/* The difference cannot overflow, since the allocated size never exceeds the limit. */
static int allocate(tvmrt_rpc_endpoint* ep, DLDevice dev, uint64_t bytes, uint64_t alignment,
                    DLDataType hint) {
  void* data = NULL;
  if (bytes > ep->max_memory_bytes - ep->memory) {
    return tvmrt__fail_value("%llu more bytes would exceed the session's limit of %llu bytes.",
                             (unsigned long long)bytes, (unsigned long long)ep->max_memory_bytes);
  }
  /* a page; a larger alignment uses memory that the limit does not count */
  if (alignment > 4096) return tvmrt__fail_value("the alignment must be at most 4096.");
  TVMRT_RETURN_IF_ERROR(
      TVMDeviceAllocDataSpace(dev, (size_t)bytes, (size_t)alignment, hint, &data));
  if (tvmrt__rpc_handles_add_memory(&ep->handles, dev, data, bytes) != 0) {
    (void)TVMDeviceFreeDataSpace(dev, data);
    return -1;
  }
  ep->memory += bytes;
  return reply_handle(ep, (uintptr_t)data);
}

/* (device, bytes, alignment, type) -> address. */
static int alloc_data(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kDLDevice, kTVMArgInt, kTVMArgInt, kTVMDataType};
  const TVMValue* v = ep->args.values;
  TVMRT_RETURN_IF_ERROR(expect(ep, 4, codes));
  if (v[1].v_int64 < 0 || v[2].v_int64 < 0) return tvmrt__fail_value("the size is negative.");
  return allocate(ep, v[0].v_device, (uint64_t)v[1].v_int64, (uint64_t)v[2].v_int64, v[3].v_type);
}

/* The tensor only gives size and type; its data is not used. */
static int alloc_in_scope(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kTVMDLTensorHandle, kTVMNullptr};
  const DLTensor* t = ep->args.tensors;
  const char* scope = "";
  uint64_t bytes;
  TVMRT_RETURN_IF_ERROR(expect(ep, 1, codes));
  if (ep->args.count > 1 && ep->args.codes[1] == kTVMStr) scope = ep->args.values[1].v_str;
  if (scope[0] != '\0' && strcmp(scope, "global") != 0) {
    return tvmrt__fail_value("there is no memory scope '%s'; there is: global.", scope);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  return allocate(ep, t->device, bytes, 0, t->dtype);
}

/* NULL is ignored. */
static int free_data(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kDLDevice, kTVMOpaqueHandle};
  const TVMValue* v = ep->args.values;
  uint64_t bytes = 0;
  TVMRT_RETURN_IF_ERROR(expect(ep, 2, codes));
  if (ep->args.codes[1] == kTVMOpaqueHandle && v[1].v_int64 != 0) {
    const uint64_t data = (uint64_t)v[1].v_int64;
    TVMRT_RETURN_IF_ERROR(
        tvmrt__rpc_handles_drop_memory(&ep->handles, v[0].v_device, (uintptr_t)data, &bytes));
    /* as counted when it was allocated */
    ep->memory -= bytes;
  }
  return tvmrt__rpc_write_null(&ep->reply);
}

/* Both tensors are checked before the copy. */
static int copy_among(tvmrt_rpc_endpoint* ep) {
  static const int codes[] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  DLTensor* t = ep->args.tensors;
  TVMRT_RETURN_IF_ERROR(expect(ep, 2, codes));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_check_tensor(&ep->handles, &t[0]));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_handles_check_tensor(&ep->handles, &t[1]));
  TVMRT_RETURN_IF_ERROR(TVMDeviceCopyDataFromTo(&t[0], &t[1], NULL));
  return tvmrt__rpc_write_null(&ep->reply);
}

/* `code` is in range. The arguments are in ep->args; the answer goes to ep->reply. */
int tvmrt__rpc_syscall(tvmrt_rpc_endpoint* ep, int code) {
  switch (code) {
    case TVMRT_RPC_GET_GLOBAL:
      return get_global(ep);
    case TVMRT_RPC_FREE_HANDLE:
      return free_handle(ep);
    case TVMRT_RPC_ALLOC:
      return alloc_data(ep);
    case TVMRT_RPC_ALLOC_SCOPE:
      return alloc_in_scope(ep);
    case TVMRT_RPC_FREE_DATA:
      return free_data(ep);
    case TVMRT_RPC_COPY_REMOTE:
      return copy_among(ep);
    case TVMRT_RPC_NEW_STREAM:
    case TVMRT_RPC_GET_STREAM:
      return reply_handle(ep, 0); /* the default stream, which is the only one */
    default: /* attributes of devices, which are unknown; selecting the device or a stream; waiting
                for a stream, whose work is complete when its call is answered */
      return tvmrt__rpc_write_null(&ep->reply);
  }
}
