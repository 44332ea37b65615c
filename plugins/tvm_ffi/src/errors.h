/*! \file errors.h
 * \brief Conversion of errors between both sides. */
#ifndef TVMRT_PLUGINS_TVM_FFI_ERRORS_H_
#define TVMRT_PLUGINS_TVM_FFI_ERRORS_H_

#include <tvm/runtime/c_runtime_api.h>

/*! \brief Add the index of the failing argument to the error text; returns -1. */
int bridge_name_argument(int index);
/*! \brief Raise the classic error text as a tvm-ffi error, with its kind; returns -1. */
int bridge_raise(void);
/*! \brief Take over the raised tvm-ffi error as the classic error text; returns -1. */
int bridge_catch(void);
/*! \brief Backtrace of the error last taken over by this thread; empty if `text` is not its text.
 * "  File ..., line ..., in ...\n", the innermost call first. Valid until the next error. */
TVMByteArray bridge_lines_of(const char* text);

#endif /* TVMRT_PLUGINS_TVM_FFI_ERRORS_H_ */
