/*
 * Wrappers of a device library's functions that fail on demand, as with a full or lost device. They
 * are loaded with RTLD_GLOBAL before the plug-in, and override the library. A C file includes this
 * header and names the functions; -DLIBRARY is the path of the real library.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char failing[64];
static int left; /* calls that succeed before the failure */
static int code;

/* Let call number `after` of `name` from now on fail once with `status`. */
void fail_call(const char* name, int after, int status) {
  strncpy(failing, name, sizeof(failing) - 1);
  left = after;
  code = status;
}

/* Return whether the failure happened. */
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
