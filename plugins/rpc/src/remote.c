/* Remote functions, modules and tensors, and their values in requests and replies.
 *
 * A ref is a handle of the peer with its session. Each local proxy object owns one ref and frees
 * the remote handle when it is destroyed. The session lives as long as any ref. Arguments are
 * checked before they are sent; errors name the argument's index. */
#include "remote.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"

typedef struct remote_module {
  tvmrt_module base;
  tvmrt_rpc_ref* ref; /* handle 0: the session itself */
} remote_module;

/* Defined below: its functions need the other kinds of values. */
static const tvmrt_module_type remote_type;
static tvmrt_module* new_module(tvmrt_rpc_ref* ref);
static int take_result(tvmrt_rpc_session* s, const remote_values* reply, void* ctx);

/* Where take_result() stores a reply (type, value). */
typedef struct result_place {
  TVMValue* value;
  int* code;
} result_place;

/* On failure the remote handle stays allocated until the session ends. */
static int new_ref(tvmrt_rpc_session* s, uint64_t handle, int code, tvmrt_rpc_ref** out) {
  *out = tvmrt__alloc(sizeof(**out));
  if (*out == NULL) return -1;
  tvmrt__rpc_session_retain(s);
  (*out)->session = s;
  /* owned from here on; free_ref() frees it */
  (*out)->handle = handle;
  (*out)->code = code;
  return 0;
}

/* Also identifies remote functions in ref_of(). */
static void free_ref(void* resource) {
  tvmrt_rpc_ref* ref = resource;
  if (ref->handle != 0) tvmrt__rpc_free_handle(ref->session, ref->handle, ref->code);
  tvmrt__rpc_session_release(ref->session);
  free(ref);
}

/* ---- arguments ---- */

/* The type of a session's device contains the session's number; others are rejected. */
static int check_device(const tvmrt_rpc_session* s, DLDevice dev, int i, const char* what) {
  const int session = (int)dev.device_type / TVMRT_RPC_SESSION_MASK - 1;
  if (session == tvmrt__rpc_session_index(s)) return 0;
  if (session >= 0) {
    return tvmrt__fail_value("argument %d is %s of another RPC session.", i, what);
  }
  return tvmrt__fail_value(
      "argument %d is %s of this machine, which a remote function cannot use: take the session's "
      "device, remote.cpu(0), and copy tensors to it.",
      i, what);
}

/* Return -1 with TVM's error text, which frontend tests expect. */
static int refuse(int i, const char* what) {
  return tvmrt__fail_type("Cannot pass %s as argument %d to the remote.", what, i);
}

/* Borrowed; NULL for a local module. */
const tvmrt_rpc_ref* tvmrt__rpc_ref_of_module(const tvmrt_module* mod) {
  return mod->type == &remote_type ? ((const remote_module*)mod)->ref : NULL;
}

/* The ref of a remote function or module; NULL for local ones. */
static const tvmrt_rpc_ref* ref_of(const tvmrt_object* object) {
  if (object->type_index == TVMRT_TYPE_MODULE) {
    return tvmrt__rpc_ref_of_module((const tvmrt_module*)(const void*)object);
  }
  if (object->type_index == TVMRT_TYPE_FUNCTION) {
    const tvmrt_func* f = (const tvmrt_func*)(const void*)object;
    if (f->kind == TVMRT_FUNC_NATIVE && f->finalize == free_ref) return f->resource;
  }
  return NULL;
}

/* Strings are sent as plain values; other local objects are rejected. */
static int prepare_object(const tvmrt_rpc_session* s, int i, const tvmrt_object* object,
                          TVMValue* value, int* code) {
  /* A handle is valid only in its own session. */
  const tvmrt_rpc_ref* ref = ref_of(object);
  if (ref != NULL) {
    if (ref->session != s) return refuse(i, "an object of another RPC session");
    if (ref->handle == 0) return refuse(i, "the session itself");
    value->v_int64 = (int64_t)ref->handle;
    *code = ref->code;
  } else if (object->type_index == TVMRT_TYPE_STRING) {
    value->v_str = ((const tvmrt_string*)(const void*)object)->data;
    *code = kTVMStr;
  } else {
    const char* key = tvmrt__type_key(object->type_index);
    return refuse(i, key == NULL ? "an object" : key);
  }
  return 0;
}

/* Convert one argument to its wire form. */
static int prepare(const tvmrt_rpc_session* s, int i, TVMValue* value, int* code) {
  const tvmrt_object* object;
  switch (*code) {
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle:
      *code = kTVMDLTensorHandle;
      TVMRT_RETURN_IF_ERROR(tvmrt__rpc_check_tensor(value->v_handle));
      return check_device(s, ((const DLTensor*)value->v_handle)->device, i, "a tensor");
    case kDLDevice:
      return check_device(s, value->v_device, i, "a device");
    case kTVMObjectHandle:
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      object = value->v_handle;
      return object == NULL ? refuse(i, "a NULL handle")
                            : prepare_object(s, i, object, value, code);
    default:
      if (*code < 0 || *code > kTVMArgBool || *code == kTVMOpaqueHandle) {
        return refuse(i, "a value of this type");
      }
      return 0;
  }
}

/* All arguments are prepared before anything is sent, so a rejected one leaves the session intact.
 * They are copied, since the caller may call again with them. */
static int call_remote(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                       void* resource_handle) {
  const tvmrt_rpc_ref* ref = resource_handle;
  result_place result = {out, out_code};
  TVMValue values[REMOTE_MAX_VALUES];
  int codes[REMOTE_MAX_VALUES];
  int i;
  if (num_args > REMOTE_MAX_VALUES) {
    return tvmrt__fail_value("a remote call takes at most %d arguments, got %d.", REMOTE_MAX_VALUES,
                             num_args);
  }
  for (i = 0; i < num_args; ++i) {
    values[i] = args[i];
    codes[i] = type_codes[i];
    TVMRT_RETURN_IF_ERROR(prepare(ref->session, i, &values[i], &codes[i]));
  }
  return tvmrt__rpc_request(ref->session, TVMRT_RPC_CALL, &ref->handle, values, codes, num_args,
                            take_result, &result);
}

/* ---- results ---- */

/* Owned; NULL with the error text set. */
static tvmrt_func* new_function(tvmrt_rpc_session* s, uint64_t handle) {
  tvmrt_rpc_ref* ref;
  tvmrt_func* f;
  if (new_ref(s, handle, kTVMPackedFuncHandle, &ref) != 0) return NULL;
  /* takes over the resource only on success */
  f = tvmrt__func_new(call_remote, ref, free_ref);
  if (f == NULL) free_ref(ref);
  return f;
}

/* The memory is the peer's; only the ref is released. */
static void release_tensor(tvmrt_tensor* t) { free_ref(t->owner); }

/* Convert a device of the peer to a device of the session. */
static int to_session_device(const tvmrt_rpc_session* s, DLDevice* dev) {
  const int type = (int)dev->device_type;
  if (type < 0 || type >= TVMRT_RPC_SESSION_MASK) {
    return tvmrt__fail("RPCError: the reply names a device of type %d.", type);
  }
  dev->device_type =
      (DLDeviceType)(type + TVMRT_RPC_SESSION_MASK * (tvmrt__rpc_session_index(s) + 1));
  return 0;
}

/* Make an NDArray of remote memory, which the ref keeps alive. */
static tvmrt_object* make_tensor(const remote_values* reply, tvmrt_rpc_ref* ref) {
  DLTensor t = reply->tensors[1];
  tvmrt_tensor* made;
  /* Copies shape and strides, since the reply's memory belongs to the session. */
  made = to_session_device(ref->session, &t.device) == 0 ? tvmrt__tensor_borrow(&t) : NULL;
  if (made == NULL) {
    free_ref(ref);
    return NULL;
  }
  made->release = release_tensor;
  made->owner = ref;
  return &made->base;
}

/* The handle is the last value; for an NDArray it follows the tensor. */
static int take_object(tvmrt_rpc_session* s, const remote_values* reply, int code,
                       result_place* result) {
  const bool is_tensor = code == kTVMNDArrayHandle;
  const int at = is_tensor ? 2 : 1;
  const uint64_t handle = reply->count == at + 1 ? (uint64_t)reply->values[at].v_int64 : 0;
  tvmrt_rpc_ref* ref;
  tvmrt_object* made;
  if (reply->count != at + 1 || reply->codes[at] != kTVMOpaqueHandle ||
      (is_tensor && reply->codes[1] != kTVMDLTensorHandle)) {
    return tvmrt__fail("RPCError: the reply contains an invalid handle.");
  }
  if (handle == 0) return 0;
  if (code == kTVMPackedFuncHandle) {
    tvmrt_func* f = new_function(s, handle);
    return f == NULL ? -1 : tvmrt__ret_object(result->value, result->code, &f->base);
  }
  TVMRT_RETURN_IF_ERROR(new_ref(s, handle, code, &ref));
  made = is_tensor ? make_tensor(reply, ref) : (tvmrt_object*)new_module(ref);
  return tvmrt__ret_object(result->value, result->code, made);
}

/* Strings are copied, since the reply's memory belongs to the session. */
static int take_value(tvmrt_rpc_session* s, TVMValue value, int code, result_place* result) {
  switch (code) {
    case kTVMStr:
    case kTVMBytes:
    case kTVMDataType:
      return tvmrt_func_return(&value, code, result->value, result->code);
    case kDLDevice:
      TVMRT_RETURN_IF_ERROR(to_session_device(s, &value.v_device));
      break;
    case kTVMNullptr:
    case kTVMArgInt:
    case kTVMArgFloat:
    case kTVMArgBool:
      break;
    default:
      return tvmrt__fail("RPCError: the reply has a value of a type that cannot be returned.");
  }
  *result->value = value;
  *result->code = code;
  return 0;
}

/* Called with the session locked. The reply is not trusted. */
static int take_result(tvmrt_rpc_session* s, const remote_values* reply, void* ctx) {
  const int type =
      reply->count >= 1 && reply->codes[0] == kTVMArgInt ? (int)reply->values[0].v_int64 : -1;
  if (type == kTVMNullptr) return 0;
  if (type == kTVMNDArrayHandle || type == kTVMModuleHandle || type == kTVMPackedFuncHandle) {
    return take_object(s, reply, type, ctx);
  }
  if (reply->count != 2 || type < 0) return tvmrt__fail("RPCError: the reply has no result.");
  return take_value(s, reply->values[1], reply->codes[1], ctx);
}

/* ---- modules ---- */

/* out->func stays NULL if the peer has no such function. */
static int find_global(tvmrt_rpc_session* s, const char* name, tvmrt_lookup_result* out) {
  uint64_t handle = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_find_global(s, name, &handle));
  if (handle == 0) return 0;
  out->func = new_function(s, handle);
  return out->func == NULL ? -1 : 0;
}

/* Calls a global function of the peer, since the protocol has no packet for this. */
static int find_in_module(const remote_module* mod, const char* name, tvmrt_lookup_result* out) {
  int codes[] = {kTVMModuleHandle, kTVMStr, kTVMArgInt};
  TVMValue args[3];
  TVMValue value;
  int code = kTVMNullptr;
  args[0].v_handle = (void*)(uintptr_t)mod;
  args[1].v_str = name;
  args[2].v_int64 = 1; /* also search its imports, which are not visible locally */
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_call_global(
      mod->ref->session, "tvm.rpc.server.ModuleGetFunction", args, codes, 3, &value, &code));
  if (code == kTVMPackedFuncHandle) {
    out->func = value.v_handle;
  } else {
    tvmrt__release(tvmrt__value_object(&value, code));
  }
  return 0;
}

/* All other users of the session fail from then on. */
TVMRT_NATIVE(close_connection) {
  TVMRT_ARGS("CloseRPCConnection");
  tvmrt__rpc_session_close(((remote_module*)resource_handle)->ref->session);
  return 0;
}

/* Looked up again each time, since the peer's functions may change without notice. */
static int find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  const remote_module* mod = (const remote_module*)self;
  if (mod->ref->handle == 0 && strcmp(name, "CloseRPCConnection") == 0) {
    out->fn = close_connection;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  /* so that the result is not cached */
  out->may_change = true;
  if (mod->ref->handle == 0) return find_global(mod->ref->session, name, out);
  return find_in_module(mod, name, out);
}

static void destroy(tvmrt_module* self) { free_ref(((remote_module*)self)->ref); }

static const tvmrt_module_type remote_type = {
    .key = "rpc", .properties = TVMRT_MODULE_RUNNABLE, .find = find, .destroy = destroy};

/* Takes over the ref, also on failure. */
static tvmrt_module* new_module(tvmrt_rpc_ref* ref) {
  remote_module* mod = tvmrt__module_new(&remote_type, sizeof(*mod));
  if (mod == NULL) {
    free_ref(ref);
    return NULL;
  }
  mod->ref = ref;
  return &mod->base;
}

/* Takes over the caller's reference to the session. */
int tvmrt__rpc_root(tvmrt_rpc_session* s, tvmrt_module** out) {
  tvmrt_rpc_ref* ref;
  int rc = new_ref(s, 0, kTVMModuleHandle, &ref);
  tvmrt__rpc_session_release(s);
  if (rc != 0) return rc;
  *out = new_module(ref);
  return *out == NULL ? -1 : 0;
}

/* Call a global function of the peer. It is looked up for each call: these are rare, and the
 * function may be replaced. */
int tvmrt__rpc_call_global(tvmrt_rpc_session* s, const char* name, TVMValue* args, int* codes,
                           int count, TVMValue* out, int* out_code) {
  tvmrt_lookup_result found;
  int rc;
  memset(&found, 0, sizeof(found));
  TVMRT_RETURN_IF_ERROR(find_global(s, name, &found));
  if (found.func == NULL) return tvmrt__fail("RPCError: the server has no function %s.", name);
  rc = TVMFuncCall(found.func, args, codes, count, out, out_code);
  tvmrt__release(&found.func->base);
  return rc;
}
