/* Backend library: initialisers that run the first time only. Part of both libraries. */
#include <tvm/runtime/c_backend_api.h>

int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int nbytes) {
  (void)nbytes;
  if (*handle != NULL) return 0;
  *handle = (void*)1;
  return f(cdata);
}
