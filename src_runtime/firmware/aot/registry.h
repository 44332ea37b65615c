/* Firmware runtime: handles. A function's handle is the address of its entry in a table, a module's
 * that of its TVMModule; neither is counted or freed. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_REGISTRY_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_REGISTRY_H_

#include <tvm/runtime/crt/module.h>

/* The handle of a table's function; NULL if the table has no such name. */
TVMFunctionHandle tvmrt__registry_find(const TVMFuncRegistry* registry, const char* name);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_REGISTRY_H_ */
