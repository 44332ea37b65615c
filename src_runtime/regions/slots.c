/* Calling a device's slots: defaults for those that are NULL, and sentences for those that fail. */
#include "registry.h"

/* Always -1. The device's own words stand last, with what the runtime knows in front. */
int tvmrt__slot_failed(const tvmrt_device* device, const char* slot, const tvmrt_region* region) {
  const char* reason = TVMGetLastError();
  if (reason[0] == '\0') reason = "it gave no reason.";
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

/* *out is all zeros where the device describes nothing: it can then run nothing by default.
 * struct_bytes tells a device that was built with an older header how much it may fill. */
int tvmrt__device_describe(tvmrt_device* device, tvmrt_device_description* out) {
  memset(out, 0, sizeof(*out));
  out->struct_bytes = sizeof(*out);
  if (device->allocator == NULL || device->allocator->describe == NULL) return 0;
  tvmrt__forget_error();
  if (device->allocator->describe(device, out) == 0) return 0;
  return tvmrt__slot_failed(device, "describe", NULL);
}

/* A device without the slot takes whatever it describes. */
int tvmrt__device_evaluate(tvmrt_device* device, const tvmrt_region* region) {
  if (device->allocator == NULL || device->allocator->evaluation == NULL) return 0;
  tvmrt__forget_error();
  if (device->allocator->evaluation(device, region) == 0) return 0;
  return tvmrt__slot_failed(device, "evaluation", region);
}
