/* Backend library: a table of functions that grows inside a fixed buffer.
 *
 * For firmware that registers functions at run time. Names grow from the front of the caller's
 * buffer, behind a count of two bytes, and pointers fill an aligned array at its end; the array has
 * places for all functions from the start, so only the names can run out of room. The buffer stays
 * the caller's and must outlive the table. Names are never taken out. */
#include <tvm/runtime/crt/func_registry.h>

#include "bytes.h"
#include "text.h"

tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer,
                                              size_t buffer_size_bytes) {
  size_t pointers_at; /* behind all names, so that these grow towards them */
  if (buffer_size_bytes < TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES + 2) return kTvmErrorBufferTooSmall;
  memset(buffer, 0, buffer_size_bytes);
  reg->max_functions = (buffer_size_bytes - 2) / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;
  if (reg->max_functions > UINT16_MAX) reg->max_functions = UINT16_MAX;
  /* Down to an aligned address, which eats into the room of names. */
  pointers_at = buffer_size_bytes - reg->max_functions * sizeof(TVMCPackedFunc);
  pointers_at -= (uintptr_t)(buffer + pointers_at) % sizeof(TVMCPackedFunc);
  reg->registry.names = (const char*)buffer;
  reg->registry.funcs = (const TVMCPackedFunc*)(void*)(buffer + pointers_at);
  return kTvmErrorNoError;
}

/* End of the names, where the next one goes. */
static char* names_end(const TVMMutableFuncRegistry* reg, uint16_t count) {
  const char* p = reg->registry.names + 2;
  for (; count > 0; --count) p += tvmrt__text_length(p) + 1;
  return (char*)(uintptr_t)p;
}

/* All that can refuse stands before the first store: a full table is left as it was. */
static tvm_crt_error_t append(TVMMutableFuncRegistry* reg, const char* name, TVMCPackedFunc func) {
  TVMCPackedFunc* funcs = (TVMCPackedFunc*)(uintptr_t)reg->registry.funcs;
  uint16_t count;
  size_t room;
  size_t size = tvmrt__text_length(name) + 1;
  char* end;
  memcpy(&count, reg->registry.names, sizeof(count));
  if (count >= reg->max_functions) return kTvmErrorFunctionRegistryFull;
  end = names_end(reg, count);
  room = (size_t)((const char*)(const void*)funcs - end);
  if (size > room) return kTvmErrorFunctionRegistryFull;
  memcpy(end, name, size);
  funcs[count] = func;
  ++count;
  memcpy((char*)(uintptr_t)reg->registry.names, &count, sizeof(count));
  return kTvmErrorNoError;
}

/* Unlike a generated table this one always has the wide count, also with names that begin below 'A'. */
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
