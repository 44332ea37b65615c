/* Firmware runtime: what boards do for the packets of a client. */
#include "../../../src_backend/mem_functions.h"
#include "remote.h"

/* Built-in functions come first, so that a program's own cannot replace them. */
tvm_crt_error_t tvmrt__remote_find_global(remote_session* s, const char* name, void** out) {
  (void)s;
  *out = tvmrt__remote_builtin(name);
  return *out != NULL ? kTvmErrorNoError : (tvm_crt_error_t)TVMFuncGetGlobal(name, out);
}

/* An evaluator writes its times directly into the answer: there is no other memory. */
tvm_crt_error_t tvmrt__remote_call(remote_session* s, void* function, remote_values* in,
                                   const remote_writer* out, TVMValue* result, int* code) {
  (void)s;
  tvmrt__remote_set_times(out->data + REMOTE_RESULT_OFFSET, out->capacity - REMOTE_RESULT_OFFSET);
  return (tvm_crt_error_t)TVMFuncCall(function, in->values, in->codes, in->count, result, code);
}

/* The code, which the client can explain: eight digits, without printf(). */
const char* tvmrt__remote_error_text(tvm_crt_error_t code, char room[16]) {
  static const char zero[16] = "code 0x00000000";
  uint32_t left = (uint32_t)code;
  size_t i;
  memcpy(room, zero, sizeof(zero));
  for (i = sizeof(zero) - 2; left != 0; --i) {
    const uint32_t digit = left & 15u;
    room[i] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
    left >>= 4;
  }
  return room;
}
