/* Kinds of modules: their loaders, found by name among the global functions.
 *
 * A kind named K is read by the global function "runtime.module.loadbinary_K", which other
 * packages, plug-ins and front ends register; nothing here knows any kind. */
#include <string.h>

#include "../core/plugins.h"
#include "module.h"

/* Common body of loaders: the argument is the reader itself, which TVM's loaders receive as a
 * stream. A new reference is returned. */
int tvmrt__load_payload(const tvmrt_args* in, tvmrt_module_reader* read, TVMValue* out,
                        int* out_code) {
  tvmrt_module* mod = NULL;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  if (in->codes[0] != kTVMOpaqueHandle || in->values[0].v_handle == NULL) {
    return tvmrt__fail_type("%s: argument 0 must be a stream, got %s.", in->callee,
                            tvmrt__code_name(in->codes[0]));
  }
  TVMRT_RETURN_IF_ERROR(read(in->values[0].v_handle, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

/* For the list of loadable kinds in an error text. */
static int append_kind(void* ctx, const char* name) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(ctx, ", "));
  return tvmrt__buf_puts(ctx, name + strlen(TVMRT_LOADER_PREFIX));
}

/* `broken`: there is a plug-in with that name, and the last error explains its failure. It may be
 * unrelated: a device has the name that classic TVM uses for its own modules. */
static int unknown_kind(const char* kind, bool broken) {
  tvmrt_buf known = {NULL, 0, 0};
  tvmrt_buf why = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(&why, broken ? " Its plug-in is of no use: " : "");
  if (rc == 0 && broken) rc = tvmrt__buf_puts(&why, TVMGetLastError());
  tvmrt__plugins_load_by_prefix(
      TVMRT_LOADER_PREFIX); /* plug-ins list their kinds only when loaded */
  if (rc == 0) rc = tvmrt__buf_puts(&known, "_lib");
  if (rc == 0) rc = tvmrt__global_each(TVMRT_LOADER_PREFIX, append_kind, &known);
  if (rc == 0) {
    (void)tvmrt__fail(
        "The library contains a module of kind '%.60s', which this runtime cannot load; register "
        "%s%.60s for it. It can load: %s.%s",
        kind, TVMRT_LOADER_PREFIX, kind, known.data, why.data);
  }
  tvmrt__buf_free(&known);
  tvmrt__buf_free(&why);
  return -1;
}

/* A loader reads its part and leaves the reader after it: kinds state no length. */
int tvmrt__read_kind(tvmrt_reader* in, const char* kind, tvmrt_module** out) {
  tvmrt_buf loader = {NULL, 0, 0};
  tvmrt_func* f = NULL;
  TVMValue arg;
  int code = kTVMOpaqueHandle;
  int rc = tvmrt__buf_printf(&loader, "%s%s", TVMRT_LOADER_PREFIX, kind);
  *out = NULL;
  if (rc == 0) {
    const bool broken = tvmrt__find_loader(loader.data, kind, &f) != 0;
    if (f == NULL) rc = unknown_kind(kind, broken);
  }
  if (rc == 0) {
    arg.v_handle = in;
    rc = tvmrt__call_loader(f, loader.data, &arg, &code, 1, out);
  }
  tvmrt__buf_free(&loader);
  return rc;
}
