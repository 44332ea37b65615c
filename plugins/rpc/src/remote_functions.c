/* Functions that begin sessions and use remote modules, and remote memory.
 *
 * The memory of a session is a memory device whose type contains the session's number. Blocks retain
 * the session, tensors retain blocks. */
#include <string.h>
#include <tvm/runtime/memory_device.h>

#include "functions.h"
#include "remote.h"

/* Get a remote module from the arguments. */
static int arg_remote(const tvmrt_args* in, int i, const tvmrt_rpc_ref** out) {
  tvmrt_module* mod;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, i, &mod));
  *out = tvmrt__rpc_ref_of_module(mod);
  if (*out != NULL) return 0;
  return tvmrt__fail_type("%s: argument %d must be a module of an RPC session.", in->callee, i);
}

/* (module, function, device type, device id, ...): make a time evaluator on the peer. */
TVMRT_PLUGIN_NATIVE(rpc_time_evaluator) {
  const tvmrt_rpc_ref* ref;
  enum { MAX_ARGS = 12 };
  TVMValue values[MAX_ARGS]; /* a copy, so the caller's values stay unchanged */
  int codes[MAX_ARGS];
  TVMRT_COUNTED_ARGS(8, MAX_ARGS);
  TVMRT_RETURN_IF_ERROR(arg_remote(&in, 0, &ref));
  memcpy(values, args, (size_t)num_args * sizeof(*values));
  memcpy(codes, type_codes, (size_t)num_args * sizeof(*codes));
  /* the root is not a module on the peer: measure a global function */
  if (ref->handle == 0) codes[0] = kTVMNullptr;
  /* remove the session's number from the device type */
  values[2].v_int64 %= TVMRT_RPC_SESSION_MASK;
  return tvmrt__rpc_call_global(ref->session, "runtime.RPCTimeEvaluator", values, codes, num_args,
                                out, out_code);
}

/* Frontends make the session's devices from this index. */
TVMRT_PLUGIN_NATIVE(rpc_table_index) {
  const tvmrt_rpc_ref* ref;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(arg_remote(&in, 0, &ref));
  return tvmrt__ret_int(out, out_code, tvmrt__rpc_session_index(ref->session));
}

/* (module, maximum bytes of a packet): copies are sent in parts of that size. */
TVMRT_PLUGIN_NATIVE(rpc_set_packet_limit) {
  enum { MIN_LIMIT = 64 };
  const tvmrt_rpc_ref* ref;
  int64_t limit;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(arg_remote(&in, 0, &ref));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &limit));
  if (limit < MIN_LIMIT) return tvmrt__fail("RPCError: the peer reports an invalid packet size.");
  tvmrt__rpc_session_limit(ref->session, (uint64_t)limit);
  return 0;
}

/* (connected descriptor), which the session takes over, or (send, receive), functions as in
 * channel.h: return the root module of a new session. It is owned by all objects that came from it
 * and ends with the last of them. The frontend has exchanged keys, or begun a board's session. */
TVMRT_PLUGIN_NATIVE(rpc_client_session) {
  tvmrt_channel channel = {-1, NULL, NULL};
  tvmrt_rpc_session* s;
  tvmrt_module* root;
  int64_t fd;
  TVMRT_COUNTED_ARGS(1, 2);
  if (num_args == 1) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &fd));
    channel.fd = (int)fd;
  } else {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_FUNCTION, &channel.send));
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 1, TVMRT_TYPE_FUNCTION, &channel.receive));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_session_begin(channel, &s));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_root(s, &root));
  return tvmrt__ret_object(out, out_code, &root->base);
}

/* ---- memory ---- */

/* Whether the peer has such a device is checked when memory is allocated. */
static int device_exists(int device_id) { return device_id >= 0; }

/* The address is the peer's; it is only a number here. */
static int alloc(DLDevice dev, size_t bytes, size_t align, void** out) {
  static const int codes[] = {kDLDevice, kTVMArgInt, kTVMArgInt, kTVMDataType};
  tvmrt_rpc_session* s = tvmrt__rpc_session_of(dev);
  TVMValue args[4];
  uint64_t address = 0;
  *out = NULL;
  if (s == NULL) return -1;
  args[0].v_device = dev;
  args[1].v_int64 = (int64_t)bytes;
  args[2].v_int64 = (int64_t)align;
  args[3].v_type = (DLDataType){kDLUInt, 8, 1};
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_request(s, TVMRT_RPC_ALLOC, NULL, args, codes, 4,
                                           tvmrt__rpc_take_handle, &address));
  if (address > UINTPTR_MAX)
    return tvmrt__fail("RPCError: the server's addresses are longer than this machine's.");
  tvmrt__rpc_session_retain(s); /* the memory retains the session */
  *out = (void*)(uintptr_t)address;
  return 0;
}

/* Sent before the next request. Releases the session's reference of alloc(). */
static int free_memory(DLDevice dev, void* ptr) {
  static const int codes[] = {kDLDevice, kTVMOpaqueHandle};
  tvmrt_rpc_session* s = tvmrt__rpc_session_of(dev);
  TVMValue args[2];
  if (s == NULL) return -1;
  args[0].v_device = dev;
  args[1].v_int64 = (int64_t)(uintptr_t)ptr;
  tvmrt__rpc_post(s, TVMRT_RPC_FREE_DATA, args, codes, 2);
  tvmrt__rpc_session_release(s);
  return 0;
}

/* Complete on return: sessions have no streams of their own. */
static int copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                TVMStreamHandle stream) {
  const bool is_from = (int)from_dev.device_type >= TVMRT_RPC_SESSION_MASK;
  const bool is_to = (int)to_dev.device_type >= TVMRT_RPC_SESSION_MASK;
  tvmrt_rpc_session* s = tvmrt__rpc_session_of(is_from ? from_dev : to_dev);
  (void)stream;
  if (s == NULL) return -1;
  if (is_from && to_dev.device_type == kDLCPU) {
    return tvmrt__rpc_copy(s, TVMRT_RPC_COPY_FROM, from_dev, from, to, bytes);
  }
  if (is_to && from_dev.device_type == kDLCPU) {
    return tvmrt__rpc_copy(s, TVMRT_RPC_COPY_TO, to_dev, to, (void*)(uintptr_t)from, bytes);
  }
  return tvmrt__fail_value(
      "tensors can be copied only between this machine's CPU and a session; copy to this machine "
      "first.");
}

/* Servers have one stream, whose work is complete when a call is answered. */
static const tvmrt_memory_device memory = {
    .struct_bytes = sizeof(memory),
    .name = "rpc",
    .exists = device_exists,
    .alloc = alloc,
    .free = free_memory,
    .copy = copy,
};

/* Called by tensors/memory_device.c when a session's device is first used. */
TVMRT_PLUGIN_NATIVE(rpc_memory_device) {
  TVMRT_GLOBAL_ARGS;
  out->v_handle = (void*)(uintptr_t)&memory;
  *out_code = kTVMOpaqueHandle;
  return 0;
}
