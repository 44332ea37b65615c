/* What the measured programs share: an image with three operators on 64 floats each. */
#ifndef TVMRT_TESTS_BENCH_FOOTPRINT_IMAGE_H_
#define TVMRT_TESTS_BENCH_FOOTPRINT_IMAGE_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/module.h>

enum { NUM_FLOATS = 64 };

typedef struct op_args {
  TVMValue values[2];
  int codes[2];
} op_args;

/* The operators: y = x + 1. */
int op_first(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
             void* resource);

extern const TVMModule image_module;
extern const char graph_json[];
extern const unsigned graph_json_bytes;

#endif
