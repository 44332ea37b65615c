/*! \file modules.h
 * \brief Conversion of modules, in both directions. */
#ifndef TVMRT_PLUGINS_TVM_FFI_MODULES_H_
#define TVMRT_PLUGINS_TVM_FFI_MODULES_H_

#include "abi.h"

/*! \brief Make a classic Module that calls a tvm-ffi Module; *out is owned. */
int bridge_module_to_classic(FfiObject* module, TVMModuleHandle* out);
/*! \brief Make a Function that returns a classic module's functions by name; *out is owned. */
int bridge_module_to_ffi(TVMModuleHandle module, FfiObject** out);

#endif /* TVMRT_PLUGINS_TVM_FFI_MODULES_H_ */
