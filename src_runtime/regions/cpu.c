/* The CPU as a device: always available, found by its name, and chosen by schedulers if a library
 * has fallback code for a region. That code is the library's; no region is loaded here. */
#include "registry.h"

/* No library is compiled for the CPU as a device, so such a region is an error of its creator. */
static int refuse(tvmrt_device* device, const tvmrt_region* region) {
  (void)device;
  return tvmrt__fail_value(
      "region '%.100s' has no CPU code; compile the network with device_fallback to add it.",
      region->symbol);
}

static int run(tvmrt_device* device, tvmrt_region* region) { return refuse(device, region); }

static const tvmrt_device_interface interface = {.run = run};
static const tvmrt_device_allocator allocator = {.evaluation = refuse};
const tvmrt_device tvmrt__cpu_device = {.struct_bytes = sizeof(tvmrt_device),
                                        .name = "cpu",
                                        .interface = &interface,
                                        .allocator = &allocator};

bool tvmrt__is_cpu(const tvmrt_device* device) {
  return strcmp(device->name, tvmrt__cpu_device.name) == 0;
}
