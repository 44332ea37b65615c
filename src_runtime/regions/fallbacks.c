/* Regions that the CPU computed instead of their device: one warning, counts, and queries. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/json.h"
#include "../core/function.h"
#include "../modules/module.h"
#include "loaded_region.h"

/* The first reason is kept; if memory is exhausted, only the count is. The CPU's code packs weights
 * in its first run; when the second begins, the library's weights can be dropped from memory. */
void tvmrt__record_fallback(tvmrt_loaded_region* self) {
  tvmrt_fallbacks* f = &self->fallbacks;
  const char* reason = TVMGetLastError();
  bool is_first, is_packed;
  tvmrt__lock(&self->lock);
  is_packed = ++f->runs == 2;
  if (f->reason == NULL) f->reason = tvmrt__strdup(reason);
  tvmrt__unlock(&self->lock);
  /* The flag belongs to the library, while each of its regions has its own lock. */
  is_first = !atomic_exchange_explicit(self->has_warned, true, memory_order_relaxed);
  if (is_packed && self->constants != NULL) tvmrt__constants_release_pages(self->constants);
  /* Without the lock: writing to a terminal may block, and other runs need the lock. */
  if (!is_first) return;
  (void)fprintf(stderr, "tvmrt: warning: the CPU computes region '%s' in place of its device: %s\n",
                self->first.region.symbol, reason);
}

/* With the region's lock: runs on other threads may be counted meanwhile. */
static int write_region(const tvmrt_loaded_region* region, const char* device, tvmrt_buf* text) {
  /* The region is not changed, but its lock is. */
  tvmrt_loaded_region* self = (tvmrt_loaded_region*)(uintptr_t)region;
  int rc = tvmrt__buf_puts(text, text->size > 1 ? ", {\"region\": " : "{\"region\": ");
  if (rc == 0) rc = tvmrt__json_write_string(text, region->first.region.symbol);
  if (rc == 0) rc = tvmrt__buf_puts(text, ", \"device\": ");
  if (rc == 0) rc = tvmrt__json_write_string(text, device);
  tvmrt__lock(&self->lock);
  if (rc == 0) {
    const char* reason = self->fallbacks.reason != NULL ? self->fallbacks.reason : self->failure;
    rc = tvmrt__buf_printf(text, ", \"runs\": %" PRIu64 ", \"reason\": ", self->fallbacks.runs);
    if (rc == 0) rc = tvmrt__json_write_string(text, reason == NULL ? "" : reason);
  }
  tvmrt__unlock(&self->lock);
  return rc == 0 ? tvmrt__buf_puts(text, "}") : rc;
}

/* Elements of a JSON list; `text` begins with its bracket, which determines whether a comma is
 * needed. */
int tvmrt__write_fallbacks(const tvmrt_loaded_region* regions, size_t count, const char* device,
                           tvmrt_buf* text) {
  size_t i;
  for (i = 0; i < count; ++i) {
    if (!regions[i].falls_back) continue;
    TVMRT_RETURN_IF_ERROR(write_region(&regions[i], device, text));
  }
  return 0;
}
