/* Modules of kinds that plug-ins implement.
 *
 * A plug-in only sees handles and streams, so it need not be recompiled when modules or readers
 * change inside of this library.
 *
 * The interface is tvm/runtime/module_plugin.h. A plug-in's table is copied, so it may lie on the
 * stack, but its texts are borrowed and must stay valid; ownership of `self` is transferred, and it
 * is released with the module. Its functions are called without any lock held. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/module_plugin.h>

#include "module.h"

typedef struct plugin_module {
  tvmrt_module base;
  tvmrt_module_type type; /* type for the rest of the runtime */
  tvmrt_module_vtable vtable;
  void* self;
} plugin_module;

/* The result is a C function with its resource, valid as long as the module, or a handle. A
 * handle's reference is transferred to the runtime. */
static int plugin_find(tvmrt_module* mod, const char* name, tvmrt_lookup_result* out) {
  const plugin_module* m = (const plugin_module*)mod;
  tvmrt_module_function answer = {NULL, NULL, NULL};
  TVMRT_RETURN_IF_ERROR(m->vtable.get_function(m->self, name, &answer));
  out->fn = answer.function;
  out->kind = TVMRT_FUNC_LIBRARY;
  out->resource = answer.resource;
  if (answer.handle == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_type(answer.handle, TVMRT_TYPE_FUNCTION, m->vtable.type_key));
  out->func = answer.handle;
  return 0;
}

/* Sink for plug-ins, which do not know buffers. */
static int write_to_buf(void* sink, const void* data, size_t num_bytes) {
  return tvmrt__buf_append(sink, data, num_bytes);
}

/* Slots of the module's own type are set only if the plug-in has the function. */
static int plugin_save(tvmrt_module* mod, tvmrt_buf* out) {
  const plugin_module* m = (const plugin_module*)mod;
  return m->vtable.save(m->self, write_to_buf, out);
}

static int plugin_source(tvmrt_module* mod, const char* format, tvmrt_buf* out) {
  const plugin_module* m = (const plugin_module*)mod;
  return m->vtable.source(m->self, format, write_to_buf, out);
}

static void plugin_destroy(tvmrt_module* mod) {
  const plugin_module* m = (const plugin_module*)mod;
  if (m->vtable.release != NULL) m->vtable.release(m->self);
}

/* The table of a module's kind is stored in the module itself, which must exist first. */
static const tvmrt_module_type unfinished = {.key = "plug-in", .find = plugin_find};

/* On failure the caller still owns `self`. */
int tvmrt_module_create(const tvmrt_module_vtable* vtable, void* self,
                        TVMModuleHandle* out_module) {
  plugin_module* m;
  *out_module = NULL;
  /* a plug-in of a later version may have a longer table */
  if (vtable == NULL || vtable->struct_bytes < sizeof(*vtable) || vtable->type_key == NULL ||
      vtable->get_function == NULL) {
    return tvmrt__fail(
        "tvmrt_module_create: the table needs struct_bytes, type_key and get_function.");
  }
  m = tvmrt__module_new(&unfinished, sizeof(*m));
  if (m == NULL) return -1;
  memcpy(&m->vtable, vtable, sizeof(m->vtable));
  m->self = self;
  m->type.key = vtable->type_key;
  m->type.properties = vtable->properties;
  m->type.find = plugin_find;
  m->type.save = vtable->save == NULL ? NULL : plugin_save;
  m->type.source = vtable->source == NULL ? NULL : plugin_source;
  m->type.destroy = plugin_destroy;
  m->base.type = &m->type;
  *out_module = m;
  return 0;
}

/* Streams are readers of this library: opaque pointers for plug-ins. */
int tvmrt_stream_read(void* stream, void* out, size_t num_bytes) {
  const uint8_t* data;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_bytes(stream, num_bytes, &data));
  if (num_bytes != 0) memcpy(out, data, num_bytes);
  return 0;
}

int tvmrt_stream_read_u64(void* stream, uint64_t* out_value) {
  return tvmrt__read_uint(stream, 8, out_value);
}

/* Borrowed from the source bytes, which stay valid until the loader returns. */
int tvmrt_stream_read_string(void* stream, const char** out_text, size_t* out_size) {
  return tvmrt__read_view(stream, out_text, out_size);
}
