/*!
 * \file tvm/runtime/crt/packed_func.h
 * \brief A packed function with its arguments in one struct, as firmware programs use it.
 *
 * C99 and C++ clean. Implemented in libtvm_runtime, and for images in libtvm_firmware.a.
 */
#ifndef TVM_RUNTIME_CRT_PACKED_FUNC_H_
#define TVM_RUNTIME_CRT_PACKED_FUNC_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/config_defaults.h>
#include <tvm/runtime/crt/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Arguments, or a result. */
typedef struct TVMArgs {
  TVMValue values[TVM_CRT_MAX_ARGS];
  int tcodes[TVM_CRT_MAX_ARGS]; /*!< TVMArgTypeCode of each value. */
  uint32_t values_count;
} TVMArgs;

/*! \brief A function, its arguments and its result. */
typedef struct TVMPackedFunc {
  char name[200];
  TVMFunctionHandle fexec;
  TVMArgs args;
  TVMArgs ret_value;
  int (*Call)(struct TVMPackedFunc* pf); /*!< TVMPackedFunc_Call. */
  void (*SetArgs)(struct TVMPackedFunc* pf, const struct TVMArgs* args);
} TVMPackedFunc;

/*! \brief Data type from its name; {0, 0, 0} if the name is invalid. */
TVM_DLL DLDataType String2DLDataType(const char* s);

/*!
 * \brief Collect arguments.
 * \param values_count [in] At most TVM_CRT_MAX_ARGS; further ones are dropped.
 */
TVM_DLL TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count);

/*!
 * \brief Initialise from a global function.
 * \param pf [out] `fexec` is owned: released by TVMFuncFree(). All zero on failure.
 * \return 0, or -1.
 */
TVM_DLL int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args);

/*! \brief Initialise from a function of a module; see TVMPackedFunc_InitGlobalFunc(). */
TVM_DLL int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module,
                                         const char* name, const TVMArgs* args);

/*!
 * \brief Call; the result goes to ret_value, whose values_count stays 0 if the call fails.
 * \return The result of TVMFuncCall(): 0, or non-zero with a text in TVMGetLastError().
 */
TVM_DLL int TVMPackedFunc_Call(TVMPackedFunc* pf);

/*! \brief Replace the arguments. */
TVM_DLL void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args);

/*! \brief Value `index` as a module; NULL if it has another type. */
static inline TVMModuleHandle TVMArgs_AsModuleHandle(const TVMArgs* args, size_t index) {
  if (index >= args->values_count || args->tcodes[index] != kTVMModuleHandle) return NULL;
  return args->values[index].v_handle;
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PACKED_FUNC_H_ */
