/* Device of relu, neg and abs in float32 with private memory: its addresses are pages without access,
 * and the elements are stored elsewhere. Each operator is a region. FAR_LOG names a file that gets a
 * line per run: the operator, and the memory of its operand and result, "host" or "far". FAR_FULL in
 * the environment: no memory is left. With the macro IDLE runs do nothing, to measure the overhead of
 * a region. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>
#include <tvm/runtime/memory_device.h>

#ifndef TYPE
#define TYPE kDLExtDev
#define TYPE_NAME "ext_dev"
#endif
#ifndef ALIGN
#define ALIGN 256
#endif

TVMRT_DEVICE_PLUGIN(far)

typedef struct block {
  char* address;
  char* elements;
  size_t bytes;
  struct block* next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block* blocks;

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}

static int exists(int number) { return number == 0; }

static int far_alloc(DLDevice dev, size_t bytes, size_t align, void** out) {
  block* b = calloc(1, sizeof(*b));
  (void)dev, (void)align;
  if (getenv("FAR_FULL") != NULL || b == NULL) {
    free(b);
    return fail("the memory of far is full");
  }
  b->bytes = bytes + 1;
  b->elements = malloc(b->bytes);
  b->address = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b->elements == NULL || b->address == MAP_FAILED) abort();
  (void)pthread_mutex_lock(&lock);
  b->next = blocks;
  blocks = b;
  (void)pthread_mutex_unlock(&lock);
  *out = b->address;
  return 0;
}

static int far_free(DLDevice dev, void* address) {
  block** at = &blocks;
  block* b;
  (void)dev;
  (void)pthread_mutex_lock(&lock);
  while (*at != NULL && (*at)->address != address) at = &(*at)->next;
  b = *at;
  if (b != NULL) *at = b->next;
  (void)pthread_mutex_unlock(&lock);
  if (b == NULL) return fail("the address is none of far's");
  (void)munmap(b->address, b->bytes);
  free(b->elements);
  free(b);
  return 0;
}

static char* reach(DLDevice dev, const void* address) {
  const block* b;
  if (dev.device_type != TYPE) return (char*)(size_t)address;
  (void)pthread_mutex_lock(&lock);
  b = blocks;
  while (b != NULL &&
         ((const char*)address < b->address || (const char*)address >= b->address + b->bytes)) {
    b = b->next;
  }
  (void)pthread_mutex_unlock(&lock);
  return b == NULL ? NULL : b->elements + ((const char*)address - b->address);
}

static int far_copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                    TVMStreamHandle stream) {
  const char* source = reach(from_dev, from);
  char* target = reach(to_dev, to);
  (void)stream;
  if (source == NULL || target == NULL) return fail("an address of the copy is none of far's");
  memmove(target, source, bytes);
  return 0;
}

static const tvmrt_memory_device api = {.struct_bytes = sizeof(tvmrt_memory_device),
                                        .name = TYPE_NAME,
                                        .exists = exists,
                                        .alloc = far_alloc,
                                        .free = far_free,
                                        .copy = far_copy};

static int give_api(TVMValue* args, int* codes, int count, TVMRetValueHandle ret, void* resource) {
  TVMValue value;
  int code = kTVMOpaqueHandle;
  (void)args, (void)codes, (void)count, (void)resource;
  value.v_handle = (void*)(size_t)&api;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int init(tvmrt_device* device) {
  TVMFunctionHandle function = NULL;
  int rc;
  (void)device;
  if (TVMFuncCreateFromCFunc(give_api, NULL, NULL, &function) != 0) return -1;
  rc = TVMFuncRegisterGlobal("device_api." TYPE_NAME, function, 1);
  (void)TVMFuncFree(function);
  return rc;
}

static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", "neg", "abs", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

static int split_graph(tvmrt_device* device, const tvmrt_region* graph, int32_t* groups) {
  int32_t i;
  int rc = tvmrt_split_graph_by_describe(device, graph, groups);
  for (i = 0; i < graph->num_nodes; ++i) {
    if (groups[i] >= 0) groups[i] = i;
  }
  return rc;
}

#ifndef IDLE
static void note(const char* op, const DLTensor* x, const DLTensor* y) {
  const char* path = getenv("FAR_LOG");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  (void)fprintf(file, "%s %s %s\n", op, x->device.device_type == TYPE ? "far" : "host",
                y->device.device_type == TYPE ? "far" : "host");
  (void)fclose(file);
}

static const float* data_of(const DLTensor* t) {
  const char* address = (const char*)t->data + t->byte_offset;
  if (t->device.device_type == TYPE && (size_t)address % ALIGN != 0) return NULL;
  return (const float*)(const void*)reach(t->device, address);
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  const tvmrt_region_node* node = &region->nodes[0];
  const DLTensor* x = region->data[node->inputs[0]];
  const DLTensor* y = region->data[node->outputs[0]];
  const int64_t size = tvmrt_region_size(region, node->outputs[0]);
  const float* from = data_of(x);
  float* to = (float*)(size_t)data_of(y);
  int64_t i;
  (void)device;
  note(node->op, x, y);
  if (from == NULL || to == NULL) return fail("a tensor is not where it is said to be");
  for (i = 0; i < size; ++i) {
    to[i] = node->op[0] == 'r' ? fmaxf(from[i], 0) : node->op[0] == 'n' ? -from[i] : fabsf(from[i]);
  }
  return 0;
}
#else
static int run(tvmrt_device* device, tvmrt_region* region) {
  (void)device, (void)region;
  return 0;
}
#endif

static const tvmrt_device_interface interface = {.init = init, .run = run};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device_optimizer optimizer = {.split_graph = split_graph};
static const tvmrt_device_memory memory = {
    .struct_bytes = sizeof(memory), .device = {TYPE, 0}, .align_bytes = ALIGN};
static const tvmrt_device device = {.struct_bytes = sizeof(device),
                                    .name = "far",
                                    .interface = &interface,
                                    .allocator = &allocator,
                                    .optimizer = &optimizer,
                                    .memory = &memory};
int register_far_device(void) { return tvmrt_device_register(&device); }
int unregister_far_device(void) { return tvmrt_device_unregister("far"); }
