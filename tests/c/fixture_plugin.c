/* A plug-in for tests: NAME, PREFIX "." and what else is defined for it. */
#include <tvm/runtime/plugin.h>

#ifndef ABI
#define ABI TVMRT_PLUGIN_ABI
#endif
#ifndef BYTES
#define BYTES sizeof(tvmrt_plugin)
#endif
#ifndef SDK
#define SDK NULL
#endif

static int count_entered;
static int count_left; /* stays 0 in one without leave() */

static int answer(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                  void* name) {
  (void)args;
  (void)codes;
  (void)num_args;
  (void)name;
  out->v_int64 = 100 * count_entered + count_left;
  *out_code = kTVMArgInt;
  return 0;
}

#ifdef FAILS
static int enter(void) {
  if (count_entered++ != 0) return 0;
  TVMAPISetLastError("there is no such hardware");
  return -1;
}
#else
/* Looks up names of its own, which have two prefixes, and one of another plug-in while it is
   loaded. */
static int enter(void) {
  TVMFunctionHandle own = NULL, other = NULL;
  ++count_entered;
  if (TVMFuncGetGlobal(PREFIX ".answer", &own) != 0 || own != NULL) return -1;
#ifdef ALSO
  if (TVMFuncGetGlobal(ALSO, &own) != 0 || own != NULL) return -1;
#endif
#ifdef OTHER
  if (TVMFuncGetGlobal(OTHER, &other) != 0 || other == NULL) return -1;
  return TVMFuncFree(other);
#else
  (void)other;
  return 0;
#endif
}
#endif

#ifdef STAYS
#define LEAVE NULL
#else
#define LEAVE leave
static int leave(void) {
  ++count_left;
  return 0;
}
#endif

static const tvmrt_plugin_function functions[] = {{PREFIX ".answer", answer},
                                                  {PREFIX ".taken", answer},
#ifdef ALSO
                                                  {ALSO, answer},
#endif
                                                  {NULL, NULL}};

TVMRT_PLUGIN_TABLE = {BYTES, ABI, NAME, functions, enter, LEAVE, SDK};
