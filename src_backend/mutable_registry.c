/* Backend library: a function table that grows inside a fixed buffer.
 *
 * For firmware that registers functions at run time. Names grow from the front of the caller's
 * buffer, after a count of two bytes. Pointers fill an aligned array at its end, which has its full
 * size from the start, so only the names can run out of space. The caller owns the buffer, which
 * must outlive the table. Names are never removed. */
#include <tvm/runtime/crt/func_registry.h>

#include "mem_functions.h"
#include "string_functions.h"

tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer,
                                              size_t buffer_size_bytes) {
  size_t pointers_at; /* past all names, so that names grow towards the pointers */
  if (buffer_size_bytes < TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES + 2) return kTvmErrorBufferTooSmall;
  memset(buffer, 0, buffer_size_bytes);
  reg->max_functions = (buffer_size_bytes - 2) / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;
  if (reg->max_functions > UINT16_MAX) reg->max_functions = UINT16_MAX;
  /* Rounded down to an aligned address, at the expense of the names. */
  pointers_at = buffer_size_bytes - reg->max_functions * sizeof(TVMCPackedFunc);
  pointers_at -= (uintptr_t)(buffer + pointers_at) % sizeof(TVMCPackedFunc);
  reg->registry.names = (const char*)buffer;
  reg->registry.funcs = (const TVMCPackedFunc*)(void*)(buffer + pointers_at);
  return kTvmErrorNoError;
}

/* End of the names, the position of the next name. */
static char* names_end(const TVMMutableFuncRegistry* reg, uint16_t count) {
  const char* p = reg->registry.names + 2;
  for (; count > 0; --count) p += tvmrt__text_length(p) + 1;
  return (char*)(uintptr_t)p;
}

/* All checks precede the first store: a full table is left unchanged. */
static tvm_crt_error_t append(TVMMutableFuncRegistry* reg, const char* name, TVMCPackedFunc func) {
  TVMCPackedFunc* funcs = (TVMCPackedFunc*)(uintptr_t)reg->registry.funcs;
  uint16_t count;
  size_t free_bytes;
  size_t size = tvmrt__text_length(name) + 1;
  char* end;
  memcpy(&count, reg->registry.names, sizeof(count));
  if (count >= reg->max_functions) return kTvmErrorFunctionRegistryFull;
  end = names_end(reg, count);
  free_bytes = (size_t)((const char*)(const void*)funcs - end);
  if (size > free_bytes) return kTvmErrorFunctionRegistryFull;
  memcpy(end, name, size);
  funcs[count] = func;
  ++count;
  memcpy((char*)(uintptr_t)reg->registry.names, &count, sizeof(count));
  return kTvmErrorNoError;
}

/* Unlike a generated table this one always has the 2-byte count, also with names below 'A'. */
static int find(const TVMMutableFuncRegistry* reg, const char* name) {
  const char* p = reg->registry.names + 2;
  uint16_t count;
  uint16_t i;
  memcpy(&count, reg->registry.names, sizeof(count));
  for (i = 0; i < count; ++i, p += tvmrt__text_length(p) + 1) {
    if (tvmrt__text_equal(p, name)) return i;
  }
  return -1;
}

tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name,
                                           TVMCPackedFunc func, int override) {
  int at = find(reg, name);
  if (at < 0) return append(reg, name, func);
  if (!override) return kTvmErrorFunctionAlreadyDefined;
  ((TVMCPackedFunc*)(uintptr_t)reg->registry.funcs)[at] = func;
  return kTvmErrorNoError;
}
