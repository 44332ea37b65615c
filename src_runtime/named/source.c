/* Modules of C source, which a device's code generator returns.
 *
 * They cannot be run: the compiler writes their text to a file and compiles it into the library. */
#include <stdlib.h>

#include "../modules/module.h"

typedef struct source_module {
  tvmrt_module base;
  tvmrt_buf code;
  char* format; /* suffix of a file of the code, such as "c" */
} source_module;

/* Also for a module whose fields are not all set: missing ones are NULL. */
static void source_destroy(tvmrt_module* self) {
  source_module* m = (source_module*)self;
  tvmrt__buf_free(&m->code);
  free(m->format);
}

static int source_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  (void)self, (void)name, (void)out; /* it has no functions until it is compiled */
  return 0;
}

static int source_text(tvmrt_module* self, const char* format, tvmrt_buf* out) {
  const source_module* m = (const source_module*)self;
  (void)format; /* there is only one text */
  return tvmrt__buf_append(out, m->code.data, m->code.size);
}

static const char* source_format(const tvmrt_module* self) {
  return ((const source_module*)self)->format;
}

/* Without `save`: exportable modules become code of a library, and files get the text. */
static const tvmrt_module_type source_type = {
    .key = "c",
    .properties = TVMRT_MODULE_EXPORTABLE,
    .find = source_find,
    .source = source_text,
    .format = source_format,
    .destroy = source_destroy,
};

/* On failure, fields that were already set belong to the module. */
static int fill_source(const tvmrt_args* in, source_module* m) {
  TVMByteArray code;
  const char* format;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &code));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 1, &format));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&m->code, code.data, code.size));
  m->format = tvmrt__strdup(format);
  return m->format == NULL ? -1 : 0;
}

/* (code, format [, Array of function names [, Array of constant names]]). The names are for TVM's
 * linker of modules; this compiler takes them from its own graph, so they are not read. */
TVMRT_NATIVE(create_source) {
  source_module* m;
  TVMRT_COUNTED_ARGS(2, 4);
  m = tvmrt__module_new(&source_type, sizeof(*m));
  if (m == NULL) return -1;
  if (fill_source(&in, m) == 0) return tvmrt__ret_object(out, out_code, &m->base.base);
  tvmrt__module_release(m);
  return -1;
}

#define FUNCTIONS(X)                              \
  X("runtime.CSourceModuleCreate", create_source) \
  X("module.csource_module_create", create_source)
const tvmrt_builtins tvmrt__source_builtins = TVMRT_BUILTINS(FUNCTIONS);
