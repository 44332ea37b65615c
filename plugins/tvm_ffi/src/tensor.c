/* Conversion of tensors and element types; memory is shared through DLPack.
 *
 * Only data that would outlive its owner is copied. The classic ABI has bool as uint1, different
 * codes for 8-bit floats, and strides only in functions that support them. */
#include "tensor.h"

#include <stdlib.h>

#include "errors.h"
#include "sdk/base.h"
#include "sdk/tensors.h"

/* ---- element types ---- */

/* The classic ABI uses its own codes for two 8-bit floats; 6 is DLPack's bool. */
enum {
  CLASSIC_E4M3 = 6,
  CLASSIC_E5M2 = 7,
  CLASSIC_LAST = kDLComplex,  /* both sides agree up to this code ... */
  CLASSIC_FIRST_CUSTOM = 129, /* ... and from this code on */
  FFI_BOOL = 6,
  FFI_E4M3FN = 10,
  FFI_E5M2 = 12,
};

/* Reject codes that mean another type on the classic side. */
int bridge_dtype_to_classic(DLDataType dtype, DLDataType* out) {
  *out = dtype;
  if (dtype.code == FFI_BOOL) {
    out->code = kDLUInt; /* one byte per element on both sides */
    out->bits = 1;
  } else if (dtype.code == FFI_E4M3FN) {
    out->code = CLASSIC_E4M3;
  } else if (dtype.code == FFI_E5M2) {
    out->code = CLASSIC_E5M2;
  } else if (dtype.code > CLASSIC_LAST && dtype.code < CLASSIC_FIRST_CUSTOM) {
    return tvmrt__fail_type(
        "elements of %d bits with DLPack's type code %d have no equivalent in TVM's C "
        "ABI: convert them first",
        dtype.bits, dtype.code);
  }
  return 0;
}

/* Inverse of bridge_dtype_to_classic(); other codes are unchanged. */
DLDataType bridge_dtype_to_ffi(DLDataType dtype) {
  if (dtype.code == kDLUInt && dtype.bits == 1) {
    dtype.code = FFI_BOOL;
    dtype.bits = 8;
  } else if (dtype.code == CLASSIC_E4M3) {
    dtype.code = FFI_E4M3FN;
  } else if (dtype.code == CLASSIC_E5M2) {
    dtype.code = FFI_E5M2;
  }
  return dtype;
}

/* ---- classic to tvm-ffi ---- */

/* DLPack's struct retains the NDArray as long as the Tensor lives. The element type is changed only
 * in that struct. */
int bridge_tensor_to_ffi(TVMArrayHandle array, FfiObject** out) {
  DLManagedTensor* managed;
  void* tensor = NULL;
  *out = NULL;
  if (TVMArrayToDLPack(array, &managed) != 0) return -1;
  managed->dl_tensor.dtype = bridge_dtype_to_ffi(array->dtype);
  if (ffi.tensor_from_dlpack(managed, 0, 0, &tensor) != 0) {
    managed->deleter(managed);
    return bridge_catch();
  }
  *out = tensor;
  return 0;
}

/* Tensors come from any library, and the number is used as a size below. */
static int check_ndim(const DLTensor* tensor) {
  if (tensor->ndim >= 0 && tensor->ndim <= TVMRT_MAX_NDIM) return 0;
  return tvmrt__fail_value("a tensor has %d dimensions, expected 0 to %d", tensor->ndim,
                           TVMRT_MAX_NDIM);
}

/* A Tensor over borrowed memory, valid for the duration of a call. */
typedef struct {
  DLManagedTensor managed;
  FfiObject* tensor;
  int64_t extents[]; /* shape, then strides */
} BorrowedTensor;

/* The struct is the loan's first member, so this frees the loan. */
static void free_borrowed(DLManagedTensor* managed) { free(managed); }

/* A Tensor kept by the callee becomes a tensor without elements. */
static void end_borrowed(void* what) {
  BorrowedTensor* borrowed = what;
  DLTensor* content = ffi_body(borrowed->tensor);
  content->data = NULL;
  content->ndim = content->ndim > 1 ? content->ndim : 1;
  content->shape = borrowed->extents;
  for (int i = 0; i < content->ndim; i++) borrowed->extents[i] = 0;
  ffi_release(borrowed->tensor);
}

/* At least one dimension, for end_borrowed(). Freed by free_borrowed() through the Tensor's last
 * reference. */
static BorrowedTensor* new_borrowed(const DLTensor* tensor) {
  size_t extents = tensor->ndim > 1 ? (size_t)tensor->ndim : 1;
  size_t bytes = sizeof(BorrowedTensor) + 2 * extents * sizeof(int64_t);
  BorrowedTensor* borrowed = tvmrt__calloc(1, bytes);
  if (borrowed == NULL) return NULL;
  borrowed->managed = (DLManagedTensor){*tensor, NULL, free_borrowed};
  borrowed->managed.dl_tensor.dtype = bridge_dtype_to_ffi(tensor->dtype);
  borrowed->managed.dl_tensor.shape = borrowed->extents;
  for (int i = 0; i < tensor->ndim; i++) borrowed->extents[i] = tensor->shape[i];
  if (tensor->strides == NULL) return borrowed; /* tvm-ffi computes them */
  borrowed->managed.dl_tensor.strides = borrowed->extents + extents;
  for (int i = 0; i < tensor->ndim; i++)
    borrowed->extents[extents + (size_t)i] = tensor->strides[i];
  return borrowed;
}

/* *owned ends the loan after the call. The callee may keep the Tensor, but it has no elements
 * then. */
int bridge_borrow_to_ffi(const DLTensor* tensor, FfiObject** out, Owned* owned) {
  void* made = NULL;
  BorrowedTensor* borrowed;
  *out = NULL;
  if (check_ndim(tensor) != 0) return -1;
  borrowed = new_borrowed(tensor);
  if (borrowed == NULL) return -1;
  if (ffi.tensor_from_dlpack(&borrowed->managed, 0, 0, &made) != 0) {
    free(borrowed);
    return bridge_catch();
  }
  borrowed->tensor = made;
  *out = made;
  *owned = (Owned){end_borrowed, borrowed};
  return 0;
}

/* Bytes from the first element to the end of the last one, for non-negative strides. */
static uint64_t span_bytes(const DLTensor* tensor) {
  uint64_t last = 0, step = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    uint64_t extent = (uint64_t)tensor->shape[i];
    if (extent == 0) return 0;
    last += (extent - 1) * (tensor->strides != NULL ? (uint64_t)tensor->strides[i] : step);
    step *= extent;
  }
  return (last + 1) * (((uint64_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8);
}

/* Compares the first element's address: a callee returns views of its arguments, or its own
 * memory. */
int bridge_lies_within(const DLTensor* tensor, const DLTensor* container) {
  uint64_t start = (uintptr_t)tensor->data + tensor->byte_offset;
  uint64_t first = (uintptr_t)container->data + container->byte_offset;
  return start >= first && start - first < span_bytes(container);
}

/* ---- tvm-ffi to classic ---- */

/* Any stride is valid for an extent of 1; a tensor without elements is compact. */
static int is_compact(const DLTensor* tensor) {
  uint64_t step = 1;
  int compact = 1;
  if (tensor->strides == NULL) return 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] == 0) return 1;
    if (tensor->shape[i] != 1 && (uint64_t)tensor->strides[i] != step) compact = 0;
    step *= (uint64_t)tensor->shape[i];
  }
  return compact;
}

/* Classic functions may ignore strides, so only compact tensors are safe. */
static int check_classic(const DLTensor* tensor, DLDataType* dtype) {
  if (check_ndim(tensor) != 0) return -1;
  if (!is_compact(tensor)) {
    return tvmrt__fail_value("the tensor is not contiguous; pass a contiguous copy of it");
  }
  return bridge_dtype_to_classic(tensor->dtype, dtype);
}

/* Classic functions load whole vectors and rely on an NDArray's alignment; other tensors are passed
 * as views. */
static int is_aligned(const DLTensor* tensor) {
  return ((uintptr_t)tensor->data + tensor->byte_offset) % TVMRT_FOREIGN_ALIGN_BYTES == 0;
}

/* Returns 0 with *out NULL if only a view is possible. */
int bridge_tensor_to_classic(FfiObject* tensor, TVMArrayHandle* out) {
  const DLTensor* content = ffi_body(tensor);
  DLManagedTensor* managed = NULL;
  DLDataType dtype;
  *out = NULL;
  if (check_classic(content, &dtype) != 0) return -1;
  if (!is_aligned(content)) return 0;
  if (ffi.tensor_to_dlpack(tensor, &managed) != 0) return bridge_catch();
  managed->dl_tensor.strides = NULL; /* compact, also if an empty tensor has others */
  if (TVMArrayFromDLPack(managed, out) != 0) {
    if (managed->deleter != NULL) managed->deleter(managed);
    return -1;
  }
  (*out)->dtype = dtype; /* last: the runtime reads the classic 8-bit float as DLPack's bool */
  return 0;
}

/* Allocated with malloc(), freed by the caller; shape and data stay the tensor's. */
int bridge_view_to_classic(const DLTensor* tensor, DLTensor** out) {
  DLTensor* view;
  DLDataType dtype;
  *out = NULL;
  if (check_classic(tensor, &dtype) != 0) return -1;
  view = tvmrt__alloc(sizeof(*view));
  if (view == NULL) return -1;
  *view = *tensor;
  view->dtype = dtype;
  view->strides = NULL; /* many classic functions require this */
  *out = view;
  return 0;
}

/* Owned by the caller; NULL on failure. */
int bridge_copy_to_classic(const DLTensor* view, TVMArrayHandle* out) {
  DLTensor from = *view;
  *out = NULL;
  if (TVMArrayAlloc(view->shape, view->ndim, view->dtype.code, view->dtype.bits, view->dtype.lanes,
                    view->device.device_type, view->device.device_id, out) != 0) {
    return -1;
  }
  if (TVMArrayCopyFromTo(&from, *out, NULL) == 0) return 0;
  (void)TVMArrayFree(*out);
  *out = NULL;
  return -1;
}
