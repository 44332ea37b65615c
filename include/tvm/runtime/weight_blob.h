/*!
 * \file tvm/runtime/weight_blob.h
 * \brief Weights of a firmware network as a blob that can be replaced without its program.
 *
 * The blob is a header of 32 bytes and the contents. All numbers are little-endian uint32:
 *
 *     offset  contents
 *          0  0x574d5654, the characters "TVMW"
 *          4  version of this format, 1
 *          8  layout of the program, lower half: equal numbers for programs that differ in
 *         12  weights only; upper half
 *         16  bytes of the contents
 *         20  CRC-32 of the contents (IEEE 802.3, as zlib and gzip compute it)
 *         24  0, reserved
 *         28  0, reserved
 *         32  contents: the network's constants, each at a multiple of 16 bytes
 *
 * The compiler writes the file (`--params file`, `tvmrt weights`). Every bit of it is checked.
 * Freestanding, C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_WEIGHT_BLOB_H_
#define TVM_RUNTIME_WEIGHT_BLOB_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TVMRT_WEIGHT_BLOB_MAGIC 0x574d5654u
#define TVMRT_WEIGHT_BLOB_VERSION 1u
#define TVMRT_WEIGHT_BLOB_HEADER_SIZE 32u
/*! \brief Alignment of a blob's address, in bytes. */
#define TVMRT_WEIGHT_BLOB_ALIGNMENT 16u

/*! \brief What a program expects of a blob. */
typedef struct {
  uint32_t layout[2];     /*!< lower and upper half */
  uint32_t content_bytes; /*!< without the header */
} tvmrt_weight_layout;

/*!
 * \brief Continue a CRC-32 over `size` more bytes; begin with `crc` 0.
 *
 * It takes about ten instructions for each byte and a table of 64 bytes.
 */
static inline uint32_t tvmrt_crc32(uint32_t crc, const void* data, size_t size) {
  static const uint32_t table[16] = {0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu,
                                     0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
                                     0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
                                     0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  const uint8_t* bytes = (const uint8_t*)data;
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    crc = (crc >> 4) ^ table[crc & 15u];
    crc = (crc >> 4) ^ table[crc & 15u];
  }
  return ~crc;
}

/*! \brief Return the number at `offset` bytes in a blob. */
static inline uint32_t tvmrt_weight_blob_word(const void* blob, size_t offset) {
  const uint8_t* at = (const uint8_t*)blob + offset;
  return (uint32_t)at[0] | ((uint32_t)at[1] << 8) | ((uint32_t)at[2] << 16) |
         ((uint32_t)at[3] << 24);
}

/*!
 * \brief Check a blob of at most `size` bytes for a program.
 * \param blob Address of the header; only read.
 * \param size Bytes that may be read there: those received, or the size of the flash region.
 * \param expected What the program expects.
 * \return 0; kTvmErrorNetworkWeightsMisplaced for NULL or an address that is not a multiple of
 * TVMRT_WEIGHT_BLOB_ALIGNMENT; kTvmErrorNetworkWeightsUnknown without the magic number, or for
 * another version; kTvmErrorNetworkWeightsMismatch for weights of another program;
 * kTvmErrorNetworkWeightsDamaged if bytes are missing or the checksum differs.
 */
static inline int32_t tvmrt_weight_blob_check(const void* blob, size_t size,
                                              const tvmrt_weight_layout* expected) {
  if (blob == NULL || ((uintptr_t)blob & (TVMRT_WEIGHT_BLOB_ALIGNMENT - 1u)) != 0) {
    return kTvmErrorNetworkWeightsMisplaced;
  }
  if (size < TVMRT_WEIGHT_BLOB_HEADER_SIZE) return kTvmErrorNetworkWeightsDamaged;
  if (tvmrt_weight_blob_word(blob, 0) != TVMRT_WEIGHT_BLOB_MAGIC ||
      tvmrt_weight_blob_word(blob, 4) != TVMRT_WEIGHT_BLOB_VERSION ||
      tvmrt_weight_blob_word(blob, 24) != 0 || tvmrt_weight_blob_word(blob, 28) != 0) {
    return kTvmErrorNetworkWeightsUnknown;
  }
  if (tvmrt_weight_blob_word(blob, 8) != expected->layout[0] ||
      tvmrt_weight_blob_word(blob, 12) != expected->layout[1] ||
      tvmrt_weight_blob_word(blob, 16) != expected->content_bytes) {
    return kTvmErrorNetworkWeightsMismatch;
  }
  if (size - TVMRT_WEIGHT_BLOB_HEADER_SIZE < expected->content_bytes) {
    return kTvmErrorNetworkWeightsDamaged;
  }
  const uint8_t* contents = (const uint8_t*)blob + TVMRT_WEIGHT_BLOB_HEADER_SIZE;
  if (tvmrt_crc32(0, contents, expected->content_bytes) != tvmrt_weight_blob_word(blob, 20)) {
    return kTvmErrorNetworkWeightsDamaged;
  }
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_WEIGHT_BLOB_H_ */
