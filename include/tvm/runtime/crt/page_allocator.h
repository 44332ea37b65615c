/*!
 * \file tvm/runtime/crt/page_allocator.h
 * \brief A page allocator in a block of memory, for firmware; blocks may be freed in any order.
 *
 * C99 and C++ clean. Implemented in libtvm_backend.a.
 */
#ifndef TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Number of allocated blocks, over all managers. */
extern int vleak_size;

/*! \brief Interface of a memory manager. */
typedef struct MemoryManagerInterface MemoryManagerInterface;
struct MemoryManagerInterface {
  /*! \param out_ptr [out] Owned; released by Free. Not written on failure. */
  tvm_crt_error_t (*Allocate)(MemoryManagerInterface* interface, size_t num_bytes, DLDevice dev,
                              void** out_ptr);
  tvm_crt_error_t (*Free)(MemoryManagerInterface* interface, void* ptr, DLDevice dev);
  int vleak_size; /*!< Number of allocated blocks. */
};

/*!
 * \brief Create a manager in a block of memory.
 * \param manager               [out] Lies inside of the block.
 * \param memory_pool           [in] Borrowed while the manager is used.
 * \param memory_pool_size_bytes [in] Its size.
 * \param page_size_bytes_log2  [in] Binary logarithm of the page size: blocks are whole pages.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory if not a single page fits.
 */
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_ */
