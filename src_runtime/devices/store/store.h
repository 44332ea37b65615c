/*
 * Built programs of devices on disk: bytes under a key of some texts, in a folder of files. Part of each
 * device that keeps programs; a favour, of which nothing is an error.
 */
#ifndef TVMRT_DEVICES_STORE_STORE_H_
#define TVMRT_DEVICES_STORE_STORE_H_

#include <stdbool.h>
#include <stddef.h>

/* Where a device keeps its own. */
typedef struct {
  const char*
      variable;       /* of the environment: names the folder, or nothing is kept if it is empty */
  const char* name;   /* without it: of the folder in tvmrt's of the user's cache */
  const char* suffix; /* of files */
} store;

typedef struct {
  char path[4096];
  const char* const* key; /* ends with NULL; borrowed */
} store_entry;

/* False if nothing is to be kept. */
bool store_entry_find(const store* of, const char* const* key, store_entry* out);
/* NULL if there is none that fits; else free() it. */
void* store_entry_read(const store_entry* entry, size_t* out_bytes);
/* What fails here is made again another time. */
void store_entry_write(const store_entry* entry, const void* bytes, size_t size);

#endif
