/* onnxruntime's C interface as far as the plug-in uses it: numbers, and the types and tables of
 * positions.ini. Nothing else of the plug-in knows a fact of that interface. */
#ifndef TVMRT_ONNXRUNTIME_EP_ABI_H_
#define TVMRT_ONNXRUNTIME_EP_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "positions.h" /* generated in the build folder */

/* What CreateEpFactories receives: two functions, whose order never changes. */
typedef struct ort_base {
  const void* (*get_api)(uint32_t version);
  const char* (*get_version)(void);
} ort_base;

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_EP_FAIL = 11 }; /* codes of CreateStatus */
enum { ORT_HARDWARE_CPU = 0 };
/* Element types; those up to 23 have ONNX's numbers. */
enum {
  ORT_ELEMENT_STRING = 8,
  ORT_ELEMENT_UINT2 = 24,
  ORT_ELEMENT_INT2,
  ORT_ELEMENT_FLOAT8E8M0,
};
enum { ORT_INT = 1, ORT_INTS, ORT_FLOAT, ORT_FLOATS, ORT_STRING, ORT_STRINGS }; /* attributes */
enum { ORT_GRAPH = 7, ORT_TENSOR };

/* A table that the plug-in fills. onnxruntime reads no position that is newer than `version`; the
 * functions that are NULL are optional. */
enum { ORT_OWN_SLOTS = 48 };
typedef void (*ort_slot)(void);
typedef union ort_own {
  uint32_t version;
  ort_slot slots[ORT_OWN_SLOTS];
} ort_own;

/* How nodes are fused: constants are part of the compiled library. */
typedef struct ort_fusion {
  uint32_t version;
  bool drop_constants;
} ort_fusion;

/* The functions of one onnxruntime. */
typedef struct ort_functions {
  OrtApi api;
  OrtEpApi ep;
  OrtModelEditorApi editor;
} ort_functions;

#endif /* TVMRT_ONNXRUNTIME_EP_ABI_H_ */
