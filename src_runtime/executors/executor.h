/* Common part of the executors: ports, their functions, and mutual exclusion of calls. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_EXECUTOR_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_EXECUTOR_H_

#include "../core/thread_pool.h"
#include "../tensors/params.h"
#include "../tensors/workspace.h"
#include "port.h"

/* One side of a network. */
typedef struct tvmrt_ports {
  const char* kind; /* "input" or "output", for messages */
  tvmrt_port* items;
  size_t count;
} tvmrt_ports;

/* Each kind's struct starts with this. */
typedef struct tvmrt_executor {
  tvmrt_module module;
  tvmrt_ports inputs;
  tvmrt_ports outputs;
  bool* is_param;                  /* per input: it was set as a parameter; NULL if unknown */
  const tvmrt_dims* dims;          /* owned by the library, NULL without dynamic dimensions */
  struct tvmrt_schedule* schedule; /* NULL: operators run in order, on the caller's thread */
  tvmrt_reserve reserve;           /* workspaces of the thread that runs it */
  bool is_single_threaded;         /* the library states that runs stay on the caller's thread */
  uint64_t input_align;            /* bytes, of a tensor that is used as an input in place */
  bool has_state;                  /* some operator memory is state that persists between runs */
  atomic_bool is_taken;
} tvmrt_executor;

/* A kind of executor. Its functions are called with the executor taken. */
typedef struct tvmrt_executor_kind {
  tvmrt_module_type type; /* of TVMRT_EXECUTOR_TYPE() */
  /* for an unknown name, get_input returns nothing and get_input_index -1, without an error */
  bool answers_unknown_inputs;
  /* Additional functions of this kind; NULL ends the tables. */
  const tvmrt_builtins* const* own;
  /* Look up a function outside of the tables; *out stays empty if there is none. May be NULL. */
  int (*find_method)(const char* name, tvmrt_lookup_result* out);
  /* Look up a port of `side` by an alternative name; *out stays NULL if there is none. `callee` names
   * the called function. */
  int (*find)(tvmrt_executor* e, const tvmrt_ports* side, const char* callee, const char* name,
              tvmrt_port** out);
  /* Update operators' arguments after a tensor was bound to a port. */
  void (*update)(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_port* port);
  int (*run)(tvmrt_executor* e);
  int (*reset_state)(tvmrt_executor* e); /* let the next run start from the initial state */
  /* Set the inputs that have a name in params. */
  int (*set_params)(tvmrt_executor* e, const tvmrt_params* params);
  /* JSON text of times per operator, see profile.h; the caller frees it, also on failure. */
  int (*profile)(tvmrt_executor* e, tvmrt_buf* text);
} tvmrt_executor_kind;

#define TVMRT_EXECUTOR_TYPE(kind_name, destroy_it)                                       \
  {                                                                                      \
    .key = kind_name, .properties = TVMRT_MODULE_RUNNABLE, .find = tvmrt__executor_find, \
    .destroy = destroy_it                                                                \
  }
int tvmrt__executor_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out);

/* A zeroed executor of `bytes`, which retains the library; NULL with the error text set. */
void* tvmrt__executor_new(const tvmrt_executor_kind* kind, size_t bytes, tvmrt_module* library);
/* Accepts partly built executors. */
void tvmrt__executor_free_ports(tvmrt_executor* e);

/* The port with exactly this name; NULL if there is none. */
tvmrt_port* tvmrt__port_named(const tvmrt_ports* side, const char* name);

/* Read the dynamic dimensions from the library and record them in the ports, whose memory is
 * allocated for the maximum, or for the minimum if it grows. */
int tvmrt__executor_read_dims(tvmrt_executor* e, const char* network);
/* Whether an extent may differ between runs. */
bool tvmrt__has_dynamic_extent(const tvmrt_dims_tensor* desc);

/* Check how many ports of a side the library describes; `property` is for the error text. */
int tvmrt__check_described(const tvmrt_ports* side, const char* property, int32_t count);

/* Reserve the workspaces that the library states, and read the settings of threads, so that runs
 * neither allocate nor call the system. */
int tvmrt__executor_prepare(tvmrt_executor* e, const char* network);

/* Before a run: let outputs that callers keep by take_output have other memory. */
int tvmrt__executor_renew_outputs(tvmrt_executor* e);

/* Record in the ports the device memory in which they may lie; no-op for NULL. */
int tvmrt__executor_set_placement(tvmrt_executor* e, const tvmrt_placement* placement);

/* (which, tensor) */
int tvmrt__executor_set_input(tvmrt_executor* e, const tvmrt_args* in);

/* An executor has one set of inputs, outputs and workspaces, so it serves one call at a time: `callee`
 * fails if a call of another thread, or a surrounding call, has not ended. */
TVMRT_SDK int tvmrt__fail_taken(const char* callee);
static inline int tvmrt__begin_call(tvmrt_executor* e, const char* callee) {
  if (!atomic_exchange_explicit(&e->is_taken, true, memory_order_acquire)) return 0;
  return tvmrt__fail_taken(callee);
}
static inline void tvmrt__end_call(tvmrt_executor* e) {
  atomic_store_explicit(&e->is_taken, false, memory_order_release);
}
/* Begin a call that also fails if a run is in progress, which may outlast its call. */
TVMRT_SDK int tvmrt__keep_if_idle(tvmrt_executor* e, const char* callee);
static inline int tvmrt__begin_idle_call(tvmrt_executor* e, const char* callee) {
  TVMRT_RETURN_IF_ERROR(tvmrt__begin_call(e, callee));
  return e->schedule == NULL ? 0 : tvmrt__keep_if_idle(e, callee);
}

/* Signature of a method of an executor's module, called exclusively and while no run is in
 * progress. `self` declares the executor, with its kind's type. */
#define TVMRT_EXECUTOR_METHOD(self, fn, name)                                   \
  static int fn##_of(self, const tvmrt_args* in, TVMValue* out, int* out_code); \
  TVMRT_NATIVE(fn) {                                                            \
    tvmrt_executor* called = resource_handle;                                   \
    const int* limit;                                                           \
    int rc;                                                                     \
    TVMRT_ARGS(name);                                                           \
    TVMRT_RETURN_IF_ERROR(tvmrt__begin_idle_call(called, in.callee));           \
    limit = tvmrt__limit_launches(&called->reserve.max_threads);                \
    rc = fn##_of(resource_handle, &in, out, out_code);                          \
    (void)tvmrt__limit_launches(limit);                                         \
    tvmrt__end_call(called);                                                    \
    return rc;                                                                  \
  }                                                                             \
  static int fn##_of(self, const tvmrt_args* in, TVMValue* out, int* out_code)

#endif
