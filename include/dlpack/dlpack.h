/*!
 * \file dlpack/dlpack.h
 * \brief The in-memory tensor exchange structs (DLPack), under the name that old code includes.
 *
 * Layout and values follow the DLPack specification, versions 0.5 to 1.0; a test pins every offset.
 * The include guard is the one of the reference header: where a program brings that header too, the
 * first of the two wins and the other is skipped.
 */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Version of the exchange structs described here. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0
/*! \brief Numbering used before 1.0; kept for code that tests it. */
#define DLPACK_VERSION 80
#define DLPACK_ABI_VERSION 1

#ifndef DLPACK_DLL
#define DLPACK_DLL
#endif

/*! \brief Set in DLManagedTensorVersioned.flags when the consumer must not write. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
/*! \brief Set in DLManagedTensorVersioned.flags when the producer made a copy for this exchange. */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

/*! \brief Version of the struct that a DLManagedTensorVersioned holds. */
typedef struct {
  uint32_t major; /*!< Layout changes with it: a consumer must refuse a major it does not know. */
  uint32_t minor; /*!< Additions only. */
} DLPackVersion;

/*! \brief Where memory lives. Values 11 and 13 to 16 had other meanings before 2022. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3, /*!< Pinned host memory. */
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12, /*!< Reserved for prototypes of devices. */
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16
} DLDeviceType;

/*! \brief One device: a type and an index among the devices of that type. */
typedef struct {
  DLDeviceType device_type;
  int32_t device_id; /*!< 0 where there is one. */
} DLDevice;

/*! \brief What kind of number an element is. */
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U
} DLDataTypeCode;

/*! \brief Type of an element: `lanes` numbers of `bits` bits each. float32 is {kDLFloat, 32, 1}. */
typedef struct {
  uint8_t code;   /*!< A DLDataTypeCode, or a code of the runtime's own. */
  uint8_t bits;   /*!< Bits of one lane. */
  uint16_t lanes; /*!< 1 for a scalar type. */
} DLDataType;

/*! \brief A view of a tensor. Owns nothing; its memory lives as long as its creator promises. */
typedef struct {
  void* data;           /*!< Start of the allocation; element 0 is at data + byte_offset. */
  DLDevice device;      /*!< Where data points to. */
  int32_t ndim;         /*!< Number of dimensions, 0 for a scalar. */
  DLDataType dtype;     /*!< Type of an element. */
  int64_t* shape;       /*!< ndim extents, in elements. */
  int64_t* strides;     /*!< ndim strides, in elements; NULL means compact row-major. */
  uint64_t byte_offset; /*!< Bytes from data to element 0. */
} DLTensor;

/*! \brief A tensor that is handed over together with its memory. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx; /*!< For the producer alone. */
  /*! Called exactly once by the last consumer, from any thread; NULL if there is nothing to free. */
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

/*! \brief The same with a version and flags, as DLPack 1.0 exchanges it. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags; /*!< DLPACK_FLAG_BITMASK_... */
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#endif /* DLPACK_DLPACK_H_ */
