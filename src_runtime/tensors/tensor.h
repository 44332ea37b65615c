/* Reference-counted tensors, and serialised tensors. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_TENSOR_H_
#define TVMRT_SRC_RUNTIME_TENSORS_TENSOR_H_

#include "../base/stream.h"
#include "../core/dtype.h"
#include "../core/object.h"

/* Alignment that foreign memory must have to be used without a copy. */
#define TVMRT_FOREIGN_ALIGN_BYTES 64
/* Tensors with more dimensions are refused; only damaged files have them. */
#define TVMRT_MAX_NDIM 64

typedef struct tvmrt_tensor {
  tvmrt_object base;
  DLTensor dl; /* TVMArrayHandle points here; shape is the array below, strides NULL */
  void (*release)(struct tvmrt_tensor* self); /* releases the memory; NULL if borrowed */
  void* owner; /* for release: another tensor, a DLManagedTensor, the bytes of a workspace */
  int64_t shape[];
} tvmrt_tensor;

_Static_assert(offsetof(tvmrt_tensor, dl) == offsetof(tvmrt_ndarray, dl), "a tensor's head");

static inline tvmrt_tensor* tvmrt__tensor_of(void* array_handle) {
  return (tvmrt_tensor*)(void*)tvmrt__object_of_ndarray(array_handle);
}

/* All constructors return an owned tensor, or NULL with the error text set. */
tvmrt_tensor* tvmrt__tensor_alloc(const int64_t* shape, int ndim, DLDataType dtype, DLDevice dev);

/* For tensors that live as long as an executor: the system gets the memory of large ones back. */
tvmrt_tensor* tvmrt__tensor_alloc_workspace(const int64_t* shape, int ndim, DLDataType dtype,
                                            DLDevice dev);

/* A view of base's memory with another shape and type, at a byte offset; retains base. */
tvmrt_tensor* tvmrt__tensor_view(tvmrt_tensor* base, const int64_t* shape, int ndim,
                                 DLDataType dtype, uint64_t byte_offset);
/* A copy of a tensor on a device; NULL with the error text set. */
tvmrt_tensor* tvmrt__tensor_copied(const DLTensor* from, DLDevice dev);
/* A view of foreign memory, which the caller keeps alive. */
TVMRT_SDK tvmrt_tensor* tvmrt__tensor_borrow(const DLTensor* source);

static inline void tvmrt__tensor_release(tvmrt_tensor* t) {
  if (t != NULL) tvmrt__release(&t->base);
}

/* Size of a compact tensor in bytes; -1 for a negative extent, too many dimensions or overflow. */
TVMRT_SDK int tvmrt__shape_bytes(const int64_t* shape, int ndim, DLDataType dtype,
                                 uint64_t* out_bytes);
TVMRT_SDK int tvmrt__tensor_bytes(const DLTensor* t, uint64_t* out_bytes);
/* strides NULL, or those of a compact tensor (any value where the extent is 1). */
TVMRT_SDK bool tvmrt__is_compact(const DLTensor* t);
/* In integers, because adding an offset to NULL is undefined in C, even 0. */
static inline char* tvmrt__tensor_data(const DLTensor* t) {
  return (char*)((uintptr_t)t->data + (uintptr_t)t->byte_offset);
}

bool tvmrt__same_shape(const DLTensor* a, const DLTensor* b);
/* Equal, treating every kind of 1-byte bool as one type. */
TVMRT_SDK bool tvmrt__same_dtype(DLDataType a, DLDataType b);

/* Copy the elements of a host or device tensor, strided or not, to a compact one of equal size. */
int tvmrt__tensor_copy(const DLTensor* from, const DLTensor* to, TVMStreamHandle stream);

/* Text of shape and type for messages: "float32 (1, 3, 8)". Returns `text`. */
#define TVMRT_TENSOR_TEXT_BYTES 160
TVMRT_SDK const char* tvmrt__tensor_text(const DLTensor* t, char text[TVMRT_TENSOR_TEXT_BYTES]);

/* One serialised tensor: magic, reserved, device, ndim, dtype, shape, byte size, data. */
int tvmrt__tensor_write(tvmrt_buf* out, const DLTensor* t);
tvmrt_tensor* tvmrt__tensor_read(tvmrt_reader* in);

#endif
