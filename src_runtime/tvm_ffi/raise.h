/*! \file raise.h
 *  \brief Errors of either side on the other. */
#ifndef TVMRT_SRC_RUNTIME_TVM_FFI_RAISE_H_
#define TVMRT_SRC_RUNTIME_TVM_FFI_RAISE_H_

/*! \brief Say in the error text which argument it is about; returns -1. */
int bridge_name_argument(int index);
/*! \brief Raise the error text on the other side, with its kind; returns -1. */
int bridge_raise(void);
/*! \brief Take the error raised on the other side over as the error text; returns -1. */
int bridge_catch(void);

#endif /* TVMRT_SRC_RUNTIME_TVM_FFI_RAISE_H_ */
