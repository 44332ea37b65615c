/* The system refuses: a file cannot be opened, is written short, cannot be closed or renamed, a disk is
 * full, no thread is to be had. Each such call fails, once and for ever: a sentence each time, files
 * that are to be replaced stay what they were, results stay right, and the next attempt works.
 *
 * The runtime is linked statically, with its calls of the system going through those below. */
#include <glob.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/device.h>
#include <tvm/runtime/module_plugin.h>

#include "fault_injection.h"

/* ---- calls that fail ---- */

static const FILE* unreadable; /* the file whose reading failed */

FILE* __real_fopen(const char* path, const char* mode);
FILE* __wrap_fopen(const char* path, const char* mode);
FILE* __wrap_fopen64(const char* path, const char* mode);
size_t __real_fread(void* out, size_t size, size_t count, FILE* file);
size_t __wrap_fread(void* out, size_t size, size_t count, FILE* file);
int __real_ferror(FILE* file);
int __wrap_ferror(FILE* file);
size_t __real_fwrite(const void* data, size_t size, size_t count, FILE* file);
size_t __wrap_fwrite(const void* data, size_t size, size_t count, FILE* file);
int __real_fclose(FILE* file);
int __wrap_fclose(FILE* file);
int __real_rename(const char* from, const char* to);
int __wrap_rename(const char* from, const char* to);
int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open64(const char* path, int flags, ...);
int __real_pthread_setspecific(pthread_key_t key, const void* state);
int __wrap_pthread_setspecific(pthread_key_t key, const void* state);

FILE* __wrap_fopen(const char* path, const char* mode) {
  return fails_now(EACCES) ? NULL : __real_fopen(path, mode);
}

/* The C library's name with large file support. */
FILE* __wrap_fopen64(const char* path, const char* mode) { return __wrap_fopen(path, mode); }

/* Once it has failed, the file remembers. */
size_t __wrap_fread(void* out, size_t size, size_t count, FILE* file) {
  if (!fails_now(EIO)) return __real_fread(out, size, count, file);
  unreadable = file;
  return 0;
}

int __wrap_ferror(FILE* file) { return file == unreadable ? 1 : __real_ferror(file); }

/* A full disk writes the first half. */
size_t __wrap_fwrite(const void* data, size_t size, size_t count, FILE* file) {
  if (!fails_now(ENOSPC)) return __real_fwrite(data, size, count, file);
  (void)__real_fwrite(data, size, count / 2, file);
  errno = ENOSPC;
  return count / 2;
}

/* The file is closed, and buffered data is lost. */
int __wrap_fclose(FILE* file) {
  const int fails = fails_now(0);
  if (file == unreadable) unreadable = NULL;
  (void)__real_fclose(file);
  if (fails) errno = ENOSPC;
  return fails ? EOF : 0;
}

int __wrap_rename(const char* from, const char* to) {
  return fails_now(EIO) ? -1 : __real_rename(from, to);
}

int __wrap_open(const char* path, int flags, ...) {
  return fails_now(EMFILE) ? -1 : __real_open(path, flags);
}

int __wrap_open64(const char* path, int flags, ...) { return __wrap_open(path, flags); }

/* A separate switch: threads of other tests may call this at any moment. */
static _Thread_local int removes_temporary_file;

int __wrap_pthread_setspecific(pthread_key_t key, const void* state) {
  return removes_temporary_file ? ENOMEM : __real_pthread_setspecific(key, state);
}

/* ---- saving ---- */

static const char path[] = "system_errors.out";

static size_t read_back(char* out, size_t room) {
  FILE* file = fopen(path, "rb");
  size_t size;
  assert_non_null(file);
  size = fread(out, 1, room, file);
  assert_int_equal(fclose(file), 0);
  return size;
}

static char saved[4096]; /* what the file holds after a success */
static size_t saved_size;

static void put_old_file(void) {
  FILE* file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite("old", 1, 3, file), 3);
  assert_int_equal(fclose(file), 0);
}

static size_t count_temporaries(void) {
  glob_t found;
  const int rc = glob("system_errors.out?*", 0, NULL, &found);
  const size_t count = rc == GLOB_NOMATCH ? 0 : found.gl_pathc;
  globfree(&found);
  return count;
}

/* The file is complete, old or new; no other file remains. */
static void check_saved(int rc) {
  char now[sizeof(saved)];
  const size_t size = read_back(now, sizeof(now));
  assert_int_equal(count_temporaries(), 0);
  if (rc != 0) {
    assert_int_equal(size, 3);
    assert_memory_equal(now, "old", 3);
  } else {
    assert_int_equal(size, saved_size);
    assert_memory_equal(now, saved, saved_size);
  }
  put_old_file();
}

static TVMValue to_save;

static int save_with(const char* function, int code) {
  call c = {0};
  arg(&c, code, to_save);
  arg_str(&c, path);
  return call_global(&c, function);
}
static int save_params(void) { return save_with("runtime.SaveParamsToFile", kTVMObjectHandle); }
static int save_module(void) { return save_with("runtime.ModuleSaveToFile", kTVMModuleHandle); }

static void sweep_saving(const char* name, scenario save) {
  assert_ok(save());
  saved_size = read_back(saved, sizeof(saved));
  assert_true(saved_size > 3);
  put_old_file();
  sweep(name, save, check_saved);
}

static void test_saving_is_atomic(void** state) {
  static const int64_t shape[] = {2, 3};
  static const float values[6] = {1, 2, 3, 4, 5, 6};
  DLTensor* w = make_tensor(2, shape, values);
  call map = {0}, source = {0};
  (void)state;
  arg_str(&map, "w");
  arg_handle(&map, kTVMNDArrayHandle, w);
  assert_ok(call_global(&map, "runtime.Map"));
  to_save = map.ret;
  sweep_saving("parameters are saved", save_params);
  arg_str(&source, "int f(void) { return 0; }");
  arg_str(&source, "c");
  assert_ok(call_global(&source, "runtime.CSourceModuleCreate"));
  to_save = source.ret;
  sweep_saving("source is saved", save_module);
  assert_ok(TVMModFree(source.ret.v_handle));
  assert_ok(TVMObjectFree(map.ret.v_handle));
  TVMArrayFree(w);
  assert_int_equal(remove(path), 0);
}

/* ---- loading ---- */

static int load_params(void) {
  call c = {0};
  int rc;
  arg_str(&c, path);
  rc = call_global(&c, "runtime.LoadParamsFromFile");
  if (rc == 0) assert_ok(TVMObjectFree(c.ret.v_handle));
  return rc;
}

static void test_loading_reports_system_errors(void** state) {
  const int64_t shape = 2;
  const float values[2] = {1, 2};
  DLTensor* w = make_tensor(1, &shape, values);
  call map = {0};
  (void)state;
  arg_str(&map, "w");
  arg_handle(&map, kTVMNDArrayHandle, w);
  assert_ok(call_global(&map, "runtime.Map"));
  to_save = map.ret;
  assert_ok(save_params());
  sweep("parameters are loaded", load_params, NULL);
  forever = 0;
  allowed = 0; /* the first call opens, the second reads */
  assert_fails(load_params(), "OSError: cannot open 'system_errors.out': Permission denied.");
  allowed = 1;
  assert_fails(load_params(), "OSError: cannot read 'system_errors.out': Input/output error.");
  allowed = -1;
  assert_ok(TVMObjectFree(map.ret.v_handle));
  TVMArrayFree(w);
  assert_int_equal(remove(path), 0);
}

static int run_executor(TVMModuleHandle executor) {
  static const int64_t shape[] = {2, 3};
  DLTensor* x;
  call set = {0}, run = {0};
  int rc = TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &x);
  if (rc != 0) return rc;
  memset(x->data, 0, 24);
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, x);
  rc = call_module(&set, executor, "set_input");
  if (rc == 0) rc = call_module(&run, executor, "run");
  TVMArrayFree(x);
  return rc;
}

/* A library that is loaded twice, and its network. */
static int load_library(void) {
  TVMModuleHandle factory = NULL, again = NULL;
  call create = {0};
  int rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &factory);
  if (rc == 0) rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &again);
  arg_cpu(&create);
  if (rc == 0) rc = call_module(&create, factory, "default");
  (void)TVMModFree(factory);
  (void)TVMModFree(again);
  if (rc != 0) return rc;
  rc = run_executor(create.ret.v_handle);
  (void)TVMModFree(create.ret.v_handle);
  return rc;
}

static int get_nothing(void* self, const char* name, tvmrt_module_function* out) {
  (void)self, (void)name, (void)out;
  return 0;
}

/* A module kind contained in the library of constants. */
static int make_other_module(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                             void* resource) {
  static const tvmrt_module_vtable kind = {
      .struct_bytes = sizeof(kind), .type_key = "fixture_json", .get_function = get_nothing};
  TVMValue value;
  int code = kTVMModuleHandle;
  const char* text;
  size_t size;
  (void)codes, (void)num_args, (void)resource;
  if (tvmrt_stream_read_string(args[0].v_handle, &text, &size) != 0) return -1;
  if (tvmrt_module_create(&kind, NULL, &value.v_handle) != 0) return -1;
  if (TVMCFuncSetReturn(ret, &value, &code, 1) != 0) return -1;
  return TVMModFree(value.v_handle);
}

/* A library of several modules, each with a lock. */
static int load_constants(void) {
  TVMModuleHandle mod = NULL;
  int rc = TVMModLoadFromFile(fixture("FIXTURE_CONST"), "so", &mod);
  if (rc == 0) (void)TVMModFree(mod);
  return rc;
}

static void test_libraries_load_or_report_errors(void** state) {
  static const char loader[] = "runtime.module.loadbinary_fixture_json";
  TVMFunctionHandle f;
  (void)state;
  assert_ok(TVMFuncCreateFromCFunc(make_other_module, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal(loader, f, 0));
  assert_ok(TVMFuncFree(f));
  sweep("a library is loaded", load_library, NULL);
  sweep("constants are loaded", load_constants, NULL);
  assert_ok(TVMFuncRemoveGlobal(loader));
}

/* ---- threads ---- */

static int fill_task(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  int* done = cdata;
  for (int i = task_id; i < 64; i += env->num_task) ++done[i];
  return TVMBackendParallelBarrier(task_id, env);
}

static void launch(int tasks) {
  int done[64] = {0};
  assert_int_equal(TVMBackendParallelLaunch(fill_task, done, tasks), 0);
  for (int i = 0; i < 64; ++i) assert_int_equal(done[i], 1);
}

/* A worker more each time, whose lock, condition and thread fail in turn. */
static void test_work_is_done_by_available_threads(void** state) {
  enum { MAX_TASKS = 8 };
  call c = {0};
  long swept = 0;
  (void)state;
  arg_int(&c, 1);
  arg_int(&c, MAX_TASKS);
  assert_ok(call_global(&c, "runtime.config_threadpool"));
  for (int tasks = 2; tasks <= MAX_TASKS; ++tasks) {
    for (forever = 0; forever < 2; ++forever) {
      for (long n = 0; n < 3; ++n, ++swept) {
        failed = 0;
        allowed = n;
        launch(tasks);
        assert_true(failed);
        allowed = 0; /* nor does it start while there is nothing */
        launch(tasks);
        allowed = -1;
      }
    }
    launch(tasks);
    failed = 0;
    allowed = 0;
    launch(tasks); /* it is there now */
    assert_int_equal(failed, 0);
    allowed = -1;
  }
  print_message("the pool: %ld calls failed\n", swept);
}

static int copy_input(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  memcpy(tvmrt_region_data(region, 1), tvmrt_region_data(region, 0), 4);
  return 0;
}

static const char regions[] =
    "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"copier\", \"regions\": "
    "[{\"symbol\": "
    "\"f\", \"tensors\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [1]}, {\"name\": "
    "\"y\", "
    "\"dtype\": \"float32\", \"shape\": [1]}], \"nodes\": [{\"op\": \"copy\", \"inputs\": [0], "
    "\"outputs\": [1]}], \"inputs\": [0], \"outputs\": [1]}]}";

#define STEP(name, input)                                                                       \
  "{\"op\": \"tvm_op\", \"name\": \"" name "\", \"inputs\": [[" input                           \
  ", 0, 0]], \"attrs\": {\"func_name\": \"f\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", " \
  "\"flatten_data\": \"0\", \"device\": \"" name "%d\", \"after\": \"[%s]\"}}"

static int create_executor(int number, TVMModuleHandle* out) {
  char graph[2048];
  TVMByteArray none = {"", 0};
  call load = {0}, create = {0};
  int rc;
  (void)snprintf(graph, sizeof(graph),
                 "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, " STEP("a", "0")
                 ", " STEP("b", "1") "], \"arg_nodes\": [0], \"heads\": [[2, 0, 0]], \"attrs\": "
                 "{\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\"]], "
                 "\"storage_id\": [\"list_int\", [0, 1, 2]], \"shape\": [\"list_shape\", [[1], [1], "
                 "[1]]]}, \"node_row_ptr\": [0, 1, 2, 3]}",
                 number, "", number, "1"); /* nodes; the first is the input */
  arg_str(&load, regions);
  arg_handle(&load, kTVMBytes, &none);
  rc = call_global(&load, "tvmrt.device.load_regions");
  if (rc != 0) return rc;
  arg_str(&create, graph);
  arg_handle(&create, kTVMModuleHandle, load.ret.v_handle);
  arg_cpu(&create);
  rc = call_global(&create, "tvm.graph_executor.create");
  *out = create.ret.v_handle;
  (void)TVMModFree(load.ret.v_handle);
  return rc;
}

/* Two devices of names that were not there before, so that each run needs two threads. */
static int run_on_new_threads(void) {
  static int number;
  TVMModuleHandle executor;
  call run = {0}, wait = {0};
  int rc = create_executor(number++, &executor);
  if (rc != 0) return rc;
  rc = call_module(&run, executor, "run_async");
  if (rc == 0) rc = call_module(&wait, executor, "wait");
  if (rc != 0) { /* the same executor, once there are threads */
    char text[512];
    (void)snprintf(text, sizeof(text), "%s", TVMGetLastError());
    allowed = -1;
    assert_ok(call_module(&(call){0}, executor, "run_async"));
    assert_ok(call_module(&(call){0}, executor, "wait"));
    TVMAPISetLastError(text);
  }
  (void)TVMModFree(executor);
  return rc;
}

/* State shared by all runs of the process is created by the first run that can. */
static void first_run_without_a_condition(void) {
  TVMModuleHandle executor;
  assert_ok(create_executor(1000, &executor));
  for (int attempt = 0; attempt < 2; ++attempt) {
    allowed = 0;
    assert_fails(call_module(&(call){0}, executor, "run_async"), "MemoryError: ");
    allowed = -1;
  }
  assert_ok(call_module(&(call){0}, executor, "run_async"));
  assert_ok(call_module(&(call){0}, executor, "wait"));
  assert_ok(TVMModFree(executor));
}

static void test_async_runs_need_conditions_and_threads(void** state) {
  static const tvmrt_device_interface slots = {.run = copy_input};
  static const tvmrt_device copier = {
      .struct_bytes = sizeof(copier), .name = "copier", .interface = &slots};
  (void)state;
  assert_ok(tvmrt_device_register(&copier));
  forever = 0;
  first_run_without_a_condition();
  sweep("asynchronous runs", run_on_new_threads, NULL);
  assert_ok(tvmrt_device_unregister("copier"));
}

/* Requests at the start of the process create no lock: the registry of devices has a static one,
   which registering a device acquires once more. */
static void test_devices_are_registered_without_locks(void** state) {
  tvmrt_device* cpu = NULL;
  (void)state;
  forever = 1;
  allowed = 0;
  const int rc = tvmrt_device_find("cpu", &cpu);
  allowed = -1;
  assert_ok(rc);
  assert_non_null(cpu);
}

/* Whether a failing call reports this. */
static int has_error(const char* text) {
  TVMValue value;
  int code = 0;
  return TVMFuncCall(NULL, NULL, NULL, 0, &value, &code) != 0 &&
         strstr(TVMGetLastError(), text) != NULL;
}

/* A thread without a destructor for its state has no state, and so no error text: a lost text is
   reported until state can be allocated. */
static void* fail_without_state(void* reported) {
  removes_temporary_file = 1;
  ((int*)reported)[0] = has_error("Out of memory while an error was reported.");
  removes_temporary_file = 0;
  ((int*)reported)[1] = has_error("TVMFuncCall");
  return NULL;
}

static void test_error_without_thread_state_is_reported_as_lost(void** state) {
  int reported[2] = {0, 0};
  pthread_t thread;
  (void)state;
  assert_int_equal(pthread_create(&thread, NULL, fail_without_state, reported), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(reported[0]);
  assert_true(reported[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices_are_registered_without_locks), /* first */
      cmocka_unit_test(test_saving_is_atomic),
      cmocka_unit_test(test_loading_reports_system_errors),
      cmocka_unit_test(test_libraries_load_or_report_errors),
      cmocka_unit_test(test_work_is_done_by_available_threads),
      cmocka_unit_test(test_async_runs_need_conditions_and_threads),
      cmocka_unit_test(test_error_without_thread_state_is_reported_as_lost),
  };
  /* on a busy machine launches use no threads here: starting them is what fails */
  if (setenv("TVM_THREAD_POOL_TRUCE", "0", 1) != 0) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
