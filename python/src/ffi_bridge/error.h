/*! \file error.h
 *  \brief Errors of the bridge, and those of either side on the other. */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_ERROR_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_ERROR_H_

#include <stddef.h>

/*! \brief Set the error text; returns -1. */
int bridge_fail(const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;
/*! \brief Say that there is no memory for this many bytes; returns -1. */
int bridge_fail_memory(size_t bytes);
/*! \brief Say in the error text which argument it is about; returns -1. */
int bridge_name_argument(int index);
/*! \brief Raise the error text on the other side, with its kind; returns -1. */
int bridge_raise(void);
/*! \brief Take the error raised on the other side over as the error text; returns -1. */
int bridge_catch(void);

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_ERROR_H_ */
