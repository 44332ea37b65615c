/* Global functions that convert an import tree into the bytes, or the C text, of `__tvm_dev_mblob`.
 *
 * Exporting a library links their results with its code; mblob.c reads them when the library is
 * loaded. A static program has no symbols to look up, so there the text registers the array before
 * main(), under the name that runtime.ModuleImportsBlobName returns. */
#include <ctype.h>
#include <string.h>

#include "mblob_write.h"

/* The caller frees the blob, also on failure. */
static int pack(const tvmrt_args* in, int max_args, tvmrt_buf* blob) {
  tvmrt_module* root;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, max_args));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, 0, &root));
  return tvmrt__mblob_pack(root, blob);
}

/* (module) -> bytes: the whole value of the symbol, starting with its length. */
TVMRT_NATIVE(pack_to_bytes) {
  tvmrt_buf blob = {NULL, 0, 0};
  TVMRT_GLOBAL_ARGS;
  return tvmrt__ret_buf(pack(&in, 1, &blob), kTVMBytes, &blob, out, out_code);
}

/* Five characters per byte, sixteen bytes per line. */
static int write_bytes(tvmrt_buf* text, const tvmrt_buf* blob) {
  static const char digits[] = "0123456789abcdef";
  size_t i;
  /* in one step: blobs contain weights, and growing would copy their text repeatedly */
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(text, blob->size * 5 + blob->size / 16 + 1));
  for (i = 0; i < blob->size; ++i) {
    unsigned char byte = (unsigned char)blob->data[i];
    char item[] = {'0', 'x', digits[byte >> 4], digits[byte & 15], ','};
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(text, item, sizeof(item)));
    if (i % 16 == 15) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, "\n"));
  }
  return 0;
}

/* In a static program the array registers itself before main(). */
static int write_c(tvmrt_buf* text, const tvmrt_buf* blob, bool system_lib, const char* prefix) {
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
      text,
      "#ifdef _WIN32\n#define TVM_EXPORT __declspec(dllexport)\n#else\n#define TVM_EXPORT\n#endif\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
      "TVM_EXPORT extern const unsigned char %s__tvm_dev_mblob[];\n"
      "const unsigned char %s__tvm_dev_mblob[%zu] = {\n",
      prefix, prefix, blob->size));
  TVMRT_RETURN_IF_ERROR(write_bytes(text, blob));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, "};\n"));
  if (system_lib) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
        text,
        "extern int TVMBackendRegisterSystemLibSymbol(const char*, void*);\n"
        "__attribute__((constructor)) static void %sregister_mblob(void) {\n"
        "  (void)TVMBackendRegisterSystemLibSymbol(\"%s__tvm_dev_mblob\",\n"
        "                                          (void*)%s__tvm_dev_mblob);\n}\n",
        prefix, prefix, prefix));
  }
  return tvmrt__buf_puts(text, "#ifdef __cplusplus\n}\n#endif\n");
}

/* The prefix becomes part of C code. */
static int check_prefix(const char* prefix) {
  const char* p;
  for (p = prefix; *p != '\0'; ++p) {
    if (!isalnum((unsigned char)*p) && *p != '_') {
      return tvmrt__fail_value("the prefix '%.60s' cannot be part of a C name.", prefix);
    }
  }
  return 0;
}

/* (module, is_system_lib [, prefix]) -> C source text. */
TVMRT_NATIVE(pack_to_c) {
  tvmrt_buf blob = {NULL, 0, 0};
  tvmrt_buf text = {NULL, 0, 0};
  int64_t system_lib = 0;
  const char* prefix = "";
  int rc;
  TVMRT_GLOBAL_ARGS;
  rc = pack(&in, 3, &blob);
  if (rc == 0 && num_args > 1) rc = tvmrt__arg_int(&in, 1, &system_lib);
  if (rc == 0 && num_args > 2) rc = tvmrt__arg_str(&in, 2, &prefix);
  if (rc == 0) rc = check_prefix(prefix);
  if (rc == 0) rc = write_c(&text, &blob, system_lib != 0, prefix);
  tvmrt__buf_free(&blob);
  return tvmrt__ret_buf(rc, kTVMStr, &text, out, out_code);
}

/* (is_system_lib, prefix) -> the name of the symbol. */
TVMRT_NATIVE(blob_name) {
  tvmrt_buf name = {NULL, 0, 0};
  int64_t system_lib;
  const char* prefix;
  int rc;
  TVMRT_GLOBAL_ARGS;
  rc = tvmrt__arg_count(&in, 2, 2);
  if (rc == 0) rc = tvmrt__arg_int(&in, 0, &system_lib);
  if (rc == 0) rc = tvmrt__arg_str(&in, 1, &prefix);
  if (rc == 0) rc = tvmrt__buf_printf(&name, "%s__tvm_dev_mblob", system_lib != 0 ? prefix : "");
  return tvmrt__ret_buf(rc, kTVMStr, &name, out, out_code);
}

#define FUNCTIONS(X)                           \
  X("tvmrt.ModulePackImports", pack_to_bytes)  \
  X("runtime.ModulePackImportsToC", pack_to_c) \
  X("runtime.ModuleImportsBlobName", blob_name)
const tvmrt_builtins tvmrt__pack_builtins = TVMRT_BUILTINS(FUNCTIONS);
