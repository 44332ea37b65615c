/* Exchange of tensors by DLPack, in both directions, without copying.
 *
 * An exported tensor holds the NDArray until the consumer deletes it; an imported one is deleted
 * with the last reference to the NDArray. Nothing is copied, so both sides see each other's writes.
 * An exported tensor that is imported again becomes a view of the original, so wrappers do not pile
 * up. */
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* The producer's deleter frees its struct too. */
static void release_imported(tvmrt_tensor* t) { TVMDLManagedTensorCallDeleter(t->owner); }

/* On failure the caller still owns the tensor. */
static int check_import(const DLManagedTensor* from) {
  const DLTensor* t;
  char text[TVMRT_TENSOR_TEXT_BYTES];
  uint64_t bytes;
  if (from == NULL) return tvmrt__fail("TVMArrayFromDLPack: the tensor is NULL.");
  t = &from->dl_tensor;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (!tvmrt__is_compact(t)) {
    return tvmrt__fail_value(
        "DLPack tensor %s has strides that are not compact: make a "
        "contiguous copy first.",
        tvmrt__tensor_text(t, text));
  }
  /* Generated code requires this alignment; empty tensors of front ends may have any address. */
  if ((uintptr_t)tvmrt__tensor_data(t) % TVMRT_FOREIGN_ALIGN_BYTES != 0 && bytes != 0) {
    return tvmrt__fail_value(
        "DLPack tensor %s is not aligned to %d bytes: copy it into an "
        "aligned one first.",
        tvmrt__tensor_text(t, text), TVMRT_FOREIGN_ALIGN_BYTES);
  }
  return 0;
}

/* Called on any thread. */
static void delete_exported(DLManagedTensor* self) {
  tvmrt__tensor_release(self->manager_ctx);
  free(self);
}

/* Whether a tensor was exported by TVMArrayToDLPack and comes back unchanged. */
static bool is_exported_here(const DLManagedTensor* from) {
  const tvmrt_tensor* t = from->manager_ctx;
  return from->deleter == delete_exported && from->dl_tensor.data == t->dl.data &&
         from->dl_tensor.shape == t->dl.shape && from->dl_tensor.ndim == t->dl.ndim;
}

/* A view of the exported tensor: it holds the original, however often it is exchanged. */
static tvmrt_tensor* view_exported(DLManagedTensor* from) {
  tvmrt_tensor* base = from->manager_ctx;
  tvmrt_tensor* t =
      tvmrt__tensor_view(base, base->dl.shape, base->dl.ndim, from->dl_tensor.dtype, 0);
  if (t == NULL) return NULL;
  t->dl.data = tvmrt__tensor_data(&t->dl);
  t->dl.byte_offset = 0;
  delete_exported(from); /* last: until the view was made, only this held the tensor */
  return t;
}

/* Shape and strides are copied; the data is deleted with the NDArray. */
static tvmrt_tensor* wrap_imported(DLManagedTensor* from) {
  tvmrt_tensor* t = tvmrt__tensor_borrow(&from->dl_tensor);
  if (t == NULL) return NULL;
  t->release = release_imported;
  t->owner = from;
  return t;
}

/* On success the runtime owns the tensor. Bools are a byte each, which TVM calls uint1. */
int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out) {
  tvmrt_tensor* t;
  *out = NULL;
  TVMRT_RETURN_IF_ERROR(check_import(from));
  t = is_exported_here(from) ? view_exported(from) : wrap_imported(from);
  if (t == NULL) return -1;
  if (t->dl.dtype.code == kDLBool && t->dl.dtype.bits == 8) {
    t->dl.dtype.code = kDLUInt; /* a byte each in both */
    t->dl.dtype.bits = 1;
  }
  *out = &t->dl;
  return 0;
}

/* The caller deletes the result by its deleter. The shape lies in the NDArray, which is
 * retained. */
int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out) {
  DLManagedTensor* managed;
  *out = NULL;
  if (from == NULL) return tvmrt__fail("TVMArrayToDLPack: the tensor is NULL.");
  TVMRT_RETURN_IF_ERROR(
      tvmrt__check_type(tvmrt__tensor_of(from), TVMRT_TYPE_NDARRAY, "TVMArrayToDLPack"));
  managed = tvmrt__calloc(1, sizeof(*managed));
  if (managed == NULL) return -1;
  managed->dl_tensor = *from;
  if (from->dtype.code == kDLUInt && from->dtype.bits == 1) {
    managed->dl_tensor.dtype.code = kDLBool;
    managed->dl_tensor.dtype.bits = 8;
  }
  managed->manager_ctx = tvmrt__tensor_of(from);
  managed->deleter = delete_exported;
  tvmrt__retain(managed->manager_ctx);
  *out = managed;
  return 0;
}

/* For callers that do not keep a tensor. NULL, and tensors without a deleter, are no-ops. */
void TVMDLManagedTensorCallDeleter(DLManagedTensor* dltensor) {
  if (dltensor != NULL && dltensor->deleter != NULL) dltensor->deleter(dltensor);
}
