/*!
 * \file tvm/runtime/crt/module.h
 * \brief The module of a firmware image: defined by generated code, called by the runtime.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_MODULE_H_
#define TVM_RUNTIME_CRT_MODULE_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/func_registry.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief A module that is a table of functions. */
typedef struct TVMModule {
  const TVMFuncRegistry* registry; /*!< Static. */
} TVMModule;

/*!
 * \brief Create a module from a table.
 * \param mod        [in] Static: it must outlive every handle.
 * \param out_handle [out] Owned; released by TVMModFree().
 * \return 0, or -1. In libtvm_runtime; in libtvm_firmware.a the handle is the address of `mod`.
 */
TVM_DLL int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle);

/*!
 * \brief The module of this image. Defined by generated code, not by any library here.
 * \return Static.
 */
const TVMModule* TVMSystemLibEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MODULE_H_ */
