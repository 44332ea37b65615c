/* Files of library modules: replaced, written over, cut off, and found by other paths. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

/* Files of a folder of the test's own; `main` of the plain fixture gives 42, of the other 120. */
static char folder[40];
static char net_so[64];

static int make_folder(void** state) {
  (void)state;
  strcpy(folder, "/tmp/tvmrt-modules-XXXXXX");
  if (mkdtemp(folder) == NULL) return -1;
  (void)snprintf(net_so, sizeof(net_so), "%s/net.so", folder);
  return 0;
}

static int remove_folder(void** state) {
  (void)state;
  (void)unlink(net_so);
  return rmdir(folder);
}

/* Write the first `share` percent of a fixture into a file. */
static void write_part(const char* path, const char* variable, int share) {
  static char bytes[1 << 20];
  FILE* from = fopen(fixture(variable), "rb");
  FILE* to = fopen(path, "wb");
  size_t size;
  assert_non_null(from);
  assert_non_null(to);
  size = fread(bytes, 1, sizeof(bytes), from);
  assert_true(size > 0 && size < sizeof(bytes));
  size = size * (size_t)share / 100;
  assert_int_equal(fwrite(bytes, 1, size, to), size);
  assert_int_equal(fclose(from), 0);
  assert_int_equal(fclose(to), 0);
}

/* Write a fixture to another name and rename it into place, as compilers do. */
static void put(const char* path, const char* variable) {
  char aside[128];
  (void)snprintf(aside, sizeof(aside), "%s.new", path);
  write_part(aside, variable, 100);
  assert_int_equal(rename(aside, path), 0);
}

static int64_t main_of(TVMModuleHandle mod) {
  call c = {0};
  assert_ok(call_module(&c, mod, "__tvm_main__"));
  return c.ret.v_int64;
}

static TVMModuleHandle load_file(const char* path) {
  TVMModuleHandle mod = NULL;
  assert_ok(TVMModLoadFromFile(path, "", &mod));
  return mod;
}

static void test_replaced_file_is_loaded_while_the_old_is_in_use(void** state) {
  TVMModuleHandle mods[6];
  TVMFunctionHandle old;
  call c = {0};
  (void)state;
  put(net_so, "FIXTURE_PLAIN");
  mods[0] = load_file(net_so);
  assert_ok(TVMModGetFunction(mods[0], "fixture_return_int", 0, &old));
  for (int i = 1; i < 6; ++i) {
    put(net_so, i % 2 == 0 ? "FIXTURE_PLAIN" : "FIXTURE_LLVM");
    mods[i] = load_file(net_so);
  }
  for (int i = 0; i < 6; ++i) assert_int_equal(main_of(mods[i]), i % 2 == 0 ? 42 : 120);
  for (int i = 0; i < 5; ++i) TVMModFree(mods[i]);
  assert_int_equal(main_of(mods[5]), 120);
  assert_ok(call_handle(&c, old)); /* of the first, which it keeps */
  assert_int_equal(c.ret.v_int64, 42);
  TVMModFree(mods[5]);
  mods[0] = load_file(net_so);
  assert_int_equal(main_of(mods[0]), 120);
  TVMModFree(mods[0]);
  TVMFuncFree(old);
}

static void test_unchanged_file_is_one_library_by_any_path(void** state) {
  char other[192];
  TVMModuleHandle mods[3];
  TVMFunctionHandle a;
  TVMFunctionHandle b;
  (void)state;
  put(net_so, "FIXTURE_PLAIN");
  mods[0] = load_file(net_so);
  put(net_so, "FIXTURE_LLVM");
  mods[1] = load_file(net_so);
  (void)snprintf(other, sizeof(other), "%s/../%s/net.so", folder, folder + 5);
  mods[2] = load_file(other);
  assert_ok(TVMModGetFunction(mods[1], "llvm_entry", 0, &a));
  assert_ok(TVMModGetFunction(mods[2], "llvm_entry", 0, &b));
  assert_ptr_equal(a, b); /* the two are one module */
  TVMFuncFree(a);
  TVMFuncFree(b);
  for (int i = 0; i < 3; ++i) TVMModFree(mods[i]);
}

static void test_file_loaded_by_other_code_can_be_loaded(void** state) {
  TVMModuleHandle mod;
  void* foreign;
  (void)state;
  put(net_so, "FIXTURE_PLAIN");
  foreign = dlopen(net_so, RTLD_LAZY | RTLD_LOCAL);
  assert_non_null(foreign);
  put(net_so, "FIXTURE_LLVM");
  mod = load_file(net_so);
  assert_int_equal(main_of(mod), 120);
  TVMModFree(mod);
  assert_int_equal(dlclose(foreign), 0);
}

static void test_relative_path_uses_current_folder(void** state) {
  char sub[80];
  char before[1024];
  TVMModuleHandle here;
  TVMModuleHandle there;
  (void)state;
  assert_non_null(getcwd(before, sizeof(before)));
  put(net_so, "FIXTURE_PLAIN");
  assert_int_equal(chdir(folder), 0);
  here = load_file("net.so");
  (void)snprintf(sub, sizeof(sub), "%s/sub", folder);
  assert_int_equal(mkdir(sub, 0700), 0);
  assert_int_equal(chdir(sub), 0);
  put("net.so", "FIXTURE_LLVM");
  there = load_file("net.so");
  assert_int_equal(main_of(here), 42);
  assert_int_equal(main_of(there), 120);
  TVMModFree(here);
  TVMModFree(there);
  assert_int_equal(unlink("net.so"), 0);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(rmdir(sub), 0);
}

static void test_file_overwritten_in_use_is_refused(void** state) {
  TVMModuleHandle old;
  TVMModuleHandle mod;
  (void)state;
  put(net_so, "FIXTURE_PLAIN");
  old = load_file(net_so);
  /* Equal bytes with another timestamp: other bytes would crash the old library. */
  assert_int_equal(utimensat(AT_FDCWD, net_so, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
  assert_fails(TVMModLoadFromFile(net_so, "", &mod), "net.so was overwritten while it was loaded");
  assert_null(mod);
  TVMModFree(old);
  mod = load_file(net_so);
  assert_int_equal(main_of(mod), 42);
  TVMModFree(mod);
}

static void test_truncated_file_is_refused(void** state) {
  TVMModuleHandle mod;
  (void)state;
  write_part(net_so, "FIXTURE_PLAIN", 30);
  assert_fails(TVMModLoadFromFile(net_so, "", &mod), "net.so: it is truncated: ");
  assert_null(mod);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_replaced_file_is_loaded_while_the_old_is_in_use,
                                      make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_unchanged_file_is_one_library_by_any_path, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(test_file_loaded_by_other_code_can_be_loaded, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(test_relative_path_uses_current_folder, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(test_file_overwritten_in_use_is_refused, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(test_truncated_file_is_refused, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
