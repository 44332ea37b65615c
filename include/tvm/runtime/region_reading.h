/*!
 * \file tvm/runtime/region_reading.h
 * \brief Accessors for regions and device options. Included by device.h.
 *
 * Functions here do not fail or allocate; returned pointers are borrowed from the region or the
 * options. Thread-safe.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_REGION_READING_H_
#define TVM_RUNTIME_REGION_READING_H_

#include <string.h>
#include <tvm/runtime/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Address of the first element of a tensor: of a constant, or of an input or output of the
 * current call. NULL for others, and for index -1. Borrowed. Do not write to inputs. */
static inline void* tvmrt_region_data(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = tensor < 0 ? NULL : region->data[tensor];
  return t == NULL || t->data == NULL ? NULL : (char*)t->data + t->byte_offset;
}

/*! \brief Bytes that the device's `prepare` wrote for a chip when the network was compiled; NULL
 * with *out_bytes 0 if it wrote none. Aligned to 64 bytes. Borrowed. */
static inline const void* tvmrt_region_blob(const tvmrt_region* region, const char* chip,
                                            uint64_t* out_bytes) {
  static const char prefix[] = "tvmrt.blob:";
  int32_t i;
  for (i = region->num_tensors; i-- > 0;) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    if (!t->is_constant || strncmp(t->name, prefix, sizeof(prefix) - 1) != 0) continue;
    if (strcmp(t->name + sizeof(prefix) - 1, chip) != 0) continue;
    *out_bytes = t->num_bytes;
    return t->data;
  }
  *out_bytes = 0;
  return NULL;
}

/*! \brief Extents of an input or output in this call; of other tensors the region's. Borrowed. */
static inline const int64_t* tvmrt_region_extents(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = region->data[tensor];
  return t == NULL ? region->tensors[tensor].shape : t->shape;
}

/*! \brief Number of elements of a tensor; the maximum if it has dynamic dimensions. */
static inline int64_t tvmrt_region_size(const tvmrt_region* region, int32_t tensor) {
  const tvmrt_region_tensor* t = &region->tensors[tensor];
  int64_t i, size = 1;
  for (i = 0; i < t->ndim; ++i) size *= t->shape[i];
  return size;
}

/*! \brief An attribute by its key; NULL if the node has none with that key. Borrowed. */
static inline const tvmrt_attr* tvmrt_node_attr(const tvmrt_region_node* node, const char* key) {
  int32_t i;
  for (i = 0; i < node->num_attrs; ++i) {
    if (strcmp(node->attrs[i].key, key) == 0) return &node->attrs[i];
  }
  return NULL;
}

/*! \brief An integer attribute; `otherwise` if it is missing or of another kind. */
static inline int64_t tvmrt_node_int(const tvmrt_region_node* node, const char* key,
                                     int64_t otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  return a == NULL || a->kind != TVMRT_ATTR_INTS || a->count < 1 ? otherwise : a->ints[0];
}

/*! \brief A number attribute, integer or floating-point; `otherwise` if it is missing. */
static inline double tvmrt_node_float(const tvmrt_region_node* node, const char* key,
                                      double otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  if (a == NULL || a->kind == TVMRT_ATTR_TEXT || a->count < 1) return otherwise;
  return a->kind == TVMRT_ATTR_INTS ? (double)a->ints[0] : a->floats[0];
}

/*! \brief A text attribute; `otherwise` if it is missing or of another kind. Borrowed. */
static inline const char* tvmrt_node_text(const tvmrt_region_node* node, const char* key,
                                          const char* otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  return a == NULL || a->kind != TVMRT_ATTR_TEXT ? otherwise : a->text;
}

/*! \brief An integer list; NULL with *out_count 0 if it is missing or of another kind. Borrowed. */
static inline const int64_t* tvmrt_node_ints(const tvmrt_region_node* node, const char* key,
                                             int32_t* out_count) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  *out_count = a == NULL || a->kind != TVMRT_ATTR_INTS ? 0 : a->count;
  return *out_count == 0 ? NULL : a->ints;
}

/*! \brief A float list; NULL with *out_count 0 if it is missing or of another kind. Borrowed. */
static inline const double* tvmrt_node_floats(const tvmrt_region_node* node, const char* key,
                                              int32_t* out_count) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  *out_count = a == NULL || a->kind != TVMRT_ATTR_FLOATS ? 0 : a->count;
  return *out_count == 0 ? NULL : a->floats;
}

/*! \brief Start of a key's value in the options of pre_run, a JSON object that the runtime has
 * checked. A text starts at its quotation mark. NULL if the object lacks the key; keys and texts
 * inside of values are skipped. Keys must not contain escapes. Borrowed. */
static inline const char* tvmrt_option(const char* options, const char* key) {
  const char* at;
  int depth = 0;
  for (at = options; *at != '\0'; ++at) {
    const char* text = at + 1;
    if (*at == '{' || *at == '[') ++depth;
    if (*at == '}' || *at == ']') --depth;
    if (*at != '"') continue;
    for (++at; *at != '"'; ++at) {
      if (*at == '\\') ++at;
      if (*at == '\0') return NULL;
    }
    if (depth != 1 || (size_t)(at - text) != strlen(key) || strncmp(text, key, strlen(key)) != 0) {
      continue;
    }
    text = at + 1 + strspn(at + 1, " \t\r\n");
    if (*text == ':') return text + 1 + strspn(text + 1, " \t\r\n");
  }
  return NULL;
}

/*! \brief Whether an option equals a text without escapes. */
static inline int tvmrt_option_is(const char* options, const char* key, const char* text) {
  const char* value = tvmrt_option(options, key);
  const size_t size = strlen(text);
  return value != NULL && *value == '"' && strncmp(value + 1, text, size) == 0 &&
         value[1 + size] == '"';
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_REGION_READING_H_ */
