/*! \file wrapper_table.h
 * \brief Table of wrapper functions. */
#ifndef TVMRT_PLUGINS_TVM_FFI_WRAPPER_TABLE_H_
#define TVMRT_PLUGINS_TVM_FFI_WRAPPER_TABLE_H_

/*!
 * \brief A function that wraps a function of the other side.
 *
 * Wrappers are found by their address, so converting one back gives the original function instead
 * of a wrapper around a wrapper.
 */
typedef struct BridgeWrapper {
  void* outer; /* the wrapper, as its caller sees it */
  void* inner; /* the wrapped function; one reference */
  struct BridgeWrapper* next;
} BridgeWrapper;

/*! \brief Make a link to `inner`, which the caller retains; NULL if out of memory. free() it. */
BridgeWrapper* bridge_wrapper_new(void* inner);
/*! \brief Register a link under its wrapper. */
void bridge_wrapper_add(BridgeWrapper* wrapper, void* outer);
/*! \brief Free a link; returns `inner`, whose reference the caller now owns. */
void* bridge_wrapper_remove(BridgeWrapper* wrapper);
/*! \brief Function wrapped by `outer`, which the caller keeps alive: retained; NULL if none. */
void* bridge_wrapper_find(const void* outer, void (*retain)(void* inner));

#endif /* TVMRT_PLUGINS_TVM_FFI_WRAPPER_TABLE_H_ */
