/* A device plug-in that does nothing; macros turn it into invalid ones. */
#include <tvm/runtime/device.h>

#ifndef NAME
#define NAME "nothing"
#endif

static int run(tvmrt_device* self, tvmrt_region* region) {
  (void)self;
  (void)region;
  return 0;
}

int register_null_device(void);

int register_null_device(void) {
  static const tvmrt_device_interface slots = {.run = run};
  static const tvmrt_device device = {
      .struct_bytes = sizeof(device), .name = NAME, .interface = &slots};
#ifdef FAILS
  TVMPackedFuncSetLastError(FAILS);
  return -1;
#else
  return tvmrt_device_register(&device);
#endif
}

#ifndef NO_ABI
TVM_DLL int32_t tvmrt_plugin_abi(void);
int32_t tvmrt_plugin_abi(void) {
#ifdef OTHER_ABI
  return TVMRT_DEVICE_ABI + 1;
#else
  return TVMRT_DEVICE_ABI;
#endif
}
#endif

#ifndef NO_REGISTER
TVM_DLL int tvmrt_plugin_register(void);
int tvmrt_plugin_register(void) { return register_null_device(); }
#endif
