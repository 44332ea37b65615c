/*! \file owned.h
 *  \brief What a conversion has made for the time of a call. */
#ifndef TVMRT_PLUGINS_TVM_FFI_OWNED_H_
#define TVMRT_PLUGINS_TVM_FFI_OWNED_H_

#include <stddef.h>

/*! \brief Something to give back: nothing if release is NULL. */
typedef struct {
  void (*release)(void* what);
  void* what;
} Owned;

static inline void owned_release(Owned* owned) {
  /* lint: what failed to be made is not released by its caller again */
  if (owned->release != NULL) owned->release(owned->what);
}

#endif /* TVMRT_PLUGINS_TVM_FFI_OWNED_H_ */
