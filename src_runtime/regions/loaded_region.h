/* A region on its device: prepared, run, released. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_LOADED_REGION_H_
#define TVMRT_SRC_RUNTIME_REGIONS_LOADED_REGION_H_

#include <stdatomic.h>

#include "../platform/threads.h"
#include "constants.h"
#include "dynamic_shapes.h"
#include "region_set.h"
#include "registry.h"

/* How often the CPU computed a region instead of its device, and the first reason. */
typedef struct tvmrt_fallbacks {
  uint64_t runs;
  char* reason; /* NULL: never */
} tvmrt_fallbacks;

/* State of one run of a region: each call takes one. */
typedef struct tvmrt_region_context {
  tvmrt_region region; /* argument of the slots */
  DLTensor** data;     /* region.data */
  bool is_allocated;
  bool is_prepared;
  bool is_taken;       /* by a call; protected by the loaded region's lock */
  bool is_started;     /* by async_run, and not yet ended by async_wait */
  double began;        /* time of the last call of run or async_run */
  double deadline;     /* of the started run, with a timeout */
  void* tensor_copies; /* the tensors of a run that its caller does not wait for */
  struct tvmrt_region_context* next;
} tvmrt_region_context;

typedef struct tvmrt_loaded_region {
  tvmrt_region_context first; /* created on loading; others are created for concurrent calls */
  tvmrt_region initial;       /* copy of first before slots used it; initial state of the others */
  tvmrt_device* device;       /* NULL: missing, and the CPU replaces it */
  tvmrt_mutex lock;           /* protects everything that changes after loading */
  tvmrt_cond returned;        /* signalled when a context, creation or change of sizes ends */
  bool has_lock;
  bool has_condition;
  bool is_making;          /* a context */
  bool is_full;            /* the device had no memory for another context */
  bool is_reshaping;       /* or about to */
  int64_t calls;           /* that have or want a context */
  char* options;           /* a JSON object, never NULL once it is prepared */
  int64_t timeout_ms;      /* of a run; 0: none */
  bool any_layout;         /* boundary tensors may have strides */
  char* failure;           /* why it cannot run; NULL if it can */
  bool falls_back;         /* the library has CPU code for it: a failing call is not an error */
  atomic_bool* has_warned; /* a warning was printed; owned by the module */
  tvmrt_fallbacks fallbacks;
  tvmrt_sizes sizes;
  const char* text; /* the region's JSON; owned by the module */
  size_t text_size;
  const tvmrt_constants* constants; /* of the module */
} tvmrt_loaded_region;

/* Take over the draft and prepare it on the device. `options` are the library's. */
int tvmrt__loaded_region_init(tvmrt_loaded_region* self, const tvmrt_region_draft* draft,
                              tvmrt_device* device, const char* options, tvmrt_arena* arena);
void tvmrt__loaded_region_free(tvmrt_loaded_region* self);

/* The tensors of a call, followed by sizes for dynamic dimensions: *out is NULL without those. The
 * caller owns them and may free them after the call: unbind. */
int tvmrt__call_sizes(const tvmrt_loaded_region* self, const TVMValue* args, const int* codes,
                      int num_args, const int64_t** out);
int tvmrt__context_bind(const tvmrt_loaded_region* self, tvmrt_region_context* c,
                        const TVMValue* args, const int* codes);
void tvmrt__context_unbind(tvmrt_region_context* c);
/* Copy the bound tensors with their shapes, so that the caller may free them during the run. */
int tvmrt__context_copy_tensors(tvmrt_region_context* c);

/* Count a failed call of a region with CPU fallback, with the thread's error; a library's first one
 * prints a warning. */
void tvmrt__record_fallback(tvmrt_loaded_region* self);
/* Append a JSON object for each region with a fallback, separated by ", ". */
int tvmrt__write_fallbacks(const tvmrt_loaded_region* regions, size_t count, const char* device,
                           tvmrt_buf* text);

/* Call the device's slots for one context; all but release fail with device, slot and region before
 * the reason. NULL slots are no-ops, and post_run is a no-op without a pre_run before. */
int tvmrt__context_failed(const tvmrt_loaded_region* self, const tvmrt_region_context* c,
                          const char* slot);
int tvmrt__context_call(const tvmrt_loaded_region* self, tvmrt_region_context* c, const char* name,
                        int (*slot)(tvmrt_device*, tvmrt_region*));
int tvmrt__context_allocate(const tvmrt_loaded_region* self, tvmrt_region_context* c);
int tvmrt__context_pre_run(const tvmrt_loaded_region* self, tvmrt_region_context* c);
int tvmrt__context_post_run(const tvmrt_loaded_region* self, tvmrt_region_context* c);
void tvmrt__context_release(const tvmrt_loaded_region* self, tvmrt_region_context* c);

/* A context with the tensors of a call bound; NULL with the error if there is none. */
tvmrt_region_context* tvmrt__context_take(tvmrt_loaded_region* self, const TVMValue* args,
                                          const int* codes, int num_args);
/* Start a run, or execute it completely: if the device supports only that, or supports both and the
 * caller waits at once. Wait for its end. A context that starts no run, or fails, has none in
 * progress. */
int tvmrt__context_start(const tvmrt_loaded_region* self, tvmrt_region_context* c, bool waits);
int tvmrt__context_finish(const tvmrt_loaded_region* self, tvmrt_region_context* c);
/* End a call with its result, which is returned. */
int tvmrt__context_return(tvmrt_loaded_region* self, tvmrt_region_context* c, int rc);

/* The packed function below in two parts: the first starts a run and returns an argument for the
 * second, which waits for it; nothing if the run has ended already. Until then it uses the tensors'
 * memory. */
int tvmrt__loaded_region_start(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource);
int tvmrt__loaded_region_wait(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource);

/* The packed function: (inputs..., outputs...); its resource is the region. */
int tvmrt__loaded_region_call(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource);

#endif
