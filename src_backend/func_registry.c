/* Backend library: tables of function names as code generators emit them. Part of both libraries. */
#include <string.h>
#include <tvm/runtime/crt/func_registry.h>

/* Names are C identifiers, so in the 1-byte form the byte after the count is a letter or '_' (0x41
 * and above), or the end of an empty table. A big-endian 2-byte count starts with 0. */
static int has_wide_count(const unsigned char* names) { return names[0] == 0 || names[1] < 0x41; }

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg) {
  const unsigned char* names;
  uint16_t count;
  if (reg == NULL || reg->names == NULL) return 0;
  names = (const unsigned char*)reg->names;
  if (!has_wide_count(names)) return names[0];
  memcpy(&count, names, sizeof(count));
  return count;
}

const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg) {
  return reg->names + (has_wide_count((const unsigned char*)reg->names) ? 2 : 1);
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index) {
  uint16_t count = TVMFuncRegistry_GetNumFuncs(reg);
  const char* p;
  uint16_t i;
  if (count == 0) return kTvmErrorFunctionNameNotFound;
  p = TVMFuncRegistry_Get0thFunctionName(reg);
  for (i = 0; i < count; ++i, p += strlen(p) + 1) {
    if (strcmp(p, name) == 0) {
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
