/* Functions of this process, and their results, for the packets of a client. */
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"
#include "wire.h"

/* The wire format differs between versions, so only an equal version is accepted. */
tvm_crt_error_t tvmrt__remote_check_version(const uint8_t* version, size_t size) {
  static const char ours[] = TVMRT_RPC_VERSION;
  if (size == sizeof(ours) - 1 && memcmp(version, ours, size) == 0) return kTvmErrorNoError;
  return REMOTE_FAIL(kTvmErrorSessionInvalidState,
                     "the client speaks version %.*s of the protocol, this server speaks %s.",
                     size > 16 ? 16 : (int)size, (const char*)version, ours);
}

/* Retained until the answer is complete. */
tvm_crt_error_t tvmrt__remote_find_global(remote_session* s, const char* name, void** out) {
  tvmrt_func* f = NULL;
  if (tvmrt__global_get(name, &f) != 0) return kTvmErrorFunctionNameNotFound;
  s->result = f;
  *out = f;
  return kTvmErrorNoError;
}

/* The result's object stays with the session until the answer is complete. Its kind decides how it
 * is sent: arrays and texts may be returned as objects, and a NULL handle is sent as kTVMNullptr. */
static int take_result(remote_session* s, TVMValue* result, int* code) {
  tvmrt_object* object = tvmrt__value_object(result, *code);
  s->result = object;
  if (object == NULL) {
    if (*code >= kTVMObjectHandle && *code <= kTVMPackedFuncHandle) *code = kTVMNullptr;
  } else if (object->type_index == TVMRT_TYPE_NDARRAY) {
    DLTensor* t = &((tvmrt_ndarray*)(void*)object)->dl;
    *code = kTVMNDArrayHandle;
    result->v_handle = t;
    return tvmrt__rpc_check_tensor(t);
  } else if (object->type_index == TVMRT_TYPE_STRING) {
    *code = kTVMStr;
    result->v_str = ((const tvmrt_string*)(const void*)object)->data;
  }
  return 0;
}

/* The function is retained: it may free its own handle if the server is its own client. */
tvm_crt_error_t tvmrt__remote_call(remote_session* s, void* function, remote_values* in,
                                   const remote_writer* out, TVMValue* result, int* code) {
  int rc;
  (void)out;
  tvmrt__retain(function);
  rc = TVMFuncCall(function, in->values, in->codes, in->count, result, code);
  tvmrt__release(function);
  if (rc == 0) rc = take_result(s, result, code);
  return (tvm_crt_error_t)rc;
}

const char* tvmrt__remote_error_text(tvm_crt_error_t code, char room[16]) {
  (void)code, (void)room;
  return TVMGetLastError();
}
