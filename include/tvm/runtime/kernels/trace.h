/*!
 * \file trace.h
 * \brief Records for the ring buffer of tvm/runtime/trace.h: hash, minimum and maximum of a tensor.
 *
 * The hash covers the bits of every element, so it does not depend on the byte order. It starts
 * with TVMRT_TRACE_HASH. Each element's bits, as one word or as two with the lower first, are mixed
 * in by h = (h ^ word) * 0x9e3779b1, h ^= h >> 15. Elements are processed in memory order.
 */
#ifndef TVM_RUNTIME_KERNELS_TRACE_H_
#define TVM_RUNTIME_KERNELS_TRACE_H_

#include <stddef.h>
#include <string.h>
#include <tvm/runtime/trace.h>

#include "scalar/half.h"

/*! \brief Initial value of the hash. */
#define TVMRT_TRACE_HASH 0x811c9dc5u
/*! \brief Maximum axes of a traced tensor, after merging contiguous ones. */
#define TVMRT_TRACE_AXES 8

/*! \brief Element type classes of a trace. */
typedef enum {
  TVMRT_TRACE_SIGNED,
  TVMRT_TRACE_UNSIGNED,
  TVMRT_TRACE_FLOAT,
  TVMRT_TRACE_BFLOAT
} tvmrt_trace_type;

/*! \brief Description of a recorded tensor, without its address. */
typedef struct tvmrt_traced_tensor {
  uint16_t op, result;
  uint8_t type;        /*!< tvmrt_trace_type */
  uint8_t bytes;       /*!< Size of one element: 1, 2, 4 or 8. */
  uint8_t num_axes;    /*!< At most TVMRT_TRACE_AXES. */
  const int32_t* axes; /*!< Extent and stride in elements of each axis, innermost first. */
} tvmrt_traced_tensor;

/* Minimum and maximum are kept as unsigned keys that order like the elements. */

static inline uint32_t tvmrt_trace_key_of_float(float value) {
  const uint32_t bits = tvmrt_bits_f32(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static inline uint32_t tvmrt_trace_key_of_signed(int64_t value) {
  const int64_t clamped = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
  return (uint32_t)clamped ^ 0x80000000u;
}

static inline uint32_t tvmrt_trace_bits_of_key(uint32_t key, uint8_t type) {
  if (type == TVMRT_TRACE_UNSIGNED) return key;
  if (type == TVMRT_TRACE_SIGNED) return key ^ 0x80000000u;
  return (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key;
}

/* The bits of one element, sign-extended for signed types. */
static inline uint64_t tvmrt_trace_load(const char* at, uint8_t bytes, uint8_t type) {
  if (bytes == 1) {
    const uint8_t value = (uint8_t)*at;
    return type == TVMRT_TRACE_SIGNED ? (uint64_t)(int64_t)(int8_t)value : value;
  }
  if (bytes == 2) {
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return type == TVMRT_TRACE_SIGNED ? (uint64_t)(int64_t)(int16_t)value : value;
  }
  if (bytes == 4) {
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return type == TVMRT_TRACE_SIGNED ? (uint64_t)(int64_t)(int32_t)value : value;
  }
  uint64_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

/* Any floating element as a float32. */
static inline float tvmrt_trace_float(uint64_t bits, uint8_t bytes, uint8_t type) {
  if (bytes == 2) {
    const uint16_t half = (uint16_t)bits;
    return type == TVMRT_TRACE_BFLOAT ? tvmrt_bfloat16_to_f32(half) : tvmrt_float16_to_f32(half);
  }
  if (bytes == 4) return tvmrt_from_bits_f32((uint32_t)bits);
  double value;
  memcpy(&value, &bits, sizeof(value));
  return (float)value;
}

static inline uint32_t tvmrt_trace_mix(uint32_t hash, uint32_t word) {
  const uint32_t mixed = (hash ^ word) * 0x9e3779b1u;
  return mixed ^ (mixed >> 15);
}

/* Add one element to a record whose min and max are keys. */
static inline void tvmrt_trace_element(tvmrt_trace_record* record,
                                       const tvmrt_traced_tensor* tensor, const char* at) {
  const uint64_t bits = tvmrt_trace_load(at, tensor->bytes, tensor->type);
  uint32_t key;
  record->hash = tvmrt_trace_mix(record->hash, (uint32_t)bits);
  if (tensor->bytes == 8) record->hash = tvmrt_trace_mix(record->hash, (uint32_t)(bits >> 32));
  if (tensor->type == TVMRT_TRACE_UNSIGNED) {
    key = bits > UINT32_MAX ? UINT32_MAX : (uint32_t)bits;
  } else if (tensor->type == TVMRT_TRACE_SIGNED) {
    key = tvmrt_trace_key_of_signed((int64_t)bits);
  } else {
    const float value = tvmrt_trace_float(bits, tensor->bytes, tensor->type);
    if (value != value) return;
    key = tvmrt_trace_key_of_float(value);
  }
  if (key < record->min) record->min = key;
  if (key > record->max) record->max = key;
}

/* Move to the next element in memory order; 0 at the end. */
static inline int tvmrt_trace_advance(const tvmrt_traced_tensor* tensor, int32_t* index,
                                      ptrdiff_t* position) {
  for (int axis = 0; axis < tensor->num_axes; ++axis) {
    const int32_t extent = tensor->axes[2 * axis], stride = tensor->axes[2 * axis + 1];
    *position += stride;
    if (++index[axis] < extent) return 1;
    *position -= (ptrdiff_t)extent * stride;
    index[axis] = 0;
  }
  return 0;
}

/*! \brief Hash, minimum and maximum of the tensor at `data`. */
static inline void tvmrt_trace_digest(tvmrt_trace_record* record, const tvmrt_traced_tensor* tensor,
                                      const void* data) {
  int32_t index[TVMRT_TRACE_AXES] = {0};
  ptrdiff_t position = 0;
  record->hash = TVMRT_TRACE_HASH;
  record->min = UINT32_MAX;
  record->max = 0;
  for (int axis = 0; axis < tensor->num_axes; ++axis) {
    if (tensor->axes[2 * axis] == 0) {
      record->min = 0;
      return;
    }
  }
  do {
    tvmrt_trace_element(record, tensor, (const char*)data + position * tensor->bytes);
  } while (tvmrt_trace_advance(tensor, index, &position));
  if (record->min > record->max) { /* only NaN */
    record->min = record->max = 0x7fc00000u;
    return;
  }
  record->min = tvmrt_trace_bits_of_key(record->min, tensor->type);
  record->max = tvmrt_trace_bits_of_key(record->max, tensor->type);
}

/*!
 * \brief Prepare a ring buffer: keep its records if they are of the same network, else clear it.
 *
 * \param header [in,out] The previous contents of the memory.
 * \param fresh  [in] The network's own header, without records.
 */
static inline void tvmrt_trace_prepare(tvmrt_trace_header* header,
                                       const tvmrt_trace_header* fresh) {
  const size_t same = offsetof(tvmrt_trace_header, count);
  const int is_kept = memcmp(header, fresh, same) == 0 && header->count <= fresh->capacity &&
                      header->next < fresh->capacity;
  if (!is_kept) *header = *fresh;
}

/*! \brief Return the next record, counted as valid; the caller fills its members. */
static inline tvmrt_trace_record* tvmrt_trace_take(tvmrt_trace_header* header,
                                                   tvmrt_trace_record* records) {
  tvmrt_trace_record* record = &records[header->next];
  header->next = header->next + 1 == header->capacity ? 0 : header->next + 1;
  if (header->count < header->capacity) ++header->count;
  return record;
}

#endif /* TVM_RUNTIME_KERNELS_TRACE_H_ */
