/* Constants in place: memory-mapped pages of the library's file, shared by all processes and loaded
 * on access. */
#include "constants.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
#include "../platform/loading.h"
#include "../platform/system.h"
#include "region_set.h"

/* A handle of the library whose modules contain the bytes; NULL if no library with that name, which
 * may have been reused, contains them. */
static void* open_containing_library(const void* data, size_t size) {
  const char* path = tvmrt__library_of(data);
  void* handle = path == NULL ? NULL : tvmrt__library_load_file(path, TVMRT_LOAD_IF_LOADED);
  /* The symbol at which a library's modules begin; constants are a part of them. */
  char* modules = handle == NULL ? NULL : tvmrt__library_symbol(handle, "__tvm_dev_mblob");
  const size_t bytes = modules == NULL ? 0 : tvmrt__symbol_bytes(modules);
  const uintptr_t offset = (uintptr_t)data - (uintptr_t)modules; /* huge if it is before */
  if (modules != NULL && offset <= bytes && size <= bytes - offset) return handle;
  if (handle != NULL) tvmrt__library_unload(handle);
  return NULL;
}

/* Bytes outside of a library, or unaligned ones, are copied. A handle of the library is held, so
 * that its pages stay mapped as long as regions use them. */
int tvmrt__constants_init(tvmrt_constants* out, const void* data, size_t size) {
  const bool is_aligned = (uintptr_t)data % TVMRT_CONSTANT_ALIGN_BYTES == 0;
  memset(out, 0, sizeof(*out));
  out->data = data;
  out->size = size;
  if (is_aligned) out->library = open_containing_library(data, size);
  if (out->library != NULL) return 0;
  out->copy = tvmrt__aligned_alloc(TVMRT_CONSTANT_ALIGN_BYTES, size == 0 ? 1 : size);
  if (out->copy == NULL) return tvmrt__fail_memory(size);
  if (size != 0) memcpy(out->copy, data, size);
  out->data = out->copy;
  return 0;
}

/* Regions of the module are already freed, so there are no users left. */
void tvmrt__constants_free(tvmrt_constants* self) {
  tvmrt__aligned_free(self->copy);
  if (self->library != NULL) tvmrt__library_unload(self->library);
  memset(self, 0, sizeof(*self));
}

/* For devices that have made their own copies: unused pages can be dropped from memory. */
void tvmrt__constants_release_pages(const tvmrt_constants* self) {
  if (self->library != NULL) tvmrt__leave_pages(self->data, self->size);
}
