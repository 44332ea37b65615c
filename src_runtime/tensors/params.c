/* Tensors and named tensors as bytes: the params format. */
#include "params.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t tensor_magic = 0xDD5E40F096B4A13Fu;
static const uint64_t params_magic = 0xF7E58D4F05049CB7u;
enum { TENSOR_HEAD_BYTES = 40 /* of one without dimensions */, STRING_HEAD_BYTES = 8 };

/* Size in the file: lanes are not counted, as every reader and writer of the format has it. */
static uint64_t file_bytes(const DLTensor* t, uint64_t bytes) {
  return t->dtype.lanes == 0 ? 0 : bytes / t->dtype.lanes;
}

int tvmrt__tensor_write(tvmrt_buf* out, const DLTensor* t) {
  uint64_t bytes;
  int i;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (t->device.device_type != kDLCPU || !tvmrt__is_compact(t) || t->dtype.lanes != 1) {
    return tvmrt__fail_value("only compact CPU tensors of scalar types can be saved.");
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, tensor_magic));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, kDLCPU));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, 0));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 4, (uint32_t)t->ndim));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 1, t->dtype.code));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 1, t->dtype.bits));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 2, t->dtype.lanes));
  for (i = 0; i < t->ndim; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, (uint64_t)t->shape[i]));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, file_bytes(t, bytes)));
  return tvmrt__buf_append(out, tvmrt__tensor_data(t), (size_t)bytes);
}

static int read_dtype(tvmrt_reader* in, DLDataType* out) {
  uint64_t code;
  uint64_t bits;
  uint64_t lanes;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 1, &code));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 1, &bits));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 2, &lanes));
  if (bits == 0 || lanes == 0) return tvmrt__reader_fail(in, "a data type has no bits or no lanes");
  out->code = (uint8_t)code;
  out->bits = (uint8_t)bits;
  out->lanes = (uint16_t)lanes;
  return 0;
}

/* Everything before the data; the shape goes to `shape`. */
static int read_head(tvmrt_reader* in, DLTensor* t, int64_t shape[TVMRT_MAX_NDIM]) {
  uint64_t value;
  uint64_t i;
  uint64_t ndim;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &value));
  if (value != tensor_magic) return tvmrt__reader_fail(in, "no tensor starts here (wrong magic)");
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &value)); /* reserved */
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 4, &value)); /* device: the data are here anyway */
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 4, &value));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 4, &ndim));
  if (ndim > TVMRT_MAX_NDIM) return tvmrt__reader_fail(in, "a tensor has too many dimensions");
  TVMRT_RETURN_IF_ERROR(read_dtype(in, &t->dtype));
  for (i = 0; i < ndim; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &value));
    shape[i] = (int64_t)value;
  }
  t->ndim = (int32_t)ndim;
  t->shape = shape;
  t->device.device_type = kDLCPU;
  t->device.device_id = 0;
  return 0;
}

tvmrt_tensor* tvmrt__tensor_read(tvmrt_reader* in) {
  DLTensor head = {0};
  int64_t shape[TVMRT_MAX_NDIM];
  uint64_t stored;
  uint64_t bytes;
  const uint8_t* data;
  tvmrt_tensor* t;
  if (read_head(in, &head, shape) != 0 || tvmrt__read_uint(in, 8, &stored) != 0) return NULL;
  if (tvmrt__tensor_bytes(&head, &bytes) != 0 || file_bytes(&head, bytes) != stored) {
    (void)tvmrt__reader_fail(in, "the size of a tensor's data does not fit its shape");
    return NULL;
  }
  if (tvmrt__read_bytes(in, bytes, &data) != 0) return NULL; /* before anything is allocated */
  t = tvmrt__tensor_alloc(shape, head.ndim, head.dtype, head.device);
  if (t != NULL && bytes != 0) memcpy(t->dl.data, data, (size_t)bytes);
  return t;
}

int tvmrt__params_add(tvmrt_params* params, const char* name, tvmrt_tensor* tensor) {
  void* names = params->names;
  void* tensors = params->tensors;
  char* copy;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&names, params->count, sizeof(*params->names)));
  params->names = names;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&tensors, params->count, sizeof(*params->tensors)));
  params->tensors = tensors;
  copy = tvmrt__strdup(name);
  if (copy == NULL) return -1;
  tvmrt__retain(&tensor->base);
  params->names[params->count] = copy;
  params->tensors[params->count] = tensor;
  ++params->count;
  return 0;
}

void tvmrt__params_free(tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    free(params->names[i]);
    /* lint: count says how many there are in both lists */
    tvmrt__tensor_release(params->tensors[i]);
  }
  free(params->names);
  free(params->tensors);
  memset(params, 0, sizeof(*params));
}

static int read_tensors(tvmrt_reader* in, tvmrt_params* out, size_t count) {
  for (; out->count < count; ++out->count) {
    out->tensors[out->count] = tvmrt__tensor_read(in);
    if (out->tensors[out->count] == NULL) return -1;
  }
  return 0;
}

int tvmrt__params_read(tvmrt_reader* in, bool count_first, tvmrt_params* out) {
  size_t num_names;
  size_t count = 0;
  int rc;
  memset(out, 0, sizeof(*out));
  if (count_first) TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, TENSOR_HEAD_BYTES, &count));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_strings(in, &out->names, &num_names));
  rc = count_first ? 0 : tvmrt__read_count(in, TENSOR_HEAD_BYTES, &count);
  if (rc == 0 && count != num_names) {
    rc = tvmrt__reader_fail(in, "there are not as many tensors as names");
  }
  if (rc == 0) {
    out->tensors = tvmrt__calloc(count, sizeof(*out->tensors));
    rc = out->tensors == NULL ? -1 : read_tensors(in, out, count);
  }
  if (rc != 0) {
    size_t i;
    for (i = out->count; i < num_names; ++i) free(out->names[i]); /* names without a tensor */
    tvmrt__params_free(out);
  }
  return rc;
}

int tvmrt__params_write(tvmrt_buf* out, bool count_first, const tvmrt_params* params) {
  size_t i;
  if (count_first) TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, params->count));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_strings(out, params->names, params->count));
  if (!count_first) TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, params->count));
  for (i = 0; i < params->count; ++i) {
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_write(out, &params->tensors[i]->dl));
  }
  return 0;
}

int tvmrt__params_load(const void* data, size_t size, tvmrt_params* out) {
  tvmrt_reader in;
  uint64_t value;
  memset(out, 0, sizeof(*out));
  tvmrt__reader_init(&in, "the params file", data, size);
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &value));
  if (value != params_magic) return tvmrt__reader_fail(&in, "it is no params file (wrong magic)");
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &value));
  return tvmrt__params_read(&in, false, out);
}

int tvmrt__params_save(tvmrt_buf* out, const tvmrt_params* params) {
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, params_magic));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, 0));
  return tvmrt__params_write(out, false, params);
}

int tvmrt__params_add_map(tvmrt_params* params, const tvmrt_map* map, const char* what) {
  size_t i;
  for (i = 0; i < map->size; ++i) {
    const tvmrt_map_entry* e = &map->entries[i];
    if (e->key->type_index != TVMRT_TYPE_STRING || e->value->type_index != TVMRT_TYPE_NDARRAY) {
      return tvmrt__fail_type("%s must map str to NDArray.", what);
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__params_add(
        params, ((const tvmrt_string*)(const void*)e->key)->data, (tvmrt_tensor*)(void*)e->value));
  }
  return 0;
}

int tvmrt__params_return(const tvmrt_params* params, TVMValue* out, int* out_code) {
  tvmrt_map* map = tvmrt__map_new();
  size_t i;
  for (i = 0; map != NULL && i < params->count; ++i) {
    tvmrt__retain(&params->tensors[i]->base);
    if (tvmrt__map_set_text(map, params->names[i], &params->tensors[i]->base) != 0) {
      tvmrt__release(&map->base);
      map = NULL;
    }
  }
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)map);
}

static int save_map(const tvmrt_args* in, tvmrt_buf* blob) {
  tvmrt_map* map;
  tvmrt_params params = {0};
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, 0, TVMRT_TYPE_MAP, &map));
  rc = tvmrt__params_add_map(&params, map, "params");
  if (rc == 0) rc = tvmrt__params_save(blob, &params);
  tvmrt__params_free(&params);
  return rc;
}

static int return_loaded(TVMValue* out, int* out_code, const void* data, size_t size) {
  tvmrt_params params;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(data, size, &params));
  rc = tvmrt__params_return(&params, out, out_code);
  tvmrt__params_free(&params);
  return rc;
}

TVMRT_NATIVE(save_params) {
  tvmrt_buf blob = {NULL, 0, 0};
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  rc = save_map(&in, &blob);
  if (rc == 0) rc = tvmrt__ret_bytes(out, out_code, blob.data, blob.size);
  tvmrt__buf_free(&blob);
  return rc;
}

TVMRT_NATIVE(load_params) {
  TVMByteArray bytes;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &bytes));
  return return_loaded(out, out_code, bytes.data, bytes.size);
}

TVMRT_NATIVE(save_params_to_file) {
  tvmrt_buf blob = {NULL, 0, 0};
  const char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &path));
  rc = save_map(&in, &blob);
  if (rc == 0) rc = tvmrt__write_file(path, blob.data, blob.size);
  tvmrt__buf_free(&blob);
  return rc;
}

TVMRT_NATIVE(load_params_from_file) {
  tvmrt_buf blob = {NULL, 0, 0};
  const char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
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
