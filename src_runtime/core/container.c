/* Containers: creation, destruction, entries of maps.
 *
 * Containers own their items: an item is retained when it is added, and released with the
 * container. No global function changes a container, so any thread may read one without a lock:
 * only its creator fills it, before sharing it. An array and an ADT are one struct, with different
 * type index and tag. */
#include "container.h"

#include <stdlib.h>
#include <string.h>

#include "function.h"

/* Destroy an object without references to others. */
static void free_plain(tvmrt_object* obj) { free(obj); }

/* Copy, with an uncounted NUL after it, so that C can read it too. */
tvmrt_string* tvmrt__string_new(const char* data, size_t size) {
  tvmrt_string* s = tvmrt__alloc(sizeof(*s) + size + 1);
  if (s == NULL) return NULL;
  tvmrt__object_init(&s->base, TVMRT_TYPE_STRING, free_plain);
  s->size = size;
  if (size != 0) memcpy(s->data, data, size);
  s->data[size] = '\0';
  return s;
}

static void free_container(tvmrt_object* obj);

/* Release an item; if it is an unreferenced container, add it to the list of waiting ones. */
static void release_item(tvmrt_object* item, tvmrt_container** waiting) {
  tvmrt_container* inner;
  if (item == NULL || !tvmrt__drop(item)) return;
  if (item->destroy != free_container) {
    item->destroy(item);
    return;
  }
  inner = (tvmrt_container*)item;
  inner->next_to_free = *waiting;
  *waiting = inner;
}

/* Free the container itself, but add containers inside of it to the list of waiting ones. */
static void free_array(tvmrt_array* array, tvmrt_container** waiting) {
  size_t i;
  for (i = 0; i < array->size; ++i) release_item(array->items[i], waiting);
  free(array);
}

/* Free a map with its keys and values; the text table holds no references, only indices. */
static void free_map(tvmrt_map* map, tvmrt_container** waiting) {
  size_t i;
  for (i = 0; i < map->size; ++i) {
    release_item(map->entries[i].key, waiting);
    release_item(map->entries[i].value, waiting);
  }
  tvmrt__strmap_free(&map->by_text);
  free(map->entries);
  free(map);
}

/* Containers may nest arbitrarily deep: inner ones wait in a list instead of recursing on the
 * stack. */
static void free_container(tvmrt_object* obj) {
  tvmrt_container* waiting = (tvmrt_container*)obj;
  waiting->next_to_free = NULL;
  while (waiting != NULL) {
    tvmrt_container* next = waiting;
    waiting = next->next_to_free;
    if (next->base.type_index == TVMRT_TYPE_MAP) {
      free_map((tvmrt_map*)next, &waiting);
    } else {
      free_array((tvmrt_array*)next, &waiting);
    }
  }
}

/* Items are NULL until the creator sets them; freeing handles NULL. */
tvmrt_array* tvmrt__array_new(size_t size) {
  tvmrt_array* array = tvmrt__calloc(1, sizeof(*array) + size * sizeof(array->items[0]));
  if (array == NULL) return NULL;
  tvmrt__object_init(&array->base, TVMRT_TYPE_ARRAY, free_container);
  array->size = size;
  return array;
}

/* An array of new Strings; NULL with the error text set. */
tvmrt_array* tvmrt__array_of_texts(const char* const* texts, size_t count) {
  tvmrt_array* array = tvmrt__array_new(count);
  size_t i;
  for (i = 0; array != NULL && i < count; ++i) {
    array->items[i] = (tvmrt_object*)tvmrt__string_new(texts[i], strlen(texts[i]));
    if (array->items[i] == NULL) {
      tvmrt__release(&array->base);
      array = NULL;
    }
  }
  return array;
}

/* Without data the caller fills it in. */
tvmrt_shape* tvmrt__shape_new(const int64_t* data, size_t size) {
  tvmrt_shape* shape = tvmrt__alloc(sizeof(*shape) + size * sizeof(int64_t));
  if (shape == NULL) return NULL;
  tvmrt__object_init(&shape->base, TVMRT_TYPE_SHAPE_TUPLE, free_plain);
  shape->size = size;
  if (data != NULL) memcpy(shape->data, data, size * sizeof(int64_t));
  return shape;
}

/* A box with value 0, which the caller sets. Its type selects the member. */
tvmrt_box* tvmrt__box_new(tvmrt_type type) {
  tvmrt_box* box = tvmrt__calloc(1, sizeof(*box));
  if (box != NULL) tvmrt__object_init(&box->base, type, free_plain);
  return box;
}

/* An empty map; entries are allocated with the first insertion. */
tvmrt_map* tvmrt__map_new(void) {
  tvmrt_map* map = tvmrt__calloc(1, sizeof(*map));
  if (map != NULL) tvmrt__object_init(&map->base, TVMRT_TYPE_MAP, free_container);
  return map;
}

/* Floats are not used as keys; they and containers are equal only by identity. */
static int same_key(const tvmrt_object* a, const tvmrt_object* b) {
  if (a == b) return 1;
  if (a->type_index != b->type_index) return 0;
  if (a->type_index == TVMRT_TYPE_STRING) {
    const tvmrt_string* x = (const void*)a;
    const tvmrt_string* y = (const void*)b;
    return x->size == y->size && memcmp(x->data, y->data, x->size) == 0;
  }
  if (a->type_index == TVMRT_TYPE_BOX_INT || a->type_index == TVMRT_TYPE_BOX_BOOL) {
    return ((const tvmrt_box*)(const void*)a)->as.integer ==
           ((const tvmrt_box*)(const void*)b)->as.integer;
  }
  return 0;
}

/* Text without a NUL inside is found by hash; other keys are few and searched linearly. */
static const char* key_text(const tvmrt_object* key) {
  const tvmrt_string* s = (const void*)key;
  if (key->type_index != TVMRT_TYPE_STRING || strlen(s->data) != s->size) return NULL;
  return s->data;
}

/* The text table holds entry index plus one: the value of a missing entry is NULL. */
static tvmrt_map_entry* find_entry(const tvmrt_map* map, const tvmrt_object* key) {
  const char* text = key_text(key);
  size_t i;
  if (text != NULL) {
    const tvmrt_strmap_slot* slot = tvmrt__strmap_find(&map->by_text, text);
    return slot == NULL ? NULL : &map->entries[(uintptr_t)slot->value - 1];
  }
  for (i = 0; i < map->size; ++i) {
    if (same_key(map->entries[i].key, key)) return &map->entries[i];
  }
  return NULL;
}

/* Borrowed; NULL if the key is missing. */
tvmrt_object* tvmrt__map_get(const tvmrt_map* map, const tvmrt_object* key) {
  const tvmrt_map_entry* entry = find_entry(map, key);
  return entry == NULL ? NULL : entry->value;
}

/* Takes ownership of the references only on success. The entries grow first: a text in the table
 * must have its entry, and nothing can fail after the insertion. */
static int add_entry(tvmrt_map* map, tvmrt_object* key, tvmrt_object* value) {
  const char* text = key_text(key);
  void* entries = map->entries;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&entries, map->size, sizeof(*map->entries)));
  map->entries = entries;
  if (text != NULL) {
    tvmrt_strmap_slot* slot = tvmrt__strmap_insert(&map->by_text, text);
    if (slot == NULL) return -1;
    slot->value = (void*)(uintptr_t)(map->size + 1);
  }
  map->entries[map->size].key = key;
  map->entries[map->size].value = value;
  ++map->size;
  return 0;
}

/* All failures release both references. A caller that could not create a key or a value may pass
 * NULL; its error text is kept. */
int tvmrt__map_set(tvmrt_map* map, tvmrt_object* key, tvmrt_object* value) {
  tvmrt_map_entry* entry = key == NULL ? NULL : find_entry(map, key);
  if (value != NULL && entry != NULL) {
    tvmrt__release(key); /* the entry keeps its own equal key */
    tvmrt__release(entry->value);
    entry->value = value;
    return 0;
  }
  if (key != NULL && value != NULL && add_entry(map, key, value) == 0) return 0;
  tvmrt__release(key);
  tvmrt__release(value);
  return -1;
}

/* Takes ownership of the value, also on failure. */
int tvmrt__map_set_text(tvmrt_map* map, const char* key, tvmrt_object* value) {
  tvmrt_string* text = tvmrt__string_new(key, strlen(key));
  return tvmrt__map_set(map, text == NULL ? NULL : &text->base, value);
}
