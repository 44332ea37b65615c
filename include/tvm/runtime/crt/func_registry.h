/*!
 * \file tvm/runtime/crt/func_registry.h
 * \brief Function tables that firmware code generators emit: names and pointers.
 *
 * `names` starts with the number of functions, followed by that many NUL-terminated names. The
 * number takes 1 byte in code of TVM 0.8 and 2 bytes, in the target's byte order, in code of later
 * releases; the functions below read both. Two functions "a" and "bc" in the 2-byte form,
 * little-endian:
 *
 *     "\002\000a\000bc\000"
 *
 * C99 and C++ clean. Implemented in libtvm_backend.a; allocates no memory.
 */
#ifndef TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_FUNC_REGISTRY_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Index of a function in its registry. */
typedef uint16_t tvm_function_index_t;
/*! \brief Index of a module in the firmware runtime. */
typedef uint16_t tvm_module_index_t;

/*! \brief A constant table of functions. */
typedef struct TVMFuncRegistry {
  const char* names;           /*!< In the encoding of this header; static. */
  const TVMCPackedFunc* funcs; /*!< funcs[i] belongs to name i; static. */
} TVMFuncRegistry;

/*! \brief A table that grows inside a buffer of fixed size; always in the 2-byte form. */
typedef struct TVMMutableFuncRegistry {
  TVMFuncRegistry registry;
  size_t max_functions; /*!< Capacity of the array of pointers at the end of the buffer. */
} TVMMutableFuncRegistry;

/*!
 * \brief Number of functions in a table of either form.
 * \return 0 for a NULL table.
 */
TVM_DLL uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg);

/*! \brief First name of a table; each next name starts after the NUL. */
TVM_DLL const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg);

/*!
 * \brief Write the number of functions of a table in the 2-byte form.
 * \param reg [in] Its names must lie in writable memory, despite the const type.
 * \return 0.
 */
TVM_DLL int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs);

/*!
 * \brief Find the index of a name.
 * \param function_index [out] Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorFunctionNameNotFound.
 */
TVM_DLL tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                               tvm_function_index_t* function_index);

/*!
 * \brief Function at an index.
 * \param out_func [out] Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorFunctionIndexInvalid.
 */
TVM_DLL tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg,
                                                   tvm_function_index_t index,
                                                   TVMCPackedFunc* out_func);

/*! \brief Assumed mean length of a name, without NUL, for the size of a mutable table. */
#define TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES 10
/*! \brief Bytes per function in a mutable table. */
#define TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES \
  (TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES + 1 + sizeof(void*))
/*! \brief Aliases for programs for older runtimes. */
static const size_t kTvmAverageFunctionNameStrlenBytes = TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES;
static const size_t kTvmAverageFuncEntrySizeBytes = TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;

/*!
 * \brief Create an empty table in a buffer.
 * \param buffer            [in] Borrowed while the table is used; aligned for a pointer.
 * \param buffer_size_bytes [in] TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES per function.
 * \return kTvmErrorNoError, or kTvmErrorBufferTooSmall.
 */
TVM_DLL tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer,
                                                      size_t buffer_size_bytes);

/*!
 * \brief Add or replace a function.
 * \param name     [in] Copied into the table.
 * \param override [in] Non-zero: an existing function with that name is replaced.
 * \return kTvmErrorNoError, kTvmErrorFunctionAlreadyDefined or kTvmErrorFunctionRegistryFull.
 */
TVM_DLL tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name,
                                                   TVMCPackedFunc func, int override);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_FUNC_REGISTRY_H_ */
