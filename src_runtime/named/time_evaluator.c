/* The time evaluator: a function that measures the run time of another one.
 *
 * An evaluator is a function object whose resource is the timed function with its options; it takes
 * the arguments of that function and returns doubles as bytes. Thread-safe: it does not change
 * between calls. Names and argument lists are those of TVM's releases, which differ in length.
 *
 * One call of the timed function comes first and is not measured. Then, `repeat` times:
 * preparation, cache flush, and `number` calls with one time measurement. If these take less than
 * min_repeat_ms, they are repeated with a larger number, which later repeats keep; only the last
 * measurement is the result. */
#include <stdlib.h>
#include <string.h>

#include "../modules/module.h"
#include "../platform/system.h"

typedef struct evaluator {
  tvmrt_func* function;
  tvmrt_func* prepare;                /* called before each repeat; may be NULL */
  int64_t number;                     /* calls per measurement */
  int64_t repeat;                     /* measurements */
  int64_t min_repeat_ms;              /* the number of calls grows until a measurement takes this
                                       * long */
  int64_t limit_zero_time_iterations; /* limit of measurements of zero duration */
  int64_t cooldown_interval_ms;       /* a pause after this many repeats: */
  int64_t repeats_to_cooldown;
  int64_t cache_flush_bytes; /* written before each measurement; 0: caches stay warm */
} evaluator;

/* Destructor of the function's resource; also for a partially built evaluator. */
static void free_evaluator(void* resource) {
  evaluator* e = resource;
  if (e->function != NULL) tvmrt__release(&e->function->base);
  if (e->prepare != NULL) tvmrt__release(&e->prepare->base);
  free(e);
}

/* Uses wall-clock time, which matters to users. The first failure ends it. */
static int time_calls(const evaluator* e, int64_t number, const tvmrt_args* in, double* seconds) {
  double start = tvmrt__seconds();
  int64_t i;
  for (i = 0; i < number; ++i)
    TVMRT_RETURN_IF_ERROR(tvmrt__func_call(e->function, in->values, in->codes, in->count));
  *seconds = tvmrt__seconds() - start;
  return 0;
}

/* Writes to as much memory as the stated size of the caches; volatile, as it is never read. */
static int flush_caches(int64_t bytes) {
  volatile char* memory;
  int64_t i;
  if (bytes <= 0) return 0;
  memory = tvmrt__calloc((size_t)bytes, 1);
  if (memory == NULL) return -1;
  for (i = 0; i < bytes; i += 64) memory[i] = (char)i;
  free((void*)(uintptr_t)memory);
  return 0;
}

/* Estimates the number of calls for the wanted time from a measurement that was too short; at zero
 * duration the number only grows. */
static int more_calls(double min_seconds, double seconds, int64_t* number) {
  const double golden = (double)*number * 1.618;
  const double needed = seconds > 0 ? min_seconds / (seconds / (double)*number) + 1 : golden;
  const double calls = needed > golden ? needed : golden;
  if (!(calls < 9.2e18)) {
    return tvmrt__fail_value(
        "time_evaluator: %g s need more calls than can be counted: reduce min_repeat_ms.",
        min_seconds);
  }
  *number = (int64_t)calls;
  return 0;
}

/* One measurement; *number grows until it takes min_repeat_ms. */
static int measure(const evaluator* e, const tvmrt_args* in, int64_t* number, double* seconds) {
  double min_seconds = (double)e->min_repeat_ms / 1000.0;
  int64_t zero_times = 0; /* short calls may have zero duration */
  if (e->prepare != NULL)
    TVMRT_RETURN_IF_ERROR(tvmrt__func_call(e->prepare, in->values, in->codes, in->count));
  TVMRT_RETURN_IF_ERROR(flush_caches(e->cache_flush_bytes));
  TVMRT_RETURN_IF_ERROR(time_calls(e, *number, in, seconds));
  while (*seconds < min_seconds && zero_times < e->limit_zero_time_iterations) {
    if (*seconds <= 0) ++zero_times;
    TVMRT_RETURN_IF_ERROR(more_calls(min_seconds, *seconds, number));
    TVMRT_RETURN_IF_ERROR(time_calls(e, *number, in, seconds));
  }
  return 0;
}

/* A number of calls that lasts long enough is kept for later repeats. */
static int evaluate_all(const evaluator* e, const tvmrt_args* in, tvmrt_buf* results) {
  int64_t number = e->number;
  int64_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__func_call(e->function, in->values, in->codes,
                                         in->count)); /* the first call loads code and touches
                                                       * memory */
  for (i = 0; i < e->repeat; ++i) {
    double seconds;
    double mean;
    TVMRT_RETURN_IF_ERROR(measure(e, in, &number, &seconds));
    mean = seconds / (double)number;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(results, &mean, sizeof(mean)));
    if (e->cooldown_interval_ms > 0 && e->repeats_to_cooldown > 0 &&
        (i + 1) % e->repeats_to_cooldown == 0) {
      tvmrt__sleep(1e-3 * (double)e->cooldown_interval_ms);
    }
  }
  return 0;
}

/* (the arguments of the timed function) -> bytes: a double for each repeat, the mean seconds of one
 * call. */
TVMRT_NATIVE(evaluate) {
  const evaluator* e = resource_handle;
  tvmrt_buf results = {NULL, 0, 0};
  TVMRT_ARGS("time_evaluator");
  return tvmrt__ret_buf(evaluate_all(e, &in, &results), kTVMBytes, &results, out, out_code);
}

/* *out is retained. Without a module the function is a global one. */
static int read_function(const tvmrt_args* in, tvmrt_func** out) {
  const char* name;
  tvmrt_module* mod;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 1, &name));
  if (tvmrt__arg_is_null(in, 0)) {
    TVMRT_RETURN_IF_ERROR(tvmrt__global_get(name, out));
  } else {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, 0, &mod));
    TVMRT_RETURN_IF_ERROR(tvmrt__module_get(mod, name, true, out));
  }
  if (*out != NULL) return 0;
  return tvmrt__fail_value("%s: there is no function '%s' to time.", in->callee, name);
}

/* The argument lists of the releases, between min_repeat_ms (6) and the last one, f_preproc: 8:
 * nothing; 10: cooldown, repeats; 11: limit, cooldown, repeats; 12: the same and flush bytes. */
static int read_options(const tvmrt_args* in, evaluator* e) {
  int at = 7;
  const char* prepare = "";
  e->limit_zero_time_iterations = 100;
  if (in->count != 8 && in->count != 10 && in->count != 11 && in->count != 12) {
    return tvmrt__fail_type("%s takes 8, 10, 11 or 12 arguments, got %d.", in->callee, in->count);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 4, &e->number));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 5, &e->repeat));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 6, &e->min_repeat_ms));
  if (in->count >= 11) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, at++, &e->limit_zero_time_iterations));
  }
  if (in->count >= 10) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, at++, &e->cooldown_interval_ms));
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, at++, &e->repeats_to_cooldown));
  }
  if (in->count == 12) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, at++, &e->cache_flush_bytes));
  if (!tvmrt__arg_is_null(in, at)) TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, at, &prepare));
  if (e->number < 1 || e->repeat < 1) {
    return tvmrt__fail_value("%s: number and repeat must be at least 1.", in->callee);
  }
  if (prepare[0] == '\0') return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(prepare, &e->prepare));
  if (e->prepare != NULL) return 0;
  return tvmrt__fail_value("%s: there is no global function '%s' to call before each repeat.",
                           in->callee, prepare);
}

/* Functions that were found are owned by the evaluator, which releases them also on failure. */
TVMRT_NATIVE(time_evaluator) {
  tvmrt_module* mod = NULL;
  evaluator* e;
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_COUNTED_ARGS(8, 12);
  if (in.codes[0] == kTVMModuleHandle) TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &mod));
  if (mod != NULL && strcmp(mod->type->key, "rpc") == 0) {
    /* remote modules are timed on their machine, by the RPC library */
    return tvmrt__global_call("rpc.TimeEvaluator", args, type_codes, num_args, out, out_code);
  }
  e = tvmrt__calloc(1, sizeof(*e));
  if (e == NULL) return -1;
  rc = read_options(&in, e);
  if (rc == 0) rc = read_function(&in, &e->function);
  if (rc == 0) f = tvmrt__func_new(evaluate, e, free_evaluator);
  if (f == NULL) {
    free_evaluator(e);
    return -1;
  }
  return tvmrt__ret_object(out, out_code, &f->base);
}

#define FUNCTIONS(X) X("runtime.RPCTimeEvaluator", time_evaluator)
const tvmrt_builtins tvmrt__time_builtins = TVMRT_BUILTINS(FUNCTIONS);
