/*! \file calls.h
 * \brief Calls across the bridge: conversion of arguments, call, conversion of the result. */
#ifndef TVMRT_PLUGINS_TVM_FFI_CALLS_H_
#define TVMRT_PLUGINS_TVM_FFI_CALLS_H_

#include "abi.h"

/*! \brief TVMRuntimeCPackedFunc that calls a tvm-ffi function, by its wrapper (wrappers.h). */
int bridge_call_from_classic(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                             void* wrapper);
/*! \brief FfiSafeCall that calls a classic function, by its wrapper. */
int bridge_call_from_ffi(void* wrapper, const FfiAny* args, int32_t num_args, FfiAny* result);

#endif /* TVMRT_PLUGINS_TVM_FFI_CALLS_H_ */
