/*!
 * \file tvm/runtime/crt/func_registry.h
 * \brief The table of functions that firmware code generators emit: names and pointers.
 *
 * `names` starts with the number of functions, followed by that many NUL-terminated names. The number
 * takes 1 byte in code of TVM 0.8 and 2 bytes, in the target's byte order, in code of later releases;
 * the functions below read both. With two functions "a" and "bc", in the 2-byte form, little-endian:
 *
 *     "\002\000a\000bc\000"
 *
 * C99 and C++ clean. Implemented in libtvm_backend.a; allocates nothing.
 */
#ifndef TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_FUNC_REGISTRY_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Position of a function in its registry. */
typedef uint16_t tvm_function_index_t;
/*! \brief Position of a module in the firmware runtime. */
typedef uint16_t tvm_module_index_t;

/*! \brief A constant table of functions. */
typedef struct TVMFuncRegistry {
  const char* names;           /*!< Encoded as described above; static. */
  const TVMCPackedFunc* funcs; /*!< funcs[i] belongs to name i; static. */
} TVMFuncRegistry;

/*! \brief A table that grows inside a buffer of fixed size; always in the 2-byte form. */
typedef struct TVMMutableFuncRegistry {
  TVMFuncRegistry registry;
  size_t max_functions; /*!< Room in the array of pointers at the end of the buffer. */
} TVMMutableFuncRegistry;

/*!
 * \brief Number of functions in a table, whichever form it has.
 * \return 0 for a NULL table.
 */
TVM_DLL uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg);

/*! \brief First name of a table; the next one starts after its NUL. */
TVM_DLL const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg);

/*!
 * \brief Write the number of functions of a table in the 2-byte form.
 * \param reg [in] Its names lie in memory that may be written, whatever the type says.
 * \return 0.
 */
TVM_DLL int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs);

/*!
 * \brief Position of a name.
 * \param function_index [out] Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorFunctionNameNotFound.
 */
TVM_DLL tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                               tvm_function_index_t* function_index);

/*!
 * \brief Function at a position.
 * \param out_func [out] Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorFunctionIndexInvalid.
 */
TVM_DLL tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg,
                                                   tvm_function_index_t index,
                                                   TVMCPackedFunc* out_func);

/*! \brief Mean length of a name, without NUL, that the size of a mutable table is reckoned with. */
#define TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES 10
/*! \brief Bytes that one function takes in a mutable table. */
#define TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES \
  (TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES + 1 + sizeof(void*))
/*! \brief The same two numbers by the names that programs for older runtimes use. */
static const size_t kTvmAverageFunctionNameStrlenBytes = TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES;
static const size_t kTvmAverageFuncEntrySizeBytes = TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;

/*!
 * \brief Lay an empty table out in a buffer.
 * \param buffer            [in] Borrowed while the table is used; aligned for a pointer.
 * \param buffer_size_bytes [in] Room for buffer_size_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES
 *                          functions.
 * \return kTvmErrorNoError, or kTvmErrorBufferTooSmall.
 */
TVM_DLL tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer,
                                                      size_t buffer_size_bytes);

/*!
 * \brief Add or replace a function.
 * \param name     [in] Copied into the table.
 * \param override [in] Non-zero: a function of that name is replaced.
 * \return kTvmErrorNoError, kTvmErrorFunctionAlreadyDefined or kTvmErrorFunctionRegistryFull.
 */
TVM_DLL tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name,
                                                   TVMCPackedFunc func, int override);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_FUNC_REGISTRY_H_ */
