/* The ahead-of-time executor: running an instance, which is one call of the main function. */
#include "aot.h"

/* Generated code returns no value, so its result is not checked; a main function of a plug-in's
 * module or a front end may return one. */
static int call_main(tvmrt_aot_executor* e) {
  const tvmrt_func* f = e->main_function;
  TVMValue ret;
  int code = kTVMNullptr;
  if (f->kind == TVMRT_FUNC_LIBRARY) {
    return f->fn(e->args, e->codes, e->num_args, &ret, &code, f->resource);
  }
  return tvmrt__func_call(e->main_function, e->args, e->codes, e->num_args);
}

/* Outputs have their maximum extents before a run, which may reduce them. */
static int prepare_outputs(tvmrt_executor* e) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_renew_outputs(e));
  for (i = 0; i < e->outputs.count; ++i) {
    tvmrt__port_resize(&e->outputs.items[i], e->outputs.items[i].capacity);
  }
  return 0;
}

/* The caller has taken the executor. */
int tvmrt__aot_run(tvmrt_executor* base) {
  tvmrt_aot_executor* e = (tvmrt_aot_executor*)base;
  tvmrt_reserve* outer;
  int rc;
  tvmrt__forget_error(); /* of an earlier call */
  rc = e->memory == NULL ? prepare_outputs(base) : tvmrt__aot_plan_run(e);
  outer = tvmrt__reserve_begin(&base->reserve);
  if (rc == 0) rc = call_main(e);
  tvmrt__reserve_end(outer);
  /* Code of other compilers may return an error code without a text; supply one. */
  if (rc != 0 && TVMGetLastError()[0] == '\0') {
    tvmrt__set_error("network '%.80s' failed without an error text.", e->metadata->mod_name);
  }
  return rc;
}
