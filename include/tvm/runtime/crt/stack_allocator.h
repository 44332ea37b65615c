/*!
 * \file tvm/runtime/crt/stack_allocator.h
 * \brief A stack allocator (last in, first out) in a block of memory, for firmware.
 *
 * C99 and C++ clean. Implemented in libtvm_backend.a.
 */
#ifndef TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Alignment of every block, in bytes; a power of two. */
#ifndef TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES
#define TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES 16
#endif

/*! \brief Word that guards the end of a block when the order of frees is checked. */
#define STACK_ALLOCATOR_TAG 0xabcd1234
/*! \brief Size of that word. */
#define STACK_ALLOCATOR_TAG_SIZE_BYTES 4

/*! \brief State of an allocator. */
typedef struct {
  uint8_t* next_alloc;   /*!< Next free byte; a multiple of the alignment. */
  uint8_t* workspace;    /*!< First usable byte. */
  size_t workspace_size; /*!< Usable size in bytes. */
} tvm_workspace_t;

/*!
 * \brief Initialise an allocator in a block of memory.
 * \param tvm_runtime_workspace [out] Its state.
 * \param g_aot_memory     [in] Borrowed; the first bytes are skipped up to the alignment.
 * \param workspace_size   [in] Bytes; may be 0.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory if alignment uses up a non-empty block.
 */
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* tvm_runtime_workspace,
                                        uint8_t* g_aot_memory, size_t workspace_size);

/*!
 * \brief Allocate a block.
 * \param nbytes      [in] Rounded up to the alignment; negative is refused.
 * \param current_alloc [out] Released by StackMemoryManager_Free(); NULL on failure.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 */
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* tvm_runtime_workspace, int32_t nbytes,
                                            void** current_alloc);

/*!
 * \brief Release a block, and with it every block allocated later.
 * \return kTvmErrorNoError, or kTvmErrorPlatformStackAllocBadFree for a pointer outside of the
 *         allocated memory (with TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK, also for one that is
 *         not the last).
 */
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* tvm_runtime_workspace, void* ptr);

/*! \brief StackMemoryManager_Allocate() with the LIFO check selected at run time. */
tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t* tvm_runtime_workspace,
                                                 int32_t nbytes, void** current_alloc,
                                                 uint8_t do_lifo_check);

/*! \brief StackMemoryManager_Free() with the LIFO check selected at run time. */
tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t* tvm_runtime_workspace, void* ptr,
                                             uint8_t do_lifo_check);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_ */
