/* Reference-counted tensors: creation, views, comparison, copies.
 *
 * A tensor owns its memory, retains another tensor whose memory it shares, or borrows memory that
 * its creator manages; `release` distinguishes them. Handles of the ABI are addresses of the inner
 * DLTensor. References may be released on any thread; the data is not locked. */
#include "tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/container.h"
#include "../core/function.h"
#include "../platform/system.h"
#include "memory_device.h"

/* Called with the last reference, on any thread. A tensor that borrows has no `release`: it owns
 * only the struct. */
static void free_tensor(tvmrt_object* obj) {
  tvmrt_tensor* t = (tvmrt_tensor*)obj;
  if (t->release != NULL) t->release(t);
  free(t);
}

/* Three kinds of `release`: owned memory, another tensor's, and those of other files, such as
 * DLPack's. */
static void release_memory(tvmrt_tensor* t) {
  (void)TVMDeviceFreeDataSpace(t->dl.device, t->dl.data);
}

/* Workspaces of this size or more do not come from the heap, which keeps freed blocks: those of a
 * burst of executors may never be needed again. */
enum { PAGES_BYTES = 1 << 20 };

static void release_pages(tvmrt_tensor* t) {
  tvmrt__pages_free(t->dl.data, (size_t)(uintptr_t)t->owner);
}

/* The other tensor is retained, and its memory with it. */
static void release_base(tvmrt_tensor* t) { tvmrt__tensor_release(t->owner); }

/* A tensor without memory; the shape was checked. The shape is stored in the same block, so it
 * lives as long as the tensor. */
static tvmrt_tensor* new_tensor(const int64_t* shape, int ndim, DLDataType dtype, DLDevice dev) {
  size_t shape_bytes = (size_t)ndim * sizeof(int64_t);
  tvmrt_tensor* t = tvmrt__calloc(1, sizeof(*t) + shape_bytes);
  if (t == NULL) return NULL;
  tvmrt__object_init(&t->base, TVMRT_TYPE_NDARRAY, free_tensor);
  if (ndim != 0) memcpy(t->shape, shape, shape_bytes);
  t->dl.device = dev;
  t->dl.ndim = ndim;
  t->dl.dtype = dtype;
  t->dl.shape = t->shape;
  return t;
}

/* Sufficient for every vector instruction, so that generated code may load any tensor by whole
 * vectors. */
static size_t alignment_of(DLDataType dtype) {
  size_t bytes = ((size_t)dtype.bits * dtype.lanes + 7) / 8;
  size_t align = TVMRT_ALLOC_ALIGN_BYTES;
  while (align < bytes && align < 4096) align *= 2; /* vector types may need more */
  return align;
}

/* Memory is not cleared. NULL with the error text set. */
tvmrt_tensor* tvmrt__tensor_alloc(const int64_t* shape, int ndim, DLDataType dtype, DLDevice dev) {
  uint64_t bytes;
  tvmrt_tensor* t;
  if (tvmrt__shape_bytes(shape, ndim, dtype, &bytes) != 0) return NULL;
  t = new_tensor(shape, ndim, dtype, dev);
  if (t == NULL) return NULL;
  if (TVMDeviceAllocDataSpace(dev, (size_t)bytes, alignment_of(dtype), dtype, &t->dl.data) != 0) {
    free(t);
    return NULL;
  }
  t->release = release_memory;
  return t;
}

tvmrt_tensor* tvmrt__tensor_alloc_workspace(const int64_t* shape, int ndim, DLDataType dtype,
                                            DLDevice dev) {
  uint64_t bytes;
  tvmrt_tensor* t;
  if (tvmrt__shape_bytes(shape, ndim, dtype, &bytes) != 0) return NULL;
  if (dev.device_type != kDLCPU || dev.device_id < 0 || bytes < PAGES_BYTES) {
    return tvmrt__tensor_alloc(shape, ndim, dtype, dev);
  }
  t = new_tensor(shape, ndim, dtype, dev);
  if (t == NULL) return NULL;
  t->dl.data = tvmrt__pages_alloc((size_t)bytes);
  if (t->dl.data != NULL) {
    t->release = release_pages;
    t->owner = (void*)(uintptr_t)bytes; /* the shape may change */
    return t;
  }
  free(t);
  (void)tvmrt__fail_memory(bytes);
  return NULL;
}

/* A view must lie within its base's bytes; the base need not be compact, as only its beginning is
 * used. */
tvmrt_tensor* tvmrt__tensor_view(tvmrt_tensor* base, const int64_t* shape, int ndim,
                                 DLDataType dtype, uint64_t byte_offset) {
  uint64_t bytes;
  uint64_t base_bytes;
  tvmrt_tensor* t;
  if (tvmrt__shape_bytes(shape, ndim, dtype, &bytes) != 0) return NULL;
  if (tvmrt__tensor_bytes(&base->dl, &base_bytes) != 0) return NULL;
  if (byte_offset > base_bytes || bytes > base_bytes - byte_offset) {
    (void)tvmrt__fail_value("the view would occupy bytes %" PRIu64 " <= i_byte < %" PRIu64
                            ", but the NDArray being viewed only contains %" PRIu64 " bytes.",
                            byte_offset, byte_offset + bytes, base_bytes);
    return NULL;
  }
  t = new_tensor(shape, ndim, dtype, base->dl.device);
  if (t == NULL) return NULL;
  t->dl.data = base->dl.data;
  t->dl.byte_offset = base->dl.byte_offset + byte_offset;
  t->release = release_base;
  /* a view of a view retains the same tensor: chains do not grow */
  t->owner = base->release == release_base ? base->owner : base;
  tvmrt__retain(t->owner);
  return t;
}

/* The shape is copied, the data is not retained: the caller keeps it alive, or sets `release`. */
tvmrt_tensor* tvmrt__tensor_borrow(const DLTensor* source) {
  uint64_t bytes;
  tvmrt_tensor* t;
  if (tvmrt__tensor_bytes(source, &bytes) != 0) return NULL;
  t = new_tensor(source->shape, source->ndim, source->dtype, source->device);
  if (t == NULL) return NULL;
  t->dl.data = tvmrt__tensor_data(source); /* generated code expects an offset of 0 */
  return t;
}

/* The only place where sizes of tensors are computed and bounded: all accepted sizes fit into
 * ptrdiff_t. */
int tvmrt__shape_bytes(const int64_t* shape, int ndim, DLDataType dtype, uint64_t* out_bytes) {
  const uint64_t element = ((uint64_t)dtype.bits * dtype.lanes + 7) / 8;
  /* Types without bits, such as void, make empty tensors; their extents are still checked. */
  uint64_t bytes = element == 0 ? 1 : element;
  bool is_empty = element == 0;
  int i;
  *out_bytes = 0;
  if (ndim < 0 || ndim > TVMRT_MAX_NDIM) {
    return tvmrt__fail_value("a tensor has 0 to %d dimensions, got %d.", TVMRT_MAX_NDIM, ndim);
  }
  if (ndim != 0 && shape == NULL) return tvmrt__fail_value("the shape of a tensor is NULL.");
  for (i = 0; i < ndim; ++i) {
    if (shape[i] < 0) {
      return tvmrt__fail_value("dimension %d of a shape is negative: %" PRId64 ".", i, shape[i]);
    }
  }
  /* Also for an empty tensor: strides are products of some extents. */
  for (i = 0; i < ndim; ++i) {
    const int64_t extent = shape[i] == 0 ? 1 : shape[i];
    is_empty = is_empty || shape[i] == 0;
    if (bytes > (uint64_t)(PTRDIFF_MAX / extent)) {
      return tvmrt__fail_value("a shape asks for more memory than can be addressed.");
    }
    bytes *= (uint64_t)extent;
  }
  /* Elements of 2 and 4 bits share bytes, so the product above was an upper bound. */
  bytes = tvmrt__packed_bytes(dtype, (size_t)bytes);
  *out_bytes = is_empty ? 0 : bytes;
  return 0;
}

/* 0 and the size of its elements in bytes, or -1 on overflow. Strides are ignored. */
int tvmrt__tensor_bytes(const DLTensor* t, uint64_t* out_bytes) {
  return tvmrt__shape_bytes(t->shape, t->ndim, t->dtype, out_bytes);
}

/* Extents of 1 may have any stride; a tensor without elements is compact. */
bool tvmrt__is_compact(const DLTensor* t) {
  int64_t expected = 1;
  int i;
  if (t->strides == NULL) return true;
  for (i = t->ndim - 1; i >= 0; --i) {
    if (t->shape[i] == 0) return true;
    if (t->shape[i] != 1 && t->strides[i] != expected) return false;
    expected *= t->shape[i];
  }
  return true;
}

/* Compares only extents, not strides or devices. */
bool tvmrt__same_shape(const DLTensor* a, const DLTensor* b) {
  size_t bytes = (size_t)a->ndim * sizeof(int64_t);
  return a->ndim == b->ndim && (bytes == 0 || memcmp(a->shape, b->shape, bytes) == 0);
}

/* bool is uint1 here, code 6 in DLPack; older code also passes it as 8-bit integers. */
static bool is_bool(DLDataType t) {
  return t.lanes == 1 && ((t.code == kDLUInt && t.bits == 1) || (t.code == kDLBool && t.bits == 8));
}

/* Bools are equal in both representations. */
bool tvmrt__same_dtype(DLDataType a, DLDataType b) {
  if (a.code == b.code && a.bits == b.bits && a.lanes == b.lanes) return true;
  return is_bool(a) && is_bool(b);
}

/* For errors: "float32 (1, 3, ...)", truncated to fit. */
const char* tvmrt__tensor_text(const DLTensor* t, char text[TVMRT_TENSOR_TEXT_BYTES]) {
  size_t used;
  int i;
  tvmrt__dtype_to_text(t->dtype, text);
  used = strlen(text);
  /* space for one 64-bit number, its comma and the end */
  for (i = 0; i < t->ndim && used < TVMRT_TENSOR_TEXT_BYTES - 28; ++i) {
    used += (size_t)snprintf(text + used, TVMRT_TENSOR_TEXT_BYTES - used, "%s%" PRId64,
                             i == 0 ? " (" : ", ", t->shape[i]);
  }
  (void)snprintf(text + used, TVMRT_TENSOR_TEXT_BYTES - used, "%s",
                 t->ndim == 0 ? " ()" : (i < t->ndim ? ", ...)" : ")"));
  return text;
}

/* Copy rows of the innermost dimension, iterating over the outer ones. There is at least one
 * dimension and none of extent 0: a tensor with relevant strides is neither a scalar nor empty. */
static void copy_strided(const DLTensor* from, char* to) {
  size_t item = ((size_t)from->dtype.bits * from->dtype.lanes + 7) / 8;
  int64_t index[TVMRT_MAX_NDIM] = {0};
  int last = from->ndim - 1;
  for (;;) {
    const char* row = tvmrt__tensor_data(from);
    int64_t k;
    int d;
    for (d = 0; d < last; ++d) row += index[d] * from->strides[d] * (int64_t)item;
    for (k = 0; k < from->shape[last]; ++k, to += item) {
      memcpy(to, row + k * from->strides[last] * (int64_t)item, item);
    }
    for (d = last - 1; d >= 0 && ++index[d] == from->shape[d]; --d) index[d] = 0;
    if (d < 0) return;
  }
}

/* A device's pinned memory is handled by that device, which can copy it fast. */
static bool is_host(DLDevice dev) { return dev.device_type == kDLCPU; }

/* The shapes need not be equal: the size was compared, or is equal by construction. The source's
 * device copies between two devices. */
int tvmrt__tensor_copy(const DLTensor* from, const DLTensor* to, TVMStreamHandle stream) {
  const tvmrt_memory_device* api;
  uint64_t bytes;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(to, &bytes));
  if (bytes == 0) return 0;
  if (!tvmrt__is_compact(to)) {
    return tvmrt__fail_value("the target of a copy must be compact, without strides.");
  }
  if (!tvmrt__is_compact(from)) {
    if (!is_host(from->device) || !is_host(to->device)) {
      return tvmrt__fail_value("a tensor with strides can be copied only on the CPU.");
    }
    if (tvmrt__is_packed(from->dtype)) {
      return tvmrt__fail_value("a tensor of sub-byte elements must be contiguous to be copied.");
    }
    copy_strided(from, tvmrt__tensor_data(to));
    return 0;
  }
  /* the device that is not the host can access the other */
  api = tvmrt__memory_device(is_host(from->device) ? to->device.device_type
                                                   : from->device.device_type);
  if (api == NULL) return -1;
  return api->copy(from->device, tvmrt__tensor_data(from), to->device, tvmrt__tensor_data(to),
                   (size_t)bytes, stream);
}

/* Also across devices. The copy is compact, whatever the strides of the source. */
tvmrt_tensor* tvmrt__tensor_copied(const DLTensor* from, DLDevice dev) {
  tvmrt_tensor* copy = tvmrt__tensor_alloc(from->shape, from->ndim, from->dtype, dev);
  if (copy == NULL) return NULL;
  if (tvmrt__tensor_copy(from, &copy->dl, NULL) == 0) return copy;
  tvmrt__tensor_release(copy);
  return NULL;
}

/* Handles come from outside. */
static int check_tensor(TVMArrayHandle handle, const char* callee) {
  if (handle == NULL) return tvmrt__fail("%s: the tensor is NULL.", callee);
  return tvmrt__check_type(tvmrt__tensor_of(handle), TVMRT_TYPE_NDARRAY, callee);
}

/* Numbers are checked before they are narrowed, since a caller's int may be anything. */
int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle* out) {
  DLDataType dtype;
  DLDevice dev;
  tvmrt_tensor* t;
  *out = NULL;
  if (dtype_code < 0 || dtype_code > 255 || dtype_bits < 1 || dtype_bits > 255 || dtype_lanes < 1 ||
      dtype_lanes > 65535) {
    return tvmrt__fail_value("invalid data type: code %d, %d bits and %d lanes.", dtype_code,
                             dtype_bits, dtype_lanes);
  }
  dtype.code = (uint8_t)dtype_code;
  dtype.bits = (uint8_t)dtype_bits;
  dtype.lanes = (uint16_t)dtype_lanes;
  dev.device_type = (DLDeviceType)device_type;
  dev.device_id = device_id;
  t = tvmrt__tensor_alloc(shape, ndim, dtype, dev);
  if (t == NULL) return -1;
  *out = &t->dl;
  return 0;
}

/* Release a reference; NULL does nothing, as in free(). */
int TVMArrayFree(TVMArrayHandle handle) {
  if (handle == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(check_tensor(handle, "TVMArrayFree"));
  tvmrt__tensor_release(tvmrt__tensor_of(handle));
  return 0;
}

int TVMArrayGetTypeIndex(TVMArrayHandle handle, unsigned* out_tindex) {
  *out_tindex = 0;
  TVMRT_RETURN_IF_ERROR(check_tensor(handle, "TVMArrayGetTypeIndex"));
  *out_tindex = tvmrt__tensor_of(handle)->base.type_index;
  return 0;
}

/* A host view of nbytes raw bytes, with the tensor's shape and type. The caller's size must equal
 * the tensor's: a wrong size is the most frequent cause of overruns. */
static int bytes_view(const DLTensor* t, void* data, size_t nbytes, const char* callee,
                      DLTensor* out) {
  uint64_t bytes;
  if (t == NULL) return tvmrt__fail("%s: the tensor is NULL.", callee);
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (bytes != nbytes || (data == NULL && nbytes != 0)) {
    char text[TVMRT_TENSOR_TEXT_BYTES];
    return tvmrt__fail_value("%s: %s takes %" PRIu64 " bytes, got %zu.", callee,
                             tvmrt__tensor_text(t, text), bytes, nbytes);
  }
  if (!tvmrt__is_compact(t)) return tvmrt__fail_value("%s: the tensor has strides.", callee);
  *out = *t;
  out->data = data;
  out->byte_offset = 0;
  out->strides = NULL;
  out->device.device_type = kDLCPU;
  out->device.device_id = 0;
  return 0;
}

/* As many bytes as the tensor has; its device copies them if that is not the host. */
int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  DLTensor host;
  TVMRT_RETURN_IF_ERROR(bytes_view(handle, data, nbytes, "TVMArrayCopyFromBytes", &host));
  return tvmrt__tensor_copy(&host, handle, NULL);
}

/* The data is complete when this returns, from any device. */
int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes) {
  DLTensor host;
  TVMRT_RETURN_IF_ERROR(bytes_view(handle, data, nbytes, "TVMArrayCopyToBytes", &host));
  return tvmrt__tensor_copy(handle, &host, NULL);
}

/* A scope names a kind of memory inside of a device. All devices here have only one kind; NULL and
 * "" select it. */
static int check_scope(DLDevice dev, const char* scope) {
  if (scope == NULL || scope[0] == '\0' || strcmp(scope, "global") == 0) return 0;
  return tvmrt__fail_value("device %s has no memory scope '%s'; it has: global.",
                           tvmrt__memory_device_name(dev.device_type), scope);
}

/* *out_data is owned; released by TVMDeviceFreeDataSpace(). */
int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out_data) {
  uint64_t bytes;
  *out_data = NULL;
  TVMRT_RETURN_IF_ERROR(check_scope(dev, mem_scope));
  TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shape, ndim, dtype, &bytes));
  return TVMDeviceAllocDataSpace(dev, (size_t)bytes, 0, dtype, out_data);
}

/* Compares sizes, not shapes: reshaping copies are common in TVM. */
static int check_copy(const DLTensor* from, const DLTensor* to) {
  uint64_t from_bytes;
  uint64_t to_bytes;
  if (from == NULL || to == NULL) return tvmrt__fail_type("cannot copy a tensor that is NULL.");
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(from, &from_bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(to, &to_bytes));
  if (from_bytes != to_bytes) {
    char a[TVMRT_TENSOR_TEXT_BYTES];
    char b[TVMRT_TENSOR_TEXT_BYTES];
    return tvmrt__fail_value("cannot copy %s to %s: the sizes differ.", tvmrt__tensor_text(from, a),
                             tvmrt__tensor_text(to, b));
  }
  return 0;
}

/* The default stream is NULL. With another one the copy may still be in progress. */
int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream) {
  TVMRT_RETURN_IF_ERROR(check_copy(from, to));
  return tvmrt__tensor_copy(from, to, stream);
}

/* TVMDeviceCopyDataFromTo() for NDArrays. */
int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream) {
  return TVMDeviceCopyDataFromTo(from, to, stream);
}

/* Takes ownership of the tensor; NULL means that its creation failed and set the text. */
static int return_tensor(TVMValue* out, int* out_code, tvmrt_tensor* t) {
  return tvmrt__ret_object(out, out_code, t == NULL ? NULL : &t->base);
}

/* (ShapeTuple, dtype, device, scope | None); in 0.8 (int64_t* shape, ndim, dtype, device,
 * scope). */
TVMRT_NATIVE(alloc_with_scope) {
  tvmrt_shape* tuple;
  const int64_t* shape;
  int64_t ndim;
  DLDataType dtype;
  DLDevice dev;
  int next = 1;
  TVMRT_COUNTED_ARGS(4, 5);
  if (num_args == 5) {
    if (type_codes[0] != kTVMOpaqueHandle) {
      return tvmrt__fail_type("%s: argument 0 must be a raw pointer, got %s.", in.callee,
                              tvmrt__code_name(type_codes[0]));
    }
    shape = args[0].v_handle;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, next++, &ndim));
  } else {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_SHAPE_TUPLE, &tuple));
    shape = tuple->data;
    ndim = (int64_t)tuple->size;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_dtype(&in, next++, &dtype));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, next++, &dev));
  if (!tvmrt__arg_is_null(&in, next)) {
    const char* scope;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, next, &scope));
    TVMRT_RETURN_IF_ERROR(check_scope(dev, scope));
  }
  if (ndim < 0 || ndim > TVMRT_MAX_NDIM) ndim = TVMRT_MAX_NDIM + 1; /* refused with its own text */
  return return_tensor(out, out_code, tvmrt__tensor_alloc(shape, (int)ndim, dtype, dev));
}

/* (array, ShapeTuple [, dtype, byte_offset]) */
TVMRT_NATIVE(create_view) {
  DLTensor* base;
  tvmrt_shape* shape;
  DLDataType dtype;
  int64_t offset = 0;
  TVMRT_COUNTED_ARGS(2, 4);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, 0, &base));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 1, TVMRT_TYPE_SHAPE_TUPLE, &shape));
  /* A tensor view has no reference that the new view could retain. */
  if (type_codes[0] != kTVMNDArrayHandle) {
    return tvmrt__fail_type("%s: argument 0 must be an NDArray, got a view.", in.callee);
  }
  dtype = base->dtype;
  if (num_args > 2) TVMRT_RETURN_IF_ERROR(tvmrt__arg_dtype(&in, 2, &dtype));
  if (num_args > 3) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 3, &offset));
  if (offset < 0 || shape->size > TVMRT_MAX_NDIM) {
    return tvmrt__fail_value("%s: the offset is negative or the shape is too long.", in.callee);
  }
  return return_tensor(out, out_code,
                       tvmrt__tensor_view(tvmrt__tensor_of(base), shape->data, (int)shape->size,
                                          dtype, (uint64_t)offset));
}

#define FUNCTIONS(X)                                    \
  X("runtime.TVMArrayAllocWithScope", alloc_with_scope) \
  X("runtime.TVMArrayCreateView", create_view)
const tvmrt_builtins tvmrt__tensor_builtins = TVMRT_BUILTINS(FUNCTIONS);
