/* Tensors and element types, both ways; the memory is shared by DLPack.
 *
 * Nothing is copied but what would outlive its owner. The classic ABI has bools as uint1, 8-bit
 * floats under numbers of its own, and strides only where a function says so. */
#include "tensor.h"

#include <stdlib.h>

#include "error.h"
#include "raise.h"

enum {
  ARRAY_ALIGN_BYTES = 64, /* of the memory of an NDArray */
  MAX_NDIM = 64,          /* more dimensions than this are refused by the runtime */
};

/* ---- element types ---- */

/* The classic ABI numbers two of the 8-bit floats as nobody else does; 6 is DLPack's bool. */
enum {
  CLASSIC_E4M3 = 6,
  CLASSIC_E5M2 = 7,
  CLASSIC_LAST = kDLComplex,  /* up to here both sides agree, ... */
  CLASSIC_FIRST_CUSTOM = 129, /* ... and from here on */
  FFI_BOOL = 6,
  FFI_E4M3FN = 10,
  FFI_E5M2 = 12,
};

/* Codes between those of both sides mean other types there: passed on as they are, they would be
 * read as those. */
int bridge_dtype_to_classic(DLDataType dtype, DLDataType* out) {
  *out = dtype;
  if (dtype.code == FFI_BOOL) {
    out->code = kDLUInt; /* a byte each on both sides */
    out->bits = 1;
  } else if (dtype.code == FFI_E4M3FN) {
    out->code = CLASSIC_E4M3;
  } else if (dtype.code == FFI_E5M2) {
    out->code = CLASSIC_E5M2;
  } else if (dtype.code > CLASSIC_LAST && dtype.code < CLASSIC_FIRST_CUSTOM) {
    return bridge_fail(
        "TypeError: elements of %d bits with DLPack's type code %d have no classic "
        "counterpart: convert them first",
        dtype.bits, dtype.code);
  }
  return 0;
}

/* All pairs that bridge_dtype_to_classic() knows, backwards; other codes stay. */
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

/* ---- to the other side ---- */

/* The NDArray is held by DLPack's struct until the Tensor goes. The type is set there, on the copy:
 * the NDArray keeps its own. */
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

/* Tensors come from any library: the number is used as a size below. */
static int check_ndim(const DLTensor* tensor) {
  if (tensor->ndim >= 0 && tensor->ndim <= MAX_NDIM) return 0;
  return bridge_fail("ValueError: a tensor has %d dimensions; 0 to %d are possible", tensor->ndim,
                     MAX_NDIM);
}

/* Unsigned, because extents may be anything; they are used only where the memory is. */
static void fill_strides(const DLTensor* tensor, int64_t* strides) {
  uint64_t step = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    strides[i] = (int64_t)step;
    step *= (uint64_t)tensor->shape[i];
  }
}

/* A Tensor over memory that is somebody else's, who shows it for the time of a call. */
typedef struct {
  DLManagedTensor managed;
  FfiObject* tensor;
  int64_t extents[]; /* shape, then strides, which are never missing on the other side */
} Loan;

/* The struct is the loan's first member, so the loan goes with it. */
static void free_loan(DLManagedTensor* managed) { free(managed); }

/* What the callee has kept becomes a tensor without elements. */
static void end_loan(void* what) {
  Loan* loan = what;
  DLTensor* content = ffi_body(loan->tensor);
  content->data = NULL;
  content->ndim = content->ndim > 1 ? content->ndim : 1;
  content->shape = loan->extents;
  for (int i = 0; i < content->ndim; i++) loan->extents[i] = 0;
  ffi_release(loan->tensor);
}

/* A dimension at least, for end_loan(). Freed by free_loan(), through the Tensor's last
 * reference. */
static Loan* new_loan(const DLTensor* tensor) {
  size_t room = tensor->ndim > 1 ? (size_t)tensor->ndim : 1;
  size_t bytes = sizeof(Loan) + 2 * room * sizeof(int64_t);
  Loan* loan = calloc(1, bytes);
  if (loan == NULL) {
    (void)bridge_fail_memory(bytes);
    return NULL;
  }
  loan->managed = (DLManagedTensor){*tensor, NULL, free_loan};
  loan->managed.dl_tensor.dtype = bridge_dtype_to_ffi(tensor->dtype);
  loan->managed.dl_tensor.shape = loan->extents;
  loan->managed.dl_tensor.strides = loan->extents + room;
  for (int i = 0; i < tensor->ndim; i++) loan->extents[i] = tensor->shape[i];
  if (tensor->strides == NULL) {
    fill_strides(tensor, loan->extents + room);
  } else {
    for (int i = 0; i < tensor->ndim; i++) loan->extents[room + (size_t)i] = tensor->strides[i];
  }
  return loan;
}

/* *owned ends the loan, after the call. The Tensor itself may live on: whoever has kept it finds
 * nothing in it any more. */
int bridge_lend_to_ffi(const DLTensor* tensor, FfiObject** out, Owned* owned) {
  void* made = NULL;
  Loan* loan;
  *out = NULL;
  if (check_ndim(tensor) != 0) return -1;
  loan = new_loan(tensor);
  if (loan == NULL) return -1;
  if (ffi.tensor_from_dlpack(&loan->managed, 0, 0, &made) != 0) {
    free(loan);
    return bridge_catch();
  }
  loan->tensor = made;
  *out = made;
  *owned = (Owned){end_loan, loan};
  return 0;
}

/* Bytes from the first element to the end of the last one, for strides that are not negative. */
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

/* By the address of the first element: a callee returns views of its arguments, or memory of its
 * own. */
int bridge_lies_within(const DLTensor* tensor, const DLTensor* whole) {
  uint64_t start = (uintptr_t)tensor->data + tensor->byte_offset;
  uint64_t first = (uintptr_t)whole->data + whole->byte_offset;
  return start >= first && start - first < span_bytes(whole);
}

/* ---- to the classic side ---- */

/* Extents of 1 have any stride; a tensor without elements is compact. */
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

/* Classic functions may ignore strides, so that only compact tensors are safe with them. */
static int check_classic(const DLTensor* tensor, DLDataType* dtype) {
  if (check_ndim(tensor) != 0) return -1;
  if (!is_compact(tensor)) {
    return bridge_fail("ValueError: the tensor is not contiguous; pass a contiguous copy of it");
  }
  return bridge_dtype_to_classic(tensor->dtype, dtype);
}

/* Functions may rely on an NDArray's alignment; other tensors go as views. The classic side loads
 * whole vectors from an NDArray. */
static int is_aligned(const DLTensor* tensor) {
  return ((uintptr_t)tensor->data + tensor->byte_offset) % ARRAY_ALIGN_BYTES == 0;
}

/* *out is NULL, and 0 is returned, where only a view will do. */
int bridge_tensor_to_classic(FfiObject* tensor, TVMArrayHandle* out) {
  const DLTensor* content = ffi_body(tensor);
  DLManagedTensor* managed = NULL;
  DLDataType dtype;
  *out = NULL;
  if (check_classic(content, &dtype) != 0) return -1;
  if (!is_aligned(content)) return 0;
  if (ffi.tensor_to_dlpack(tensor, &managed) != 0) return bridge_catch();
  managed->dl_tensor.strides = NULL; /* compact, even where an empty tensor's look otherwise */
  if (TVMArrayFromDLPack(managed, out) != 0) {
    if (managed->deleter != NULL) managed->deleter(managed);
    return -1;
  }
  (*out)->dtype = dtype; /* last: the runtime takes the classic 8-bit float for DLPack's bool */
  return 0;
}

/* By malloc(), for the caller to free; shape and data stay the tensor's. */
int bridge_view_to_classic(const DLTensor* tensor, DLTensor** out) {
  DLTensor* view;
  DLDataType dtype;
  *out = NULL;
  if (check_classic(tensor, &dtype) != 0) return -1;
  view = malloc(sizeof(*view));
  if (view == NULL) return bridge_fail_memory(sizeof(*view));
  *view = *tensor;
  view->dtype = dtype;
  view->strides = NULL; /* many classic functions insist */
  *out = view;
  return 0;
}

/* Owned by the caller; NULL where it fails. */
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
