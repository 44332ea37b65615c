/* Readers of the arguments of native packed functions, with precise errors.
 *
 * Every native function of the runtime reads its arguments by these readers. So the error of a
 * wrong call names the function, the index, the expected and the actual type. The only implicit
 * conversions are those that front ends cannot distinguish: boxed numbers, text objects, bools
 * as ints. All pointers are borrowed from the caller for the call. */
#include <string.h>

#include "container.h"
#include "dtype.h"
#include "function.h"

/* For error texts; codes come from outside and may be any number. */
const char* tvmrt__code_name(int code) {
  static const char names[][16] = {
      [kTVMArgInt] = "an int",
      [1] = "an unsigned int",
      [kTVMArgFloat] = "a float",
      [kTVMOpaqueHandle] = "a raw pointer",
      [kTVMNullptr] = "None",
      [kTVMDataType] = "a DataType",
      [kDLDevice] = "a Device",
      [kTVMDLTensorHandle] = "a tensor view",
      [kTVMObjectHandle] = "an object",
      [kTVMModuleHandle] = "a Module",
      [kTVMPackedFuncHandle] = "a function",
      [kTVMStr] = "a str",
      [kTVMBytes] = "bytes",
      [kTVMNDArrayHandle] = "an NDArray",
      [kTVMObjectRValueRefArg] = "a moved object",
      [kTVMArgBool] = "a bool",
  };
  if (code < 0 || code >= (int)(sizeof(names) / sizeof(names[0]))) return "a value of unknown type";
  return names[code];
}

/* Set the error text and return -1. An object is named by its type, not just as "an object". */
static int wrong_type(const tvmrt_args* in, int i, const char* expected) {
  const char* actual = tvmrt__code_name(in->codes[i]);
  const tvmrt_object* obj = tvmrt__value_object(&in->values[i], in->codes[i]);
  if (in->codes[i] == kTVMObjectHandle && obj != NULL && tvmrt__type_key(obj->type_index) != NULL) {
    actual = tvmrt__type_key(obj->type_index);
  }
  return tvmrt__fail_type("%s: argument %d must be %s, got %s (type code %d).", in->callee, i,
                          expected, actual, in->codes[i]);
}

/* `max_args` below 0: no maximum. */
int tvmrt__arg_count(const tvmrt_args* in, int min_args, int max_args) {
  if (in->count >= min_args && (max_args < 0 || in->count <= max_args)) return 0;
  if (min_args == max_args) {
    return tvmrt__fail_type("%s takes %d argument%s, got %d.", in->callee, min_args,
                            min_args == 1 ? "" : "s", in->count);
  }
  if (max_args < 0) {
    return tvmrt__fail_type("%s takes at least %d argument%s, got %d.", in->callee, min_args,
                            min_args == 1 ? "" : "s", in->count);
  }
  return tvmrt__fail_type("%s takes %d to %d arguments, got %d.", in->callee, min_args, max_args,
                          in->count);
}

/* The boxed number of an object argument, or NULL. */
static const tvmrt_box* arg_box(const tvmrt_args* in, int i, tvmrt_type type) {
  const tvmrt_object* obj = in->values[i].v_handle;
  if (in->codes[i] != kTVMObjectHandle || obj == NULL) return NULL;
  return obj->type_index == (uint32_t)type ? (const tvmrt_box*)(const void*)obj : NULL;
}

/* Accepts boxes too, since containers hold numbers in boxes. */
int tvmrt__arg_int(const tvmrt_args* in, int i, int64_t* out) {
  const tvmrt_box* box = arg_box(in, i, TVMRT_TYPE_BOX_INT);
  if (box == NULL) box = arg_box(in, i, TVMRT_TYPE_BOX_BOOL);
  if (box != NULL) {
    *out = box->as.integer;
  } else if (in->codes[i] == kTVMArgInt || in->codes[i] == kTVMArgBool) {
    *out = in->values[i].v_int64;
  } else {
    return wrong_type(in, i, "an int");
  }
  return 0;
}

/* Accepts integers too: Python's `1` arrives as an int where a float is expected. */
int tvmrt__arg_number(const tvmrt_args* in, int i, double* out) {
  int64_t int_value;
  if (in->codes[i] == kTVMArgFloat) {
    *out = in->values[i].v_float64;
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, i, &int_value));
  *out = (double)int_value;
  return 0;
}

/* Accepts a C string, a byte array, or a String object from a container. The result points into the
 * argument, neither copied nor retained. */
int tvmrt__arg_bytes(const tvmrt_args* in, int i, TVMByteArray* out) {
  const tvmrt_object* obj = in->values[i].v_handle;
  if (in->codes[i] == kTVMStr && in->values[i].v_str != NULL) {
    out->data = in->values[i].v_str;
    out->size = strlen(out->data);
  } else if (in->codes[i] == kTVMBytes && in->values[i].v_handle != NULL) {
    *out = *(const TVMByteArray*)in->values[i].v_handle;
  } else if (in->codes[i] == kTVMObjectHandle && obj != NULL &&
             obj->type_index == TVMRT_TYPE_STRING) {
    out->data = ((const tvmrt_string*)(const void*)obj)->data;
    out->size = ((const tvmrt_string*)(const void*)obj)->size;
  } else {
    return wrong_type(in, i, "bytes");
  }
  return 0;
}

/* Byte arrays are refused: they may contain a NUL, and need not end with one. */
int tvmrt__arg_str(const tvmrt_args* in, int i, const char** out) {
  TVMByteArray bytes = {NULL, 0};
  if (in->codes[i] == kTVMBytes || tvmrt__arg_bytes(in, i, &bytes) != 0) {
    return wrong_type(in, i, "a str");
  }
  *out = bytes.data;
  return 0;
}

/* A device has its own type code: two numbers are not accepted. */
int tvmrt__arg_device(const tvmrt_args* in, int i, DLDevice* out) {
  if (in->codes[i] != kDLDevice) return wrong_type(in, i, "a Device");
  *out = in->values[i].v_device;
  return 0;
}

/* TVM's front ends pass a struct or its name, depending on the release. */
int tvmrt__arg_dtype(const tvmrt_args* in, int i, DLDataType* out) {
  const char* text = NULL;
  if (in->codes[i] == kTVMDataType) {
    *out = in->values[i].v_type;
    return 0;
  }
  if (tvmrt__arg_str(in, i, &text) != 0) return wrong_type(in, i, "a DataType");
  return tvmrt__dtype_from_text(text, out);
}

/* Both codes point to a DLTensor: that of an NDArray is inside of its object. */
int tvmrt__arg_tensor(const tvmrt_args* in, int i, DLTensor** out) {
  int code = in->codes[i];
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) || in->values[i].v_handle == NULL) {
    return wrong_type(in, i, "a tensor");
  }
  *out = in->values[i].v_handle;
  if (tvmrt__has_shape(*out)) return 0;
  return tvmrt__fail_value("%s: argument %d is a tensor of %d dimensions whose shape is NULL.",
                           in->callee, i, (int)(*out)->ndim);
}

/* *out_object is borrowed. A moved argument is not taken: to pass one on to a function that keeps
 * it, call TVMCbArgToReturn(). */
int tvmrt__arg_object(const tvmrt_args* in, int i, tvmrt_type type, void* out_object) {
  tvmrt_object* obj = tvmrt__value_object(&in->values[i], in->codes[i]);
  if (in->codes[i] == kTVMObjectRValueRefArg && in->values[i].v_handle != NULL) {
    obj = *(tvmrt_object**)in->values[i].v_handle; /* read only: the caller still releases it */
  }
  if (obj == NULL || obj->type_index != (uint32_t)type) {
    return wrong_type(in, i, tvmrt__type_key((uint32_t)type));
  }
  memcpy(out_object, &obj, sizeof(obj)); /* the type index determines the caller's type */
  return 0;
}

/* Modules are objects with a type code of their own, so the type index decides here too. */
int tvmrt__arg_module(const tvmrt_args* in, int i, struct tvmrt_module** out) {
  return tvmrt__arg_object(in, i, TVMRT_TYPE_MODULE, out);
}

/* Accepts both representations of None in front ends. */
int tvmrt__arg_is_null(const tvmrt_args* in, int i) {
  return in->codes[i] == kTVMNullptr ||
         (in->codes[i] == kTVMOpaqueHandle && in->values[i].v_handle == NULL);
}
