/* Containers that cross the ABI: text, arrays, maps, shapes, tagged tuples, boxed numbers. */
#ifndef TVMRT_SRC_RUNTIME_CORE_CONTAINER_H_
#define TVMRT_SRC_RUNTIME_CORE_CONTAINER_H_

#include "function.h"

typedef struct tvmrt_string {
  tvmrt_object base;
  size_t size;
  char data[]; /* size bytes and a NUL */
} tvmrt_string;

/* Common head of arrays, ADTs and maps. */
typedef struct tvmrt_container {
  tvmrt_object base;
  struct tvmrt_container* next_to_free; /* while it waits in free_container() */
} tvmrt_container;

/* Array and ADT. */
typedef struct tvmrt_array {
  tvmrt_object base;
  tvmrt_container* next_to_free;
  int64_t tag; /* ADT only */
  size_t size;
  tvmrt_object* items[]; /* retained; NULL is None */
} tvmrt_array;

typedef struct tvmrt_map_entry {
  tvmrt_object* key;
  tvmrt_object* value;
} tvmrt_map_entry;

/* Keeps insertion order; keys are equal by text, by number or by identity. */
typedef struct tvmrt_map {
  tvmrt_object base;
  tvmrt_container* next_to_free;
  tvmrt_map_entry* entries;
  size_t size;
  tvmrt_strmap by_text; /* text key -> entry index + 1 */
} tvmrt_map;

typedef struct tvmrt_shape {
  tvmrt_object base;
  size_t size;
  int64_t data[];
} tvmrt_shape;

typedef struct tvmrt_box {
  tvmrt_object base;
  union {
    int64_t integer;
    double real;
  } as;
} tvmrt_box;

/* Constructors return an owned object, or NULL with the error text set. */
TVMRT_SDK tvmrt_string* tvmrt__string_new(const char* data, size_t size);
TVMRT_SDK tvmrt_array* tvmrt__array_new(size_t size); /* all items NULL */
TVMRT_SDK tvmrt_array* tvmrt__array_of_texts(const char* const* texts, size_t count);
TVMRT_SDK tvmrt_map* tvmrt__map_new(void);
TVMRT_SDK tvmrt_box* tvmrt__box_new(tvmrt_type type); /* holds 0 */
/* data NULL: the caller fills in the extents. */
TVMRT_SDK tvmrt_shape* tvmrt__shape_new(const int64_t* data, size_t size);

/* The value of a key, borrowed; NULL if the key is missing. */
TVMRT_SDK tvmrt_object* tvmrt__map_get(const tvmrt_map* map, const tvmrt_object* key);

/* Add or replace; takes ownership of both references, also on failure. Refuses NULL. */
TVMRT_SDK int tvmrt__map_set(tvmrt_map* map, tvmrt_object* key, tvmrt_object* value);

/* Add or replace; takes ownership of the value, also on failure. Refuses NULL. */
int tvmrt__map_set_text(tvmrt_map* map, const char* key, tvmrt_object* value);

#endif
