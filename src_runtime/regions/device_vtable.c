/* Calling a device's slots: defaults for NULL slots, and error texts for failing ones. */
#include "loaded_region.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* Always -1. The runtime's context precedes the device's own error text. */
int tvmrt__slot_failed(const tvmrt_device* device, const char* slot, const tvmrt_region* region) {
  const char* reason = TVMGetLastError();
  if (reason[0] == '\0') reason = "it returned no error text.";
  if (region == NULL) {
    return tvmrt__fail("device '%s': %s failed: %s", device->name, slot, reason);
  }
  if (region->failed_node >= 0 && region->failed_node < region->num_nodes) {
    const tvmrt_region_node* n = &region->nodes[region->failed_node];
    return tvmrt__fail("device '%s': %s of region '%.100s' failed at node '%.80s' (%.20s): %s",
                       device->name, slot, region->symbol, n->name, n->op, reason);
  }
  return tvmrt__fail("device '%s': %s of region '%.100s' failed: %s", device->name, slot,
                     region->symbol, reason);
}

/* *out is zeroed if the device describes nothing: by default it then runs nothing. struct_bytes
 * limits the fields that a device built with an older header may fill. */
int tvmrt__device_describe(tvmrt_device* device, tvmrt_device_description* out) {
  memset(out, 0, sizeof(*out));
  out->struct_bytes = sizeof(*out);
  if (device->allocator == NULL || device->allocator->describe == NULL) return 0;
  tvmrt__forget_error();
  if (device->allocator->describe(device, out) == 0) return 0;
  return tvmrt__slot_failed(device, "describe", NULL);
}

/* A device without the slot accepts everything it describes. */
int tvmrt__device_evaluate(tvmrt_device* device, const tvmrt_region* region) {
  if (device->allocator == NULL || device->allocator->evaluation == NULL) return 0;
  tvmrt__forget_error();
  if (device->allocator->evaluation(device, region) == 0) return 0;
  return tvmrt__slot_failed(device, "evaluation", region);
}

/* Puts device, region and node before a slot's error text. Always -1. */
int tvmrt__context_failed(const loaded* self, const context* c, const char* slot) {
  return tvmrt__slot_failed(self->device, slot, &c->region);
}

/* NULL slots are no-ops. */
int tvmrt__context_call(const loaded* self, context* c, const char* name,
                        int (*slot)(tvmrt_device*, tvmrt_region*)) {
  if (slot == NULL) return 0;
  /* clear an earlier error text */
  tvmrt__forget_error();
  c->region.failed_node = -1;
  return slot(self->device, &c->region) == 0 ? 0 : tvmrt__context_failed(self, c, name);
}

/* The slot's result is ignored: the graph counts as released. */
static void release_graph(const loaded* self, context* c) {
  int (*release)(tvmrt_device*, void*) = self->device->interface->release_graph;
  if (c->region.device_graph != NULL && release != NULL) {
    (void)release(self->device, c->region.device_graph);
  }
  c->region.device_graph = NULL;
}

/* Called again after each change of shapes, and after a run that timed out. */
int tvmrt__context_pre_run(const loaded* self, context* c) {
  const tvmrt_device_interface* slots = self->device->interface;
  int rc = 0;
  if (slots->pre_run != NULL) {
    tvmrt__forget_error();
    c->region.failed_node = -1;
    rc = slots->pre_run(self->device, &c->region, self->options);
    if (rc != 0) {
      rc = tvmrt__context_failed(self, c, "pre_run");
      release_graph(self, c); /* it may have been partly created */
    }
  }
  /* The device has its own copy by now. If it failed, and the CPU computes instead, pages are
   * loaded again on access. */
  if (self->device->abilities & TVMRT_DEVICE_KEEPS_WEIGHTS) {
    tvmrt__constants_release_pages(self->constants);
  }
  c->is_prepared = rc == 0;
  return rc;
}

/* Once for each pre_run, even if it fails. */
int tvmrt__context_post_run(const loaded* self, context* c) {
  if (!c->is_prepared) return 0;
  c->is_prepared = false;
  return tvmrt__context_call(self, c, "post_run", self->device->interface->post_run);
}

/* On failure, tvmrt__context_release() frees what was acquired so far. */
int tvmrt__context_allocate(const loaded* self, context* c) {
  const tvmrt_device_allocator* allocator = self->device->allocator;
  if (allocator != NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__context_call(self, c, "allocate", allocator->allocate));
  }
  c->is_allocated = true;
  return tvmrt__context_pre_run(self, c);
}

/* In reverse order of tvmrt__context_allocate(): a run uses the graph, and the graph the
 * allocation. Results are ignored, and the thread's error text is kept, which may explain the
 * release. */
void tvmrt__context_release(const loaded* self, context* c) {
  const tvmrt_device_interface* slots = self->device->interface;
  const tvmrt_device_allocator* allocator = self->device->allocator;
  if (c->is_prepared && slots->post_run != NULL) (void)slots->post_run(self->device, &c->region);
  c->is_prepared = false;
  release_graph(self, c);
  if (c->is_allocated && allocator != NULL && allocator->release != NULL) {
    if (c == &self->first) tvmrt__sizes_reset(&self->sizes, &c->region);
    (void)allocator->release(self->device, &c->region);
  }
  c->is_allocated = false;
}
