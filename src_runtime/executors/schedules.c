/* Scheduler functions for executors and programs that link this library: each call is forwarded to
 * the library of schedulers, which is loaded by the first one. Most executors need none. */
#include "schedules.h"

#include <stdatomic.h>
#include <string.h>

#include "../core/plugins.h"

static tvmrt_provided provided;

void tvmrt__schedules_provide(const tvmrt_schedule_functions* functions) {
  atomic_store_explicit(&provided, functions, memory_order_release);
}

const tvmrt_schedule_functions* tvmrt__schedules(void) {
  return tvmrt__plugin_provided(&provided, "tvmrt.schedules.", "libtvmrt_schedules");
}

int tvmrt_scheduler_register(const tvmrt_scheduler* scheduler) {
  const tvmrt_schedule_functions* functions = tvmrt__schedules();
  return functions == NULL ? -1 : functions->scheduler_register(scheduler);
}

int tvmrt__schedules_find_method(const char* name, tvmrt_lookup_result* out) {
#define NAME(known, function) known "\0"
  const char* known = TVMRT_SCHEDULE_METHODS(NAME);
  const tvmrt_schedule_functions* functions;
  size_t i = 0;
  for (; *known != '\0' && strcmp(known, name) != 0; ++i) known = tvmrt__next_name(known);
  if (*known == '\0') return 0;
  functions = tvmrt__schedules();
  if (functions == NULL) return -1;
  out->fn = functions->methods[i];
  out->kind = TVMRT_FUNC_NATIVE;
  return 0;
}
