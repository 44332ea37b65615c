/*!
 * \file values.h
 * \brief Conversion of values and of the arguments of a call, in both directions.
 */
#ifndef TVMRT_PLUGINS_TVM_FFI_VALUES_H_
#define TVMRT_PLUGINS_TVM_FFI_VALUES_H_

#include "abi.h"

enum {
  INLINE_ARGS = 8,          /* more arguments of a call need an allocation */
  MAX_CONTAINER_DEPTH = 200 /* of nested containers, since each uses stack */
};

/*! \brief Containers that the calling thread converts now, in both directions: one that contains
 * itself would recurse endlessly. */
extern _Thread_local int bridge_container_depth;

/*! \brief Arguments for a classic function. */
typedef struct {
  TVMValue* values;
  int* codes;
  Owned* owned;
  int count; /* after a failure: the index of the argument that was refused */
  TVMValue inline_values[INLINE_ARGS];
  int inline_codes[INLINE_ARGS];
  Owned inline_owned[INLINE_ARGS];
} ClassicArgs;

/*! \brief Arguments for a tvm-ffi function. */
typedef struct {
  FfiAny* values;
  Owned* owned;
  int count; /* as above */
  FfiAny inline_values[INLINE_ARGS];
  Owned inline_owned[INLINE_ARGS];
} FfiArgs;

/* ---- value_to_classic.c ---- */

/*!
 * \brief Convert a tvm-ffi value to a classic one for the duration of a call.
 *
 * \param any   [in] Borrowed: must outlive the result.
 * \param value, code [out] The value, borrowed from `any` and `owned`. A tensor is an NDArray, or a
 *              view if its memory is less aligned than an NDArray's.
 * \param owned [out] To be released after the last use of `value`; also set on failure.
 */
int bridge_value_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned);
/*! \brief Replace a view by an NDArray with a copy of its elements, owned by *owned. */
int bridge_copy_view(TVMValue* value, int* code, Owned* owned);
/*! \brief Convert arguments, borrowed from `values`. On failure nothing is left to free. */
int bridge_args_to_classic(const FfiAny* values, int count, ClassicArgs* out);
/*! \brief Release converted arguments. */
void bridge_free_classic_args(ClassicArgs* args);

/* ---- value_to_ffi.c ---- */

/*! \brief Convert a classic value to a tvm-ffi one for a call. */
int bridge_value_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned);
/*! \brief Convert an owned classic value to an owned tvm-ffi one; consumed, also on failure. */
int bridge_return_to_ffi(TVMValue value, int code, FfiAny* result);
/*! \brief Convert arguments, borrowed from `values`. On failure nothing is left to free. */
int bridge_args_to_ffi(const TVMValue* values, const int* codes, int count, FfiArgs* out);
/*! \brief Release converted arguments. */
void bridge_free_ffi_args(FfiArgs* args);

#endif /* TVMRT_PLUGINS_TVM_FFI_VALUES_H_ */
