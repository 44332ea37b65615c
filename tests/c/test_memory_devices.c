/* Memory of devices other than the CPU: tensors, streams and workspaces of a test device. */
#include <pthread.h>
#include <tvm/runtime/c_backend_api.h>

#include "../../src_runtime/tensors/memory_device.h"
#include "support.h"

enum { ID = 3, MAX_CALLS = 16 };

/* The device: host memory, and a record of its calls. */
static char calls[MAX_CALLS * 16];

static void note(const char* what, int64_t number) {
  const size_t used = strlen(calls);
  (void)snprintf(calls + used, sizeof(calls) - used, "%s %d, ", what, (int)number);
}

static size_t room; /* the largest block that the device has */

static int device_exists(int device_id) { return device_id == ID; }

static int device_alloc(DLDevice dev, size_t bytes, size_t align, void** out) {
  if (bytes > room) {
    TVMPackedFuncSetLastError("MemoryError: the device is full.");
    return -1;
  }
  note("alloc", dev.device_id);
  *out = aligned_alloc(align, (bytes + align - 1) / align * align);
  return *out == NULL ? -1 : 0;
}

static int device_free(DLDevice dev, void* ptr) {
  note("free", dev.device_id);
  free(ptr);
  return 0;
}

static int device_copy(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
                       TVMStreamHandle stream) {
  assert_null(stream);
  note(from_dev.device_type == kDLHexagon ? "from" : "onto", (int64_t)bytes);
  assert_true(from_dev.device_type == kDLHexagon || to_dev.device_type == kDLHexagon);
  memcpy(to, from, bytes);
  return 0;
}

static int streams[2];

static int stream_create(DLDevice dev, TVMStreamHandle* out) {
  note("create", dev.device_id);
  *out = &streams[1];
  return 0;
}

static int stream_free(DLDevice dev, TVMStreamHandle stream) {
  note("end", dev.device_id);
  assert_ptr_equal(stream, &streams[1]);
  return 0;
}

static int stream_sync(DLDevice dev, TVMStreamHandle stream) {
  note("sync", dev.device_id);
  assert_ptr_equal(stream, &streams[1]);
  return 0;
}

static int stream_wait(DLDevice dev, TVMStreamHandle src, TVMStreamHandle dst) {
  note("wait", dev.device_id);
  assert_ptr_equal(src, &streams[0]);
  assert_ptr_equal(dst, &streams[1]);
  return 0;
}

static const tvmrt_memory_device with_streams = {
    sizeof(with_streams), "hexagon",     device_exists, device_alloc, device_free,
    device_copy,          stream_create, stream_free,   stream_sync,  stream_wait};
static const tvmrt_memory_device without_streams = {.struct_bytes = sizeof(without_streams),
                                                    .name = "hexagon",
                                                    .exists = device_exists,
                                                    .alloc = device_alloc,
                                                    .free = device_free,
                                                    .copy = device_copy};
static const tvmrt_memory_device of_another_size = {.struct_bytes = sizeof(of_another_size) + 8};

static int give_device(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  TVMValue value = {.v_handle = resource};
  int code = kTVMOpaqueHandle;
  (void)args, (void)codes, (void)num_args;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static void register_function(const char* name, TVMPackedCFunc f, const void* resource) {
  TVMFunctionHandle handle;
  assert_ok(TVMFuncCreateFromCFunc(f, (void*)(uintptr_t)resource, NULL, &handle));
  assert_ok(TVMFuncRegisterGlobal(name, handle, 0));
  assert_ok(TVMFuncFree(handle));
}

static int enter(void** state) {
  calls[0] = '\0';
  room = 1 << 20;
  register_function("device_api.hexagon", give_device, *state);
  return 0;
}

static int leave(void** state) {
  (void)state;
  return TVMFuncRemoveGlobal("device_api.hexagon");
}

static const int64_t shape[] = {2, 2};
static const float values[] = {1, 2, 3, 4};

static DLTensor* make_on_device(void) {
  DLTensor* t = NULL;
  assert_ok(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLHexagon, ID, &t));
  return t;
}

static void test_tensors_round_trip(void** state) {
  DLTensor* there = make_on_device();
  DLTensor* here = make_tensor(2, shape, values);
  float back[4];
  (void)state;
  assert_ok(TVMArrayCopyFromTo(here, there, NULL));
  assert_ok(TVMArrayCopyToBytes(there, back, sizeof(back)));
  assert_memory_equal(back, values, sizeof(back));
  TVMArrayFree(here);
  TVMArrayFree(there);
  assert_string_equal(calls, "alloc 3, onto 16, from 16, free 3, ");
}

static void test_strides_are_supported_on_cpu_only(void** state) {
  const int64_t strides[] = {1, 2};
  const float turned[] = {1, 3, 2, 4};
  DLTensor* there = make_on_device();
  DLTensor* here = make_tensor(2, shape, values);
  DLTensor* result = make_tensor(2, shape, NULL);
  DLTensor from = *here;
  (void)state;
  from.strides = (int64_t*)(uintptr_t)strides;
  assert_fails(TVMArrayCopyFromTo(&from, there, NULL),
               "a tensor with strides can be copied only on the CPU.");
  assert_ok(TVMArrayCopyFromTo(&from, result, NULL));
  assert_floats(result, 4, turned);
  TVMArrayFree(result);
  TVMArrayFree(here);
  TVMArrayFree(there);
}

static int use_streams(TVMStreamHandle* out) {
  return TVMStreamCreate(kDLHexagon, ID, out) != 0 || TVMSynchronize(kDLHexagon, ID, *out) != 0 ||
         TVMStreamStreamSynchronize(kDLHexagon, ID, &streams[0], *out) != 0 ||
         TVMStreamFree(kDLHexagon, ID, *out) != 0;
}

static void test_streams_belong_to_the_device(void** state) {
  TVMStreamHandle stream = NULL;
  (void)state;
  assert_ok(use_streams(&stream));
  assert_ptr_equal(stream, &streams[1]);
  assert_string_equal(calls, "create 3, sync 3, wait 3, end 3, ");
}

static void test_null_is_the_default_stream(void** state) {
  call none = {0};
  (void)state;
  assert_ok(TVMSetStream(kDLHexagon, ID, &streams[1]));
  assert_ptr_equal(tvmrt_current_stream(kDLHexagon, ID), &streams[1]);
  arg_int(&none, kDLHexagon);
  arg_int(&none, ID);
  arg_handle(&none, kTVMNullptr, &streams[0]);
  assert_ok(call_global(&none, "runtime.TVMSetStream"));
  assert_null(tvmrt_current_stream(kDLHexagon, ID));
}

static void test_device_without_streams_has_default_stream(void** state) {
  TVMStreamHandle stream = &streams[0];
  (void)state;
  assert_ok(use_streams(&stream));
  assert_null(stream);
  assert_string_equal(calls, "");
}

/* Its results, since assertions belong to the test's own thread. */
typedef struct workspaces {
  void* blocks[4];
  char full[64];
} workspaces;

static void* use_workspaces(void* result) {
  static const uint64_t kBytes[] = {100, 5000, 4000};
  workspaces* w = result;
  for (int i = 0; i < 3; ++i) {
    w->blocks[i] = TVMBackendAllocWorkspace(kDLHexagon, ID, kBytes[i], kDLFloat, 32);
    (void)TVMBackendFreeWorkspace(kDLHexagon, ID, w->blocks[i]);
  }
  w->blocks[3] = TVMBackendAllocWorkspace(kDLHexagon, ID, room + 1, kDLFloat, 32);
  (void)snprintf(w->full, sizeof(w->full), "%s", TVMGetLastError());
  return NULL;
}

/* A block that is too small for a request is freed, the larger one serves small requests, and
   the end of the thread frees it. */
static void test_workspaces_grow_and_are_reused(void** state) {
  workspaces w;
  pthread_t thread;
  (void)state;
  assert_int_equal(pthread_create(&thread, NULL, use_workspaces, &w), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_non_null(w.blocks[0]);
  assert_non_null(w.blocks[1]);
  assert_ptr_equal(w.blocks[2], w.blocks[1]);
  assert_null(w.blocks[3]);
  assert_non_null(strstr(w.full, "the device is full."));
  assert_string_equal(calls, "alloc 3, free 3, alloc 3, free 3, ");
}

static int run_nothing(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  (void)args, (void)codes, (void)num_args, (void)ret, (void)resource;
  return 0;
}

/* A device that computes regions in CPU memory. */
static void test_device_without_memory_has_no_tensors(void** state) {
  DLTensor* t = NULL;
  (void)state;
  register_function("device.hexagon.run", run_nothing, NULL);
  assert_fails(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLHexagon, ID, &t),
               "this runtime has no device of type hexagon (16); it has: cpu (1).");
  assert_null(t);
  assert_ok(TVMFuncRemoveGlobal("device.hexagon.run"));
}

/* A device compiled for another runtime is not called. */
static void test_device_of_another_size_is_refused(void** state) {
  DLTensor* t = NULL;
  (void)state;
  assert_fails(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLHexagon, ID, &t),
               "device_api.hexagon: struct_bytes is not");
  assert_null(t);
}

int main(void) {
#define WITH(device, test) \
  { #test, test, enter, leave, (void*)(uintptr_t) & (device) }
  const struct CMUnitTest tests[] = {
      WITH(with_streams, test_tensors_round_trip),
      WITH(with_streams, test_strides_are_supported_on_cpu_only),
      WITH(with_streams, test_streams_belong_to_the_device),
      WITH(with_streams, test_null_is_the_default_stream),
      WITH(without_streams, test_device_without_streams_has_default_stream),
      WITH(with_streams, test_workspaces_grow_and_are_reused),
      WITH(of_another_size, test_device_of_another_size_is_refused),
      cmocka_unit_test(test_device_without_memory_has_no_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
