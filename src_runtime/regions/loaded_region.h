/* A region on its device: prepared, run, released. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_LOADED_REGION_H_
#define TVMRT_SRC_RUNTIME_REGIONS_LOADED_REGION_H_

#include <stdatomic.h>

#include "../platform/threads.h"
#include "constants.h"
#include "region_set.h"
#include "registry.h"
#include "sizes.h"

/* How often the CPU took a device's place, and why it did so first. */
typedef struct tvmrt_fallbacks {
  uint64_t runs;
  char* reason; /* NULL: it never did */
} tvmrt_fallbacks;

/* What one run of a region needs for itself: calls take one each. */
typedef struct tvmrt_region_context {
  tvmrt_region region; /* what slots get */
  DLTensor** data;     /* region.data */
  bool is_allocated;
  bool is_prepared;
  bool is_taken;   /* by a call; of the loaded region's lock */
  bool is_started; /* by async_run, and async_wait has not ended it */
  double deadline; /* of the run that was started, where there is one */
  void* held;      /* the tensors of a run that its caller does not wait for */
  struct tvmrt_region_context* next;
} tvmrt_region_context;

typedef struct tvmrt_loaded_region {
  tvmrt_region_context first; /* made when it is loaded; the others follow when calls meet */
  tvmrt_region unused;        /* as first's was before a slot got it; the others begin as it */
  tvmrt_device* device;       /* NULL: missing, and the CPU takes its place */
  tvmrt_mutex lock;           /* of all that changes after the region is loaded */
  tvmrt_cond returned;        /* a context, or from making or reshaping */
  bool has_lock;
  bool has_condition;
  bool is_making;       /* a context */
  bool is_full;         /* the device had no room for another one */
  bool is_reshaping;    /* or about to */
  int64_t calls;        /* that have or want a context */
  char* options;        /* a JSON object, never NULL once it is prepared */
  int64_t timeout_ms;   /* of a run; 0: none */
  bool any_layout;      /* borders may have strides */
  char* failure;        /* why it cannot run; NULL if it can */
  bool falls_back;      /* the CPU's code stands beside it: a call that fails is no error */
  atomic_bool* is_told; /* by a warning; the module's */
  tvmrt_fallbacks fallbacks;
  tvmrt_sizes sizes;
  int64_t* shapes;  /* of all tensors at `allocate`, once it is reshaped; NULL: as they are */
  const char* text; /* the region's JSON; owned by the module */
  size_t text_size;
  const tvmrt_constants* constants;  /* of the module */
  struct tvmrt_other_device* others; /* that were offered the region, too */
} tvmrt_loaded_region;

/* Take the draft over and prepare it on the device. `options` are those of the library. */
int tvmrt__loaded_region_init(tvmrt_loaded_region* self, const tvmrt_region_draft* draft,
                              tvmrt_device* device, const char* options, tvmrt_arena* arena);
void tvmrt__loaded_region_free(tvmrt_loaded_region* self);

/* The tensors of a call; sizes follow them where a run chooses some: *out is NULL where it does not.
 * They are the caller's, who may free them after the call: unbind. */
int tvmrt__call_sizes(const tvmrt_loaded_region* self, const TVMValue* args, const int* codes,
                      int num_args, const int64_t** out);
int tvmrt__context_bind(const tvmrt_loaded_region* self, tvmrt_region_context* c,
                        const TVMValue* args, const int* codes);
void tvmrt__context_unbind(tvmrt_region_context* c);
/* Copy what is bound, shapes with it, so that the caller's tensors may go before the run has ended. */
int tvmrt__context_hold(tvmrt_region_context* c);
/* Fails with what is wrong with a tensor of a region. */
int tvmrt__wrong_tensor(const tvmrt_region* region, int32_t tensor, const char* what);

/* 0 if the shapes of every node's tensors belong together once these have changed; those of results
 * that are not among them follow, and all are set if `set`. Tensor numbers and ranks were checked. What
 * operators make of which shapes is known for pointwise ones, products and convolutions; the tensors
 * of others must stay as they are. */
int tvmrt__infer_shapes(const tvmrt_region* region, const tvmrt_region_shape* shapes,
                        int32_t num_shapes, bool set);

/* A call of a region that falls back has failed with the thread's error: warn of the first of a
 * library, and count. */
void tvmrt__note_fallback(tvmrt_loaded_region* self);
/* Append a JSON object for each region that may fall back, with ", " between them. */
int tvmrt__write_fallbacks(const tvmrt_loaded_region* regions, size_t count, const char* device,
                           tvmrt_buf* text);

/* The device's slots for one context; all but release fail with device, slot and region in front of
 * the reason. NULL slots do nothing, and post_run does nothing where no pre_run came before. */
int tvmrt__context_failed(const tvmrt_loaded_region* self, const tvmrt_region_context* c,
                          const char* slot);
int tvmrt__context_call(const tvmrt_loaded_region* self, tvmrt_region_context* c, const char* name,
                        int (*slot)(tvmrt_device*, tvmrt_region*));
int tvmrt__context_allocate(const tvmrt_loaded_region* self, tvmrt_region_context* c);
int tvmrt__context_pre_run(const tvmrt_loaded_region* self, tvmrt_region_context* c);
int tvmrt__context_post_run(const tvmrt_loaded_region* self, tvmrt_region_context* c);
void tvmrt__context_release(const tvmrt_loaded_region* self, tvmrt_region_context* c);

/* Keep the shapes that `allocate` saw, before the first that change; give them to the tensors again,
 * for `release`. */
int tvmrt__keep_shapes(tvmrt_loaded_region* self);
void tvmrt__restore_shapes(const tvmrt_loaded_region* self);

/* A context with the tensors of a call bound; NULL with the error if there is none. */
tvmrt_region_context* tvmrt__context_take(tvmrt_loaded_region* self, const TVMValue* args,
                                          const int* codes, int num_args);
/* Start a run, or do it all: where the device knows no other way, or knows that too and the caller waits
 * at once. Wait for its end, or look whether it has come: else TVMRT_DEVICE_BUSY. A context that starts no
 * run, or fails, has none under way. */
int tvmrt__context_start(const tvmrt_loaded_region* self, tvmrt_region_context* c, bool waits);
int tvmrt__context_finish(const tvmrt_loaded_region* self, tvmrt_region_context* c, bool only_look);
/* The end of a call, with what came of it, which is returned. */
int tvmrt__context_return(tvmrt_loaded_region* self, tvmrt_region_context* c, int rc);

/* The region on another device, which prepares it first; NULL with the error where that cannot be. */
tvmrt_loaded_region* tvmrt__region_on(tvmrt_loaded_region* self, tvmrt_device* device);
/* Fails if the CPU has no code beside the region. */
int tvmrt__region_on_cpu(const tvmrt_loaded_region* self);
/* Follow the region, which was reshaped: what cannot answers its calls with the reason. With its lock. */
void tvmrt__others_reshape(tvmrt_loaded_region* self, const tvmrt_region_shape* shapes,
                           int32_t num_shapes);
void tvmrt__others_free(tvmrt_loaded_region* self);

/* The packed function below in two: the first starts a run and returns what the other, which waits for it, takes;
 * nothing where the run has ended already. Between them the memory of the tensors is the run's. */
int tvmrt__loaded_region_start(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource);
int tvmrt__loaded_region_wait(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource);

/* The packed function: (inputs..., outputs...); its resource is the region. */
int tvmrt__loaded_region_call(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource);

#endif
