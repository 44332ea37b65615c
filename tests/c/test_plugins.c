/* Plug-ins: loaded with the first use of their functions, refused with a reason, unloaded. The
   build writes their prefixes to the file plugins.txt of TVMRT_PLUGIN_PATH. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tvm/runtime/plugin.h>

#include "support.h"

static bool has(const char* name) {
  TVMFunctionHandle f = NULL;
  assert_ok(TVMFuncGetGlobal(name, &f));
  if (f != NULL) assert_ok(TVMFuncFree(f));
  return f != NULL;
}

/* 100 for each enter, 1 for each leave of the plug-in. */
static int64_t call_for_text(const char* name) {
  call c = {0};
  assert_ok(call_global(&c, name));
  return c.ret.v_int64;
}

static const char* loaded_names(void) {
  call c = {0};
  assert_ok(call_global(&c, "tvmrt.plugin.names"));
  return c.ret.v_str;
}

static int mine(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMValue value = {.v_int64 = 7};
  int code = kTVMArgInt;
  (void)args, (void)codes, (void)num_args, (void)resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int register_mine(const char* name, int override) {
  TVMFunctionHandle f = NULL;
  int rc;
  assert_ok(TVMFuncCreateFromCFunc(mine, NULL, NULL, &f));
  rc = TVMFuncRegisterGlobal(name, f, override);
  assert_ok(TVMFuncFree(f));
  return rc;
}

static void test_plugins_are_loaded_on_demand(void** state) {
  (void)state;
  assert_true(has("runtime.NumThreads"));
  assert_false(has("nobody.has.this"));
  assert_false(has("goo")); /* shorter than the prefix */
  assert_null(strstr(loaded_names(), "good "));
}

/* Also while the plug-in looks up names of its own, and of another one. */
static void test_longest_prefix_wins_and_plugin_is_entered_once(void** state) {
  (void)state;
  assert_int_equal(call_for_text("good.inner.answer"), 100);
  assert_non_null(strstr(loaded_names(), "good "));
  assert_non_null(strstr(loaded_names(), "inner "));
  assert_int_equal(call_for_text("good.answer"), 100);
  assert_false(has("good.nothing"));
  assert_int_equal(call_for_text("also_good.answer"), 100);
}

static void check_refused(const char* name, const char* first, const char* second) {
  TVMFunctionHandle f = NULL;
  assert_fails(TVMFuncGetGlobal(name, &f), first);
  assert_non_null(strstr(TVMGetLastError(), second));
  assert_null(strchr(TVMGetLastError(), '\n'));
  assert_null(f);
}

static void test_broken_plugins_are_refused_and_others_work(void** state) {
  (void)state;
  check_refused("missing.answer", "no_such_plugin", "cannot be loaded");
  check_refused("plain.answer", "fixture_plain", "no tvmrt_plugin_table");
  check_refused("old.answer", "version 77", "version 1;");
  check_refused("short.answer", "16 bytes", "sizeof(tvmrt_plugin)");
  check_refused("same.answer", "'good'", "fixture_plugin_same");
  check_refused("other_sdk.answer", "belongs to tvmrt 0.0.1", "this runtime is tvmrt");
  check_refused("fails.answer", "'fails' cannot start", "no such hardware");
  assert_true(has("good.answer"));
}

static void test_failed_plugin_is_retried(void** state) {
  (void)state;
  assert_int_equal(call_for_text("fails.answer"), 200);
}

static void test_registered_names_are_not_replaced(void** state) {
  (void)state;
  /* the plug-in is loaded first, so that its name is known to be taken */
  assert_fails(register_mine("theirs.answer", 0), "already registered");
  assert_int_equal(call_for_text("theirs.answer"), 100);
  assert_ok(register_mine("theirs.answer", 1));
  assert_int_equal(call_for_text("theirs.answer"), 7);
  assert_ok(TVMFuncRemoveGlobal("theirs.taken"));
  assert_false(has("theirs.taken"));
  /* a plug-in that cannot be loaded has no names */
  assert_ok(register_mine("missing.mine", 0));
  assert_int_equal(call_for_text("missing.mine"), 7);
}

static void test_unused_plugin_is_unloaded_and_reloaded(void** state) {
  TVMFunctionHandle f = NULL;
  (void)state;
  assert_int_equal(call_for_text("good.answer"), 100);
  assert_ok(TVMFuncGetGlobal("good.answer", &f));
  assert_fails(tvmrt_plugin_unload("good"), "a reference to its function 'good.answer'");
  assert_ok(TVMFuncFree(f));
  assert_ok(tvmrt_plugin_unload("good"));
  assert_null(strstr(loaded_names(), "good "));
  assert_fails(tvmrt_plugin_unload("good"), "no plug-in 'good'");
  assert_int_equal(call_for_text("good.answer"), 201);
  assert_fails(tvmrt_plugin_unload("stays"), "no plug-in 'stays'");
  assert_true(has("stays.answer"));
  assert_fails(tvmrt_plugin_unload("stays"), "no leave()");
}

static void test_prefixes_are_added_and_libraries_loaded_by_path(void** state) {
  const char* path = fixture("PLUGIN_LATE");
  (void)state;
  assert_false(has("late.answer"));
  assert_ok(tvmrt_plugin_add_prefix("late.", path));
  assert_ok(tvmrt_plugin_add_prefix("late.", path));
  assert_fails(tvmrt_plugin_add_prefix("late.", "/elsewhere.so"), "belongs to the plug-in");
  assert_fails(tvmrt_plugin_add_prefix("", path), "give a prefix");
  assert_true(has("late.answer"));
  assert_ok(tvmrt_plugin_load(path));
  assert_int_equal(call_for_text("late.answer"), 100);
  assert_fails(tvmrt_plugin_load("/no/such/plugin.so"), "cannot be loaded");
  assert_fails(tvmrt_plugin_load(NULL), "NULL");
}

static void test_list_of_names_includes_plugins(void** state) {
  const char** names;
  int count, found = 0;
  (void)state;
  assert_ok(TVMFuncListGlobalNames(&count, &names));
  for (int i = 0; i < count; ++i) found += strcmp(names[i], "listed.answer") == 0;
  assert_int_equal(found, 1);
}

/* Each thread finds the functions, no matter which one loads them. */
static void* find_all(void* failures) {
  static const char* const names[] = {"race.answer", "race.inner.answer", "race.answer"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    TVMFunctionHandle f = NULL;
    if (TVMFuncGetGlobal(names[i], &f) != 0 || f == NULL) {
      atomic_fetch_add((atomic_int*)failures, 1);
    } else {
      (void)TVMFuncFree(f);
    }
  }
  return NULL;
}

static void test_threads_wait_for_a_plugin_that_is_loading(void** state) {
  pthread_t threads[8];
  atomic_int failures = 0;
  (void)state;
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, find_all, &failures), 0);
  }
  for (int i = 0; i < 8; ++i) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&failures), 0);
  assert_int_equal(call_for_text("race.answer"), 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plugins_are_loaded_on_demand),
      cmocka_unit_test(test_longest_prefix_wins_and_plugin_is_entered_once),
      cmocka_unit_test(test_broken_plugins_are_refused_and_others_work),
      cmocka_unit_test(test_failed_plugin_is_retried),
      cmocka_unit_test(test_registered_names_are_not_replaced),
      cmocka_unit_test(test_unused_plugin_is_unloaded_and_reloaded),
      cmocka_unit_test(test_prefixes_are_added_and_libraries_loaded_by_path),
      cmocka_unit_test(test_threads_wait_for_a_plugin_that_is_loading),
      cmocka_unit_test(test_list_of_names_includes_plugins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
