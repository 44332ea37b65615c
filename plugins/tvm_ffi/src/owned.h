/*! \file owned.h
 * \brief Temporary resources of a conversion, released after the call. */
#ifndef TVMRT_PLUGINS_TVM_FFI_OWNED_H_
#define TVMRT_PLUGINS_TVM_FFI_OWNED_H_

#include <stddef.h>

/*! \brief A resource to release; nothing if `release` is NULL. */
typedef struct {
  void (*release)(void* what);
  void* what;
} Owned;

static inline void owned_release(Owned* owned) {
  /* lint: on failure the caller releases nothing */
  if (owned->release != NULL) owned->release(owned->what);
}

#endif /* TVMRT_PLUGINS_TVM_FFI_OWNED_H_ */
