/* The prefix table: maps prefixes of function names to libraries. */
#ifndef TVMRT_SRC_RUNTIME_CORE_PLUGIN_PREFIXES_H_
#define TVMRT_SRC_RUNTIME_CORE_PLUGIN_PREFIXES_H_

#include <stdatomic.h>
#include <stddef.h>

#include "../base/stream.h"

typedef enum tvmrt_prefix_state {
  TVMRT_PREFIX_NEW,
  TVMRT_PREFIX_LOADING, /* accessed with the loading lock, so only by its owner */
  TVMRT_PREFIX_LOADED
} tvmrt_prefix_state;

/* Rows are never removed; they are read without a lock. */
typedef struct tvmrt_prefix {
  _Atomic(struct tvmrt_prefix*) next;
  atomic_int state;    /* of the library */
  const char* library; /* its path, stored after `text` */
  size_t size;         /* of the prefix */
  char text[];
} tvmrt_prefix;

/* The first row; reads the files on the first call. */
tvmrt_prefix* tvmrt__prefixes(void);
/* Append the folder of the library that contains an address, with its separator: nothing if it has
 * no file. A link to the library may be in another folder, which has none of its plug-ins. */
TVMRT_SDK int tvmrt__append_own_folder(tvmrt_buf* out, const void* address);
/* The row with the longest prefix of a name, NULL if there is none. */
tvmrt_prefix* tvmrt__prefix_find(const char* name);

static inline tvmrt_prefix* tvmrt__prefix_next(const tvmrt_prefix* row) {
  return atomic_load_explicit(&row->next, memory_order_acquire);
}
static inline int tvmrt__prefix_state(const tvmrt_prefix* row) {
  return atomic_load_explicit(&row->state, memory_order_acquire);
}

#endif
