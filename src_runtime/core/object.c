/* Objects: types, references, and their C functions.
 *
 * Type indices are fixed in the enum of object.h; there is no growing table, so no lock. Handles
 * come from outside: an unknown type index is reported as an error, which also catches most
 * pointers to something else. Freed objects cannot be detected. */
#include "object.h"

#include <string.h>

static const char* const type_keys[TVMRT_TYPE_END] = {
    [TVMRT_TYPE_OBJECT] = "runtime.Object",
    [TVMRT_TYPE_MODULE] = "runtime.Module",
    [TVMRT_TYPE_NDARRAY] = "runtime.NDArray",
    [TVMRT_TYPE_STRING] = "runtime.String",
    [TVMRT_TYPE_ARRAY] = "Array",
    [TVMRT_TYPE_MAP] = "Map",
    [TVMRT_TYPE_SHAPE_TUPLE] = "runtime.ShapeTuple",
    [TVMRT_TYPE_FUNCTION] = "runtime.PackedFunc",
    [TVMRT_TYPE_ADT] = "runtime.ADT",
    [TVMRT_TYPE_BOX_INT] = "runtime.BoxInt",
    [TVMRT_TYPE_BOX_FLOAT] = "runtime.BoxFloat",
    [TVMRT_TYPE_BOX_BOOL] = "runtime.BoxBool",
    [TVMRT_TYPE_REPORT] = "runtime.profiling.Report",
};

/* NULL for an unknown index. */
const char* tvmrt__type_key(uint32_t type_index) {
  return type_index < TVMRT_TYPE_END ? type_keys[type_index] : NULL;
}

/* `callee` names the called function, for the error text. */
int tvmrt__check_type(const void* handle, tvmrt_type type, const char* callee) {
  const tvmrt_object* obj = handle;
  const char* actual;
  if (obj == NULL) return tvmrt__fail("%s: the handle is NULL.", callee);
  if (obj->type_index == (uint32_t)type) return 0;
  actual = tvmrt__type_key(obj->type_index);
  return tvmrt__fail_type("%s expects a %s, got a %s.", callee, type_keys[type],
                          actual == NULL ? "handle of an unknown kind" : actual);
}

/* Accepts any type; tvmrt__check_type() requires one. */
static int check_object(TVMObjectHandle obj, const char* callee) {
  if (obj == NULL) return tvmrt__fail("%s: the handle is NULL.", callee);
  if (tvmrt__type_key(((const tvmrt_object*)obj)->type_index) != NULL) return 0;
  return tvmrt__fail_type("%s expects an object handle.", callee);
}

/* *out_tindex is 0 on failure. */
int TVMObjectGetTypeIndex(TVMObjectHandle obj, unsigned* out_tindex) {
  *out_tindex = 0;
  TVMRT_RETURN_IF_ERROR(check_object(obj, "TVMObjectGetTypeIndex"));
  *out_tindex = ((const tvmrt_object*)obj)->type_index;
  return 0;
}

/* Front ends call this once for each class that they know. */
int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_tindex) {
  unsigned i;
  *out_tindex = 0;
  if (type_key == NULL) return tvmrt__fail("TVMObjectTypeKey2Index: the key is NULL.");
  for (i = 0; i < TVMRT_TYPE_END; ++i) {
    if (type_keys[i] != NULL && strcmp(type_keys[i], type_key) == 0) {
      *out_tindex = i;
      return 0;
    }
  }
  return tvmrt__fail("Cannot find type '%s': no object of this runtime has it.", type_key);
}

/* Front ends call this when they see a type for the first time. */
int TVMObjectTypeIndex2Key(unsigned tindex, char** out_type_key) {
  const char* key = tvmrt__type_key(tindex);
  *out_type_key = NULL;
  if (key == NULL) return tvmrt__fail("Unknown type index %u.", tindex);
  *out_type_key = tvmrt__strdup(key); /* the ABI requires that the caller releases it by free() */
  return *out_type_key == NULL ? -1 : 0;
}

/* Add a reference: for front ends that keep a borrowed object. */
int TVMObjectRetain(TVMObjectHandle obj) {
  TVMRT_RETURN_IF_ERROR(check_object(obj, "TVMObjectRetain"));
  tvmrt__retain(obj);
  return 0;
}

/* Release a reference; NULL does nothing, as in free(). */
int TVMObjectFree(TVMObjectHandle obj) {
  if (obj == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(check_object(obj, "TVMObjectFree"));
  tvmrt__release(obj);
  return 0;
}

int TVMObjectDerivedFrom(uint32_t child_type_index, uint32_t parent_type_index, int* is_derived) {
  /* Every type derives only from the root. */
  *is_derived = child_type_index == parent_type_index || parent_type_index == TVMRT_TYPE_OBJECT;
  return 0;
}
