/* Modules to be compiled: C sources, and object code of a static library.
 *
 * They cannot be run: exporting writes their text to a file and compiles it into the library. The
 * names of functions and constants that the code defines or needs are stored with it. Types and
 * formats are TVM's: text, format, vec<string> functions, vec<string> constants for C code; bytes,
 * vec<string> functions for an object file. */
#include <stdlib.h>
#include <string.h>

#include "../core/container.h"
#include "../modules/module.h"

/* Type "c" has text, type "static_library" the bytes of an object file. */
typedef struct source_module {
  tvmrt_module base;
  tvmrt_buf code;
  char* format;
  char** functions;
  size_t num_functions;
  char** consts;
  size_t num_consts;
} source_module;

/* Also for a partially read module: missing fields are NULL. */
static void source_destroy(tvmrt_module* self) {
  source_module* m = (source_module*)self;
  tvmrt__buf_free(&m->code);
  free(m->format);
  tvmrt__free_strings(m->functions, m->num_functions);
  tvmrt__free_strings(m->consts, m->num_consts);
}

/* An Array of new Strings. */
static int return_names(TVMValue* out, int* out_code, char* const* names, size_t count) {
  const char* const* texts = (const void*)names;
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)tvmrt__array_of_texts(texts, count));
}

/* () -> name of the first function; "" if there is none. */
TVMRT_NATIVE(get_symbol) {
  const source_module* m = resource_handle;
  TVMRT_ARGS("get_symbol");
  return tvmrt__ret_str(out, out_code, m->num_functions == 0 ? "" : m->functions[0]);
}

/* () -> Array of the names of constants that the code needs. */
TVMRT_NATIVE(get_const_vars) {
  const source_module* m = resource_handle;
  TVMRT_ARGS("get_const_vars");
  return return_names(out, out_code, m->consts, m->num_consts);
}

/* () -> Array of the names of functions that the code defines. */
TVMRT_NATIVE(get_func_names) {
  const source_module* m = resource_handle;
  TVMRT_ARGS("get_func_names");
  return return_names(out, out_code, m->functions, m->num_functions);
}

#define METHODS(X)                    \
  X("get_symbol", get_symbol)         \
  X("get_const_vars", get_const_vars) \
  X("get_func_names", get_func_names)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

static int source_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  (void)self;
  return tvmrt__find_native(&own, name, out);
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
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_EXPORTABLE,
    .find = source_find,
    .source = source_text,
    .format = source_format,
    .destroy = source_destroy,
};

static const tvmrt_module_type object_type = {
    .key = "static_library",
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_EXPORTABLE,
    .find = source_find,
    .source = source_text,
    .destroy = source_destroy,
};

/* Copied, since the reader's view is borrowed. */
static int read_code(tvmrt_reader* in, tvmrt_buf* code) {
  const char* text;
  size_t size;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_view(in, &text, &size));
  return tvmrt__buf_append(code, text, size);
}

/* Common end of all constructors: sets *out to the module; on failure releases it and sets NULL.
 * `m` may be NULL. */
static int finish(int rc, source_module* m, tvmrt_module** out) {
  *out = rc == 0 ? &m->base : NULL;
  if (rc != 0) tvmrt__module_release((tvmrt_object*)m);
  return rc;
}

/* Code, format, functions, constants, in TVM's format. */
static int read_source(tvmrt_reader* in, tvmrt_module** out) {
  source_module* m = tvmrt__module_new(&source_type, sizeof(*m));
  int rc = m == NULL ? -1 : read_code(in, &m->code);
  if (rc == 0) rc = tvmrt__read_string(in, &m->format);
  if (rc == 0) rc = tvmrt__read_strings(in, &m->functions, &m->num_functions);
  if (rc == 0) rc = tvmrt__read_strings(in, &m->consts, &m->num_consts);
  return finish(rc, m, out);
}

/* The bytes of the object file, then its functions. */
static int read_static_library(tvmrt_reader* in, tvmrt_module** out) {
  source_module* m = tvmrt__module_new(&object_type, sizeof(*m));
  int rc = m == NULL ? -1 : read_code(in, &m->code);
  if (rc == 0) rc = tvmrt__read_strings(in, &m->functions, &m->num_functions);
  return finish(rc, m, out);
}

TVMRT_LOADER(load_source, read_source)
TVMRT_LOADER(load_object, read_static_library)

/* An Array of str as C strings; *out is owned by the caller. */
static int read_name_list(const tvmrt_args* in, int i, char*** out, size_t* out_count) {
  tvmrt_array* array;
  size_t k;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, i, TVMRT_TYPE_ARRAY, &array));
  *out = tvmrt__calloc(array->size, sizeof(**out));
  if (*out == NULL) return -1;
  for (k = 0; k < array->size; ++k) {
    const tvmrt_string* name = (const void*)array->items[k];
    if (name == NULL || name->base.type_index != TVMRT_TYPE_STRING) {
      return tvmrt__fail_type("%s: argument %d must be an Array of str.", in->callee, i);
    }
    (*out)[k] = tvmrt__strdup(name->data);
    if ((*out)[k] == NULL) return -1;
    *out_count = k + 1; /* updated for each item, so that a partial list can be freed */
  }
  return 0;
}

/* On failure, fields that were already set belong to the module. */
static int fill_source(const tvmrt_args* in, source_module* m) {
  TVMByteArray code;
  const char* format;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &code));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 1, &format));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&m->code, code.data, code.size));
  m->format = tvmrt__strdup(format);
  if (m->format == NULL) return -1;
  if (in->count < 3) return 0;
  TVMRT_RETURN_IF_ERROR(read_name_list(in, 2, &m->functions, &m->num_functions));
  if (in->count < 4 || tvmrt__arg_is_null(in, 3)) return 0;
  return read_name_list(in, 3, &m->consts, &m->num_consts);
}

/* (code, format [, Array of function names [, Array of constant names]]) */
TVMRT_NATIVE(create_source) {
  source_module* m;
  tvmrt_module* mod;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 4));
  m = tvmrt__module_new(&source_type, sizeof(*m));
  TVMRT_RETURN_IF_ERROR(finish(m == NULL ? -1 : fill_source(&in, m), m, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

/* (path of an object file, Array of function names) */
TVMRT_NATIVE(load_static_library) {
  source_module* m;
  tvmrt_module* mod;
  const char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  m = tvmrt__module_new(&object_type, sizeof(*m));
  rc = m == NULL ? -1 : tvmrt__read_file(path, &m->code);
  if (rc == 0) rc = read_name_list(&in, 1, &m->functions, &m->num_functions);
  TVMRT_RETURN_IF_ERROR(finish(rc, m, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

#define FUNCTIONS(X)                                        \
  X("runtime.CSourceModuleCreate", create_source)           \
  X("module.csource_module_create", create_source)          \
  X("runtime.ModuleLoadStaticLibrary", load_static_library) \
  X(TVMRT_LOADER_PREFIX "c", load_source)                   \
  X(TVMRT_LOADER_PREFIX "static_library", load_object)
const tvmrt_builtins tvmrt__source_builtins = TVMRT_BUILTINS(FUNCTIONS);
