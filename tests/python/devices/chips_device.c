/* Device of neg in float32 for the chips a1 and b2, compiled ahead: the bytes for a chip are its name
 * and the factor. CHIP in the environment is the chip of this machine, CHIPS_LOG a file with a line
 * for each pre_run; FAILS makes prepare fail for b2. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(chips)

typedef struct blob {
  char chip[4];
  float factor;
} blob;

static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"neg", NULL};
  static const char* const chips[] = {"a1", "b2", NULL};
  (void)device;
  out->ops = ops;
  if (out->struct_bytes >= sizeof(*out)) out->chips = chips;
  return 0;
}

static int prepare(tvmrt_device* device, const tvmrt_region* region, const char* chip,
                   int (*write)(void* sink, const void* data, size_t num_bytes), void* sink) {
  blob made = {"", -1.0f};
  (void)device;
  (void)region;
  if (getenv("FAILS") != NULL && strcmp(chip, "b2") == 0) {
    TVMPackedFuncSetLastError("b2 has no compiler");
    return -1;
  }
  strcpy(made.chip, chip);
  if (write(sink, made.chip, sizeof(made.chip)) != 0) return -1;
  return write(sink, &made.factor, sizeof(made.factor));
}

static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const char* chip = getenv("CHIP");
  FILE* file = fopen(getenv("CHIPS_LOG"), "a");
  uint64_t bytes;
  const blob* found = tvmrt_region_blob(region, chip, &bytes);
  static const blob made_now = {"now", -1.0f};
  (void)device;
  (void)options;
  region->device_graph = (void*)(uintptr_t)(found == NULL ? &made_now : found);
  if (file != NULL) (void)fprintf(file, "%s %d\n", found == NULL ? "now" : found->chip, (int)bytes);
  return file == NULL || fclose(file) != 0 ? -1 : 0;
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  const tvmrt_region_node* node = &region->nodes[0];
  const float* x = tvmrt_region_data(region, node->inputs[0]);
  float* y = tvmrt_region_data(region, node->outputs[0]);
  const int64_t size = tvmrt_region_size(region, node->outputs[0]);
  (void)device;
  for (int64_t i = 0; i < size; ++i) y[i] = ((const blob*)region->device_graph)->factor * x[i];
  return 0;
}

static int events(tvmrt_device* device, const tvmrt_region* region,
                  int (*add)(void* sink, const char* name, double start, double end), void* sink) {
  (void)device;
  (void)region;
  if (getenv("BACKWARDS") != NULL) return add(sink, "multiply", 2e-6, 1e-6);
  if (add(sink, "load", 0, 1e-6) != 0) return -1;
  return add(sink, "multiply", 1e-6, 4e-6);
}

static const tvmrt_device_interface slots = {.pre_run = pre_run, .run = run, .events = events};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device_optimizer optimizer = {.prepare = prepare};
static const tvmrt_device device = {.struct_bytes = sizeof(device),
                                    .name = "chips",
                                    .interface = &slots,
                                    .interface_bytes = sizeof(slots),
                                    .allocator = &allocator,
                                    .optimizer = &optimizer,
                                    .optimizer_bytes = sizeof(optimizer)};
int register_chips_device(void) { return tvmrt_device_register(&device); }
int unregister_chips_device(void) { return tvmrt_device_unregister("chips"); }
