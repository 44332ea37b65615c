/* The CPU as a device: always available, found by its name, and chosen by schedulers if a library
 * has fallback code for a region. That code is the library's; no region is loaded here. */
#include "registry.h"

static const char name[] = "cpu";

/* No library is compiled for the CPU as a device, so such a region is an error of its creator. */
static int refuse(tvmrt_device* device, const tvmrt_region* region) {
  (void)device;
  return tvmrt__fail_value(
      "region '%.100s' has no CPU code; compile the network with device_fallback to add it.",
      region->symbol);
}

static int run(tvmrt_device* device, tvmrt_region* region) { return refuse(device, region); }

/* Registered like any other device, so that schedulers and tools need no special case. */
int tvmrt__enter_cpu(void) {
  static const tvmrt_device_interface interface = {.run = run};
  static const tvmrt_device_allocator allocator = {.evaluation = refuse};
  static const tvmrt_device device = {.struct_bytes = sizeof(device),
                                      .name = name,
                                      .interface = &interface,
                                      .allocator = &allocator};
  return tvmrt__device_register(&device);
}

bool tvmrt__is_cpu(const tvmrt_device* device) { return strcmp(device->name, name) == 0; }
