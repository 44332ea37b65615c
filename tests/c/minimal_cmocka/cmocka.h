/* The part of cmocka that these tests use, for machines without it: the first failed assertion
   ends the program. */
#ifndef TVMRT_TESTS_C_MINIMAL_CMOCKA_H_
#define TVMRT_TESTS_C_MINIMAL_CMOCKA_H_

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char* name;
  void (*function)(void** state);
  int (*set_up)(void** state);
  int (*tear_down)(void** state);
  void* state;
};

#define cmocka_unit_test(test) minimal_test(test, NULL, NULL, NULL)
#define cmocka_unit_test_prestate(test, state) minimal_test(test, NULL, NULL, state)
#define cmocka_unit_test_setup(test, up) minimal_test(test, up, NULL, NULL)
#define cmocka_unit_test_setup_teardown(test, up, down) minimal_test(test, up, down, NULL)
#define minimal_test(test, up, down, state) \
  { #test, test, up, down, state }
#define cmocka_run_group_tests(tests, set_up, tear_down) \
  minimal_run(tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)

static inline int minimal_fixture(int (*fixture)(void** state), void** state) {
  return fixture != NULL ? fixture(state) : 0;
}

static inline int minimal_run(const struct CMUnitTest* tests, size_t count, int (*set_up)(void**),
                              int (*tear_down)(void**)) {
  void* shared = NULL;
  int rc = minimal_fixture(set_up, &shared);
  for (size_t i = 0; rc == 0 && i < count; ++i) {
    void* state = tests[i].state != NULL ? tests[i].state : shared;
    fprintf(stderr, "%s\n", tests[i].name);
    rc = minimal_fixture(tests[i].set_up, &state);
    if (rc == 0) tests[i].function(&state);
    if (rc == 0) rc = minimal_fixture(tests[i].tear_down, &state);
  }
  return rc == 0 ? minimal_fixture(tear_down, &shared) : rc;
}

#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define print_message(...) fprintf(stderr, __VA_ARGS__)
#define fail() fail_msg("%s", "failed")
#define fail_msg(...)                               \
  do {                                              \
    fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
    fprintf(stderr, __VA_ARGS__);                   \
    fputc('\n', stderr);                            \
    exit(1);                                        \
  } while (0)

/* Ends the test, not the program; for the test's function itself. */
#define skip()                      \
  do {                              \
    fprintf(stderr, "  skipped\n"); \
    return;                         \
  } while (0)

#define assert_true(c)                          \
  do {                                          \
    if (!(c)) fail_msg("%s does not hold", #c); \
  } while (0)
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void*)(a) == (const void*)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void*)(a) != (const void*)(b))
#define assert_memory_equal(a, b, size) assert_true(memcmp((a), (b), (size)) == 0)

/* cmocka compares integers and addresses alike, as numbers without a sign. */
#define minimal_compare(a, holds, b)                                                          \
  do {                                                                                        \
    const uintmax_t a_ = (uintmax_t)(a);                                                      \
    const uintmax_t b_ = (uintmax_t)(b);                                                      \
    if (!(a_ holds b_)) fail_msg("%s is %jd, %s is %jd", #a, (intmax_t)a_, #b, (intmax_t)b_); \
  } while (0)
#define assert_int_equal(a, b) minimal_compare(a, ==, b)
#define assert_int_not_equal(a, b) minimal_compare(a, !=, b)
#define assert_in_range(value, minimum, maximum) \
  do {                                           \
    minimal_compare(value, >=, minimum);         \
    minimal_compare(value, <=, maximum);         \
  } while (0)
#define assert_float_equal(a, b, epsilon)                             \
  do {                                                                \
    const float a_ = (a);                                             \
    const float b_ = (b);                                             \
    if (!(fabsf(a_ - b_) <= (epsilon)))                               \
      fail_msg("%s is %g, %s is %g", #a, (double)a_, #b, (double)b_); \
  } while (0)
#define assert_string_equal(a, b)                                                    \
  do {                                                                               \
    const char* a_ = (a);                                                            \
    const char* b_ = (b);                                                            \
    if (strcmp(a_, b_) != 0) fail_msg("%s is \"%s\", %s is \"%s\"", #a, a_, #b, b_); \
  } while (0)

#endif
