/* Global functions that read and write params files. */
#include "../tensors/params.h"

#include "../base/stream.h"

/* With the file's magic number first; the word after it is reserved and 0. */
static int save(tvmrt_buf* out, const tvmrt_params* params) {
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, TVMRT_PARAMS_MAGIC));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, 0));
  return tvmrt__params_write(out, false, params);
}

/* Converts the map to a params struct, which retains its tensors meanwhile. */
static int save_map(const tvmrt_args* in, tvmrt_buf* blob) {
  tvmrt_map* map;
  tvmrt_params params = {0};
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, 0, TVMRT_TYPE_MAP, &map));
  rc = tvmrt__params_add_map(&params, map, "params");
  if (rc == 0) rc = save(blob, &params);
  tvmrt__params_free(&params);
  return rc;
}

/* The tensors are returned in a Map, which retains them. */
static int return_loaded(TVMValue* out, int* out_code, const void* data, size_t size) {
  tvmrt_params params;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(data, size, &params));
  rc = tvmrt__params_return(&params, out, out_code);
  tvmrt__params_free(&params);
  return rc;
}

/* (Map of str to NDArray) -> bytes. */
TVMRT_NATIVE(save_params) {
  tvmrt_buf blob = {NULL, 0, 0};
  TVMRT_COUNTED_ARGS(1, 1);
  return tvmrt__ret_buf(save_map(&in, &blob), kTVMBytes, &blob, out, out_code);
}

/* (bytes) -> Map of str to NDArray. */
TVMRT_NATIVE(load_params) {
  TVMByteArray bytes;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &bytes));
  return return_loaded(out, out_code, bytes.data, bytes.size);
}

/* (Map of str to NDArray, path). The file is replaced atomically. */
TVMRT_NATIVE(save_params_to_file) {
  tvmrt_buf blob = {NULL, 0, 0};
  const char* path;
  int rc;
  TVMRT_COUNTED_ARGS(2, 2);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &path));
  rc = save_map(&in, &blob);
  if (rc == 0) rc = tvmrt__write_file(path, blob.data, blob.size);
  tvmrt__buf_free(&blob);
  return rc;
}

/* (path) -> Map of str to NDArray. */
TVMRT_NATIVE(load_params_from_file) {
  tvmrt_buf blob = {NULL, 0, 0};
  const char* path;
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &path));
  rc = tvmrt__read_file(path, &blob);
  if (rc == 0) rc = return_loaded(out, out_code, blob.data, blob.size);
  tvmrt__buf_free(&blob);
  return rc;
}

#define FUNCTIONS(X)                                 \
  X("runtime.SaveParams", save_params)               \
  X("runtime.LoadParams", load_params)               \
  X("runtime.SaveParamsToFile", save_params_to_file) \
  X("runtime.LoadParamsFromFile", load_params_from_file)
const tvmrt_builtins tvmrt__params_builtins = TVMRT_BUILTINS(FUNCTIONS);
