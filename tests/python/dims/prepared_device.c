/* Device of fixed shapes: pre_run allocates the tensor between its nodes, neg and relu, for exactly
 * the region's shapes, and run uses only these. Its evaluation refuses 5 rows, and more rows than the
 * environment variable PREPARED_MOST if the region has a node of the operator PREPARED_OP. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(prepared)

static char journal[4096];

/* Calls with the number of rows: "e8 p8 r8 q8 ..." for evaluation, pre_run, run, post_run. */
TVM_DLL const char* journal_of_slots(void);
const char* journal_of_slots(void) { return journal; }

static int note(char slot, const tvmrt_region* region) {
  const size_t used = strlen(journal);
  (void)snprintf(journal + used, sizeof(journal) - used, "%c%d ", slot,
                 (int)region->tensors[region->inputs[0]].shape[0]);
  return 0;
}

static int refuse(const char* reason) {
  TVMPackedFuncSetLastError(reason);
  return -1;
}

static int evaluation(tvmrt_device* self, const tvmrt_region* region) {
  const int64_t rows = region->tensors[region->inputs[0]].shape[0];
  const char* most = getenv("PREPARED_MOST");
  const char* op = getenv("PREPARED_OP");
  (void)self;
  (void)note('e', region);
  if (most == NULL) return rows == 5 ? refuse("5 rows cannot be done") : 0;
  if (rows <= atoi(most)) return 0;
  if (op == NULL) return refuse("there are too many rows");
  for (int32_t k = 0; k < region->num_nodes; ++k) {
    if (strcmp(region->nodes[k].op, op) != 0) continue;
    ((tvmrt_region*)region)->failed_node = k;
    return refuse("there are too many rows for it");
  }
  return 0;
}

static int pre_run(tvmrt_device* self, tvmrt_region* region, const char* options) {
  size_t bytes = 0;
  (void)self;
  (void)options;
  for (int32_t t = 0; t < region->num_tensors; ++t) bytes += region->tensors[t].num_bytes;
  free(region->device_graph);
  region->device_graph = malloc(bytes + 1);
  return note('p', region) != 0 || region->device_graph == NULL ? -1 : 0;
}

static float* data(const tvmrt_region* region, int32_t tensor) {
  float* border = tvmrt_region_data(region, tensor);
  size_t offset = 0;
  for (int32_t t = 0; t < tensor; ++t) offset += region->tensors[t].num_bytes;
  return border != NULL ? border : (float*)(void*)((char*)region->device_graph + offset);
}

static int run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  for (int32_t k = 0; k < region->num_nodes; ++k) {
    const tvmrt_region_node* node = &region->nodes[k];
    const float* x = data(region, node->inputs[0]);
    float* y = data(region, node->outputs[0]);
    const int is_relu = strcmp(node->op, "relu") == 0;
    const int64_t size = tvmrt_region_size(region, node->outputs[0]);
    for (int64_t i = 0; i < size; ++i) y[i] = is_relu ? (x[i] > 0 ? x[i] : 0) : -x[i];
  }
  return note('r', region);
}

static int post_run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  return note('q', region);
}

static int release_graph(tvmrt_device* self, void* device_graph) {
  (void)self;
  free(device_graph);
  return 0;
}

static int describe(tvmrt_device* self, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", "neg", NULL};
  (void)self;
  out->ops = ops;
  return 0;
}

static const tvmrt_device_interface slots = {
    .pre_run = pre_run, .run = run, .post_run = post_run, .release_graph = release_graph};
static const tvmrt_device_allocator questions = {.describe = describe, .evaluation = evaluation};
static const tvmrt_device device = {
    .struct_bytes = sizeof(tvmrt_device),
    .name = "prepared",
    .interface = &slots,
    .allocator = &questions,
};

int register_prepared_device(void) { return tvmrt_device_register(&device); }
int unregister_prepared_device(void) { return tvmrt_device_unregister("prepared"); }
