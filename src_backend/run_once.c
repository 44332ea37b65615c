/* Backend library: initialisers that run on the first call only. Part of both libraries.
 *
 * The handle is a static of the generated code, NULL at first. Not locked: two threads must not
 * call it with one handle at the same time. A failure is not retried. */
#include <tvm/runtime/c_backend_api.h>

int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int nbytes) {
  (void)nbytes;
  if (*handle != NULL) return 0;
  *handle = (void*)1;
  return f(cdata);
}
