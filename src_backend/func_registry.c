/* Backend library: function tables as code generators emit them. Part of both libraries.
 *
 * The tables are constants in flash, made by this compiler or by TVM 0.8 to 0.18. The oldest have a
 * count of one byte, the others of two, without a mark of the form. The count is trusted: nothing
 * checks the end of the names. Pointers have the order of the names. */
#include <tvm/runtime/crt/func_registry.h>

#include "string_functions.h"

/* Names are C identifiers. So in the 1-byte form the byte after the count is a letter or '_'
 * (0x41 and above), or the end of an empty table. A big-endian 2-byte count starts with 0. */
static int has_wide_count(const unsigned char* names) { return names[0] == 0 || names[1] < 0x41; }

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg) {
  const unsigned char* names;
  uint16_t count;
  if (reg == NULL || reg->names == NULL) return 0;
  names = (const unsigned char*)reg->names;
  if (!has_wide_count(names)) return names[0];
  /* byte by byte: the names may be unaligned */
  ((unsigned char*)&count)[0] = names[0];
  ((unsigned char*)&count)[1] = names[1];
  return count;
}

const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg) {
  return reg->names + (has_wide_count((const unsigned char*)reg->names) ? 2 : 1);
}

/* For tables in RAM, which always have the 2-byte count. The cast removes the const that the struct
 * has for tables in flash. */
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs) {
  unsigned char* names = (unsigned char*)(uintptr_t)reg->names;
  names[0] = ((const unsigned char*)&num_funcs)[0];
  names[1] = ((const unsigned char*)&num_funcs)[1];
  return 0;
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index) {
  uint16_t count = TVMFuncRegistry_GetNumFuncs(reg);
  const char* p;
  uint16_t i;
  if (count == 0) return kTvmErrorFunctionNameNotFound;
  /* Linear search: images have a few dozen names, and a sorted table would be incompatible with
   * TVM. */
  p = TVMFuncRegistry_Get0thFunctionName(reg);
  for (i = 0; i < count; ++i, p += tvmrt__text_length(p) + 1) {
    if (tvmrt__text_equal(p, name)) {
      *function_index = i;
      return kTvmErrorNoError;
    }
  }
  return kTvmErrorFunctionNameNotFound;
}

tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg, tvm_function_index_t index,
                                           TVMCPackedFunc* out_func) {
  if (index >= TVMFuncRegistry_GetNumFuncs(reg)) return kTvmErrorFunctionIndexInvalid;
  *out_func = reg->funcs[index];
  return kTvmErrorNoError;
}
