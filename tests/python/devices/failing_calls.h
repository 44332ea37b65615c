/*
 * Functions of a device's library that fail on demand, as a full or lost device makes them: loaded
 * with RTLD_GLOBAL before the plug-in, it is found before the library. A C file includes this and names
 * the functions; it is built with -DLIBRARY, the file of those that do the work.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char failing[64];
static int left; /* calls that succeed before */
static int code;

/* The call `name` number `after` from now on fails with `status`, once. */
void fail_call(const char* name, int after, int status) {
  strncpy(failing, name, sizeof(failing) - 1);
  left = after;
  code = status;
}

/* Whether it was reached. */
int has_failed(void) { return left < 0; }

static int fails(const char* name) {
  return strcmp(name, failing) == 0 && left >= 0 && left-- == 0;
}

static void* find(const char* name) {
  void* library = dlopen(LIBRARY, RTLD_LAZY);
  void* symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol == NULL) abort();
  return symbol;
}

#define STATUS(type, name, parameters, arguments)      \
  type name parameters {                               \
    type(*real) parameters;                            \
    *(void**)(&real) = find(#name);                    \
    return fails(#name) ? (type)code : real arguments; \
  }
