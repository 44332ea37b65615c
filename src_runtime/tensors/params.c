/* Serialised tensors and named tensors: the params format.
 *
 * The format is TVM's: names, then tensors, each with a header. A params struct holds names with
 * retained tensors; its owner frees it. Files are not trusted: sizes are checked against the
 * remaining bytes before memory is allocated.
 *
 *   file:   u64 magic, u64 0, vec<string> names, u64 number of tensors, tensors
 *   tensor: u64 magic, u64 0, i32 device type, i32 device id, i32 ndim, u8 type code, u8 bits,
 *           u16 lanes, i64 extents, i64 bytes of data, data
 *
 * All numbers are little-endian. The device is written as the CPU: readers choose their own. */
#include "params.h"

#include <stdlib.h>
#include <string.h>

/* The order is that of tvmrt__take_tensor_header(), which also reads it in firmware. */
int tvmrt__tensor_write(tvmrt_buf* out, const DLTensor* t) {
  uint64_t bytes;
  int i;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (t->device.device_type != kDLCPU || !tvmrt__is_compact(t) || t->dtype.lanes != 1) {
    return tvmrt__fail_value("only compact CPU tensors of scalar types can be saved.");
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, TVMRT_TENSOR_MAGIC));
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
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, bytes));
  return tvmrt__buf_append(out, tvmrt__tensor_data(t), (size_t)bytes);
}

/* Checks of this runtime beyond those of the byte reader. */
static int check_head(const tvmrt_reader* in, const tvmrt_tensor_header* head) {
  if (head->ndim > TVMRT_MAX_NDIM) {
    return tvmrt__reader_fail(in, "a tensor has too many dimensions");
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__reader_check(in));
  if (head->dtype.bits != 0 && head->dtype.lanes != 0) return 0;
  return tvmrt__reader_fail(in, "a data type has no bits or no lanes");
}

/* Owned, and aligned, as the bytes may be unaligned. NULL with the error text set. */
tvmrt_tensor* tvmrt__tensor_read(tvmrt_reader* in) {
  static const DLDevice host = {kDLCPU, 0};
  tvmrt_tensor_header head;
  int64_t shape[TVMRT_MAX_NDIM];
  uint64_t bytes;
  const uint8_t* data;
  tvmrt_tensor* t;
  tvmrt__take_tensor_header(&in->bytes, &head);
  if (check_head(in, &head) != 0) return NULL;
  /* without byte swapping, like the data: hosts are little-endian */
  memcpy(shape, head.shape, head.ndim * sizeof(*shape));
  if (tvmrt__shape_bytes(shape, (int)head.ndim, head.dtype, &bytes) != 0 ||
      bytes / head.dtype.lanes != head.data_bytes) { /* as all readers and writers do */
    (void)tvmrt__reader_fail(in, "the size of a tensor's data does not fit its shape");
    return NULL;
  }
  if (tvmrt__read_bytes(in, bytes, &data) != 0) return NULL; /* before anything is allocated */
  t = tvmrt__tensor_alloc(shape, (int)head.ndim, head.dtype, host);
  if (t != NULL && bytes != 0) memcpy(t->dl.data, data, (size_t)bytes);
  return t;
}

/* Grows the lists: only for params that were built by this function from the beginning. */
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

/* Empty afterwards. Tensors with other references live on. */
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

/* Reads both lists in parallel; on failure they are partly filled. The arrays have the exact size:
 * nothing may be added to params that were read. */
static int read_all(tvmrt_reader* names, tvmrt_reader* tensors, size_t count, tvmrt_params* out) {
  out->names = tvmrt__calloc(count, sizeof(*out->names));
  out->tensors = tvmrt__calloc(count, sizeof(*out->tensors));
  if (out->names == NULL || out->tensors == NULL) return -1;
  while (out->count < count) {
    /* counted first, so that a name without its tensor is freed too */
    const size_t i = out->count++;
    TVMRT_RETURN_IF_ERROR(tvmrt__read_string(names, &out->names[i]));
    out->tensors[i] = tvmrt__tensor_read(tensors);
    if (out->tensors[i] == NULL) return -1;
  }
  return 0;
}

/* `count_first` is the layout inside of modules, with the number of tensors before the names. *out
 * is empty on failure. */
int tvmrt__params_read(tvmrt_reader* in, bool count_first, tvmrt_params* out) {
  /* The names precede all tensors: two readers walk the bytes in parallel, without a temporary list
   * of names. */
  tvmrt_reader names = *in;
  size_t num_names;
  size_t count = 0;
  memset(out, 0, sizeof(*out));
  if (count_first) count = tvmrt__take_count(&in->bytes);
  num_names = tvmrt__skip_names(&in->bytes, &names.bytes);
  if (!count_first) count = tvmrt__take_count(&in->bytes);
  TVMRT_RETURN_IF_ERROR(tvmrt__reader_check(in));
  if (count != num_names) {
    return tvmrt__reader_fail(in, "the numbers of tensors and names differ");
  }
  if (read_all(&names, in, count, out) == 0) return 0;
  tvmrt__params_free(out);
  return -1;
}

/* The counterpart of tvmrt__params_read(). */
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

/* The bytes are copied and may be freed afterwards. */
int tvmrt__params_load(const void* data, size_t size, tvmrt_params* out) {
  tvmrt_reader in;
  tvmrt__reader_init(&in, "the params file", data, size);
  tvmrt__skip_params_header(&in.bytes);
  return tvmrt__params_read(&in, false, out);
}

/* `what` names the argument for the error. */
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

/* Linear search: a network has hundreds, each looked up once when an executor is created. */
tvmrt_tensor* tvmrt__params_find(const tvmrt_params* params, const char* name) {
  size_t i;
  for (i = 0; params != NULL && i < params->count; ++i) {
    if (strcmp(params->names[i], name) == 0) return params->tensors[i];
  }
  return NULL;
}

/* A Map of Strings to the same tensors, without copying them. */
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
