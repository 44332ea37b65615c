/*! \file raise.h
 *  \brief Errors of either side on the other. */
#ifndef TVMRT_PLUGINS_TVM_FFI_RAISE_H_
#define TVMRT_PLUGINS_TVM_FFI_RAISE_H_

#include <tvm/runtime/c_runtime_api.h>

/*! \brief Say in the error text which argument it is about; returns -1. */
int bridge_name_argument(int index);
/*! \brief Raise the error text on the other side, with its kind; returns -1. */
int bridge_raise(void);
/*! \brief Take the error raised on the other side over as the error text; returns -1. */
int bridge_catch(void);
/*! \brief Where the error that this thread took over last came from, if `text` is what was made of it:
 *  "  File ..., line ..., in ...\n", the innermost call first, else nothing. Good until the next error. */
TVMByteArray bridge_lines_of(const char* text);

#endif /* TVMRT_PLUGINS_TVM_FFI_RAISE_H_ */
