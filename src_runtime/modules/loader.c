/* Loading modules from files: the format selects a loader among the global functions.
 *
 * Formats work like the kinds inside of libraries: "runtime.module.loadfile_<format>" reads one. A
 * plug-in with the name of the format may supply a missing loader. */
#include <stdlib.h>
#include <string.h>

#include "../core/hooks.h"
#include "module.h"

/* Kinds come from files and become part of a path, so other characters are refused. */
static bool is_kind_name(const char* kind) {
  return kind[0] != '\0' && kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* Registered loaders come first: if a program registers one, no plug-in is loaded for the kind.
 * *out is owned, NULL if there is none; an error only if there is a plug-in that cannot be
 * loaded. */
int tvmrt__find_loader(const char* loader, const char* kind, tvmrt_func** out) {
  bool found = false;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(loader, out));
  if (*out != NULL || !is_kind_name(kind)) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__hooks.load_plugin(kind, &found));
  /* also if none is found: devices that are part of a library register when it is loaded */
  return tvmrt__global_get(loader, out);
}

/* Takes ownership of `f`. A loader is foreign code: its result is checked. */
int tvmrt__call_loader(tvmrt_func* f, const char* loader, TVMValue* args, int* codes, int num_args,
                       tvmrt_module** out) {
  TVMValue ret;
  int code = kTVMNullptr;
  int rc;
  *out = NULL;
  rc = TVMFuncCall(f, args, codes, num_args, &ret, &code);
  tvmrt__release(&f->base);
  if (rc != 0) return rc;
  if (code != kTVMModuleHandle || ret.v_handle == NULL) {
    tvmrt__release(tvmrt__value_object(&ret, code));
    return tvmrt__fail_type("loader '%s' returned %s instead of a Module.", loader,
                            tvmrt__code_name(code));
  }
  *out = ret.v_handle;
  return 0;
}

/* The text after the last '.' of the file's name; "so" for shared libraries of other systems. */
static const char* format_of(const char* path, const char* format) {
  /* One loader opens all of them; the system's loader refuses a file of another system. */
  static const char* const shared[] = {"dll", "dylib", "dso"};
  size_t i;
  if (format == NULL || format[0] == '\0') {
    const char* dot = strrchr(tvmrt__file_name(path), '.');
    if (dot == NULL || dot[1] == '\0') return NULL;
    format = dot + 1;
  }
  for (i = 0; i < sizeof(shared) / sizeof(shared[0]); ++i) {
    if (strcmp(format, shared[i]) == 0) return "so";
  }
  return format;
}

/* *out is owned, NULL on failure. */
static int load_from_file(const char* path, const char* format, tvmrt_module** out) {
  tvmrt_buf loader = {NULL, 0, 0};
  tvmrt_func* f = NULL;
  TVMValue args[2];
  int codes[2] = {kTVMStr, kTVMStr};
  int rc;
  *out = NULL;
  format = format_of(path, format);
  if (format == NULL) {
    return tvmrt__fail_value(
        "cannot determine the format of '%s': its name has no suffix and no "
        "format was given.",
        path);
  }
  rc = tvmrt__buf_printf(&loader, "runtime.module.loadfile_%s", format);
  if (rc == 0) rc = tvmrt__find_loader(loader.data, format, &f);
  if (rc == 0 && f == NULL) {
    rc = tvmrt__fail_value("cannot load '%.200s': format '%.40s' has no loader '%.80s'.", path,
                           format, loader.data);
  }
  if (rc == 0) {
    args[0].v_str = path;
    args[1].v_str = format;
    rc = tvmrt__call_loader(f, loader.data, args, codes, 2, out);
  }
  tvmrt__buf_free(&loader);
  return rc;
}

/* The caller owns the handle; NULL with the error text set on failure. */
int TVMModLoadFromFile(const char* file_name, const char* format, TVMModuleHandle* out) {
  tvmrt_module* mod = NULL;
  int rc;
  *out = NULL;
  if (file_name == NULL) return tvmrt__fail("TVMModLoadFromFile: the file name is NULL.");
  rc = load_from_file(file_name, format, &mod);
  *out = mod;
  return rc;
}

/* Return rc if it is an error, otherwise the module, with its reference. */
static int return_module(TVMValue* out, int* out_code, int rc, tvmrt_module* mod) {
  return rc != 0 ? rc : tvmrt__ret_object(out, out_code, &mod->base);
}

/* (path [, format]) -> module. */
TVMRT_NATIVE(module_load_from_file) {
  const char* path;
  const char* format = "";
  tvmrt_module* mod = NULL;
  int rc;
  TVMRT_COUNTED_ARGS(1, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  if (num_args == 2) TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &format));
  rc = load_from_file(path, format, &mod);
  return return_module(out, out_code, rc, mod);
}

/* (path [, format]): implements `loadfile_so`; the format is required by TVM's interface and
 * ignored. */
TVMRT_NATIVE(load_shared_library) {
  const char* path;
  tvmrt_module* mod = NULL;
  int rc;
  TVMRT_COUNTED_ARGS(1, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  rc = tvmrt__library_open(path, &mod);
  return return_module(out, out_code, rc, mod);
}

#define FUNCTIONS(X)                                     \
  X("runtime.ModuleLoadFromFile", module_load_from_file) \
  X("runtime.module.loadfile_so", load_shared_library)
const tvmrt_builtins tvmrt__loader_builtins = TVMRT_BUILTINS(FUNCTIONS);
