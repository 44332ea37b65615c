/* An application over the C interface: lends memory and a device where the header has a place for it,
 * runs the network twice and prints the output and what the device saw. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/platform.h>
#include <tvmgen_default.h>

#ifdef DEVICE
static char seen[32];

static int32_t see(void* context, char what) {
  if (strcmp(context, "the device") != 0) return -1;
  seen[strlen(seen)] = what;
  return 0;
}

int32_t TVMDeviceAccelActivate(void* context);
int32_t TVMDeviceAccelOpen(void* context);
int32_t TVMDeviceAccelClose(void* context);
int32_t TVMDeviceAccelDeactivate(void* context);
int32_t TVMDeviceAccelActivate(void* context) { return see(context, 'A'); }
int32_t TVMDeviceAccelOpen(void* context) { return see(context, 'O'); }
int32_t TVMDeviceAccelClose(void* context) { return see(context, 'C'); }
int32_t TVMDeviceAccelDeactivate(void* context) { return see(context, 'D'); }
#endif

int main(void) {
  static uint8_t memory[256] __attribute__((aligned(16)));
  float x[6] = {1, 2, 3, 4, 5, 6};
  float z[6];
  struct tvmgen_default_inputs inputs = {x};
  struct tvmgen_default_outputs outputs = {z};
#ifdef EXTERNAL_POOL
  static uint8_t pool[TVMGEN_DEFAULT_GLOBAL_WORKSPACE_WORKSPACE_POOL_SIZE]
      __attribute__((aligned(16)));
  struct tvmgen_default_workspace_pools pools = {pool};
#endif
#ifdef DEVICE
  char context[] = "the device";
  struct tvmgen_default_devices devices = {context};
#endif
  int i;
#ifndef BOARD_ALLOCATES
  tvmrt_workspace_init(memory, sizeof(memory));
#else
  (void)memory;
#endif
  for (i = 0; i < 2; ++i) {
    memset(z, 0, sizeof(z));
    if (tvmgen_default_run(&inputs, &outputs
#ifdef EXTERNAL_POOL
                           ,
                           &pools
#endif
#ifdef DEVICE
                           ,
                           &devices
#endif
                           ) != 0) {
      return 1;
    }
  }
  for (i = 0; i < 6; ++i) printf("%g%s", z[i], i == 5 ? "\n" : " ");
#ifdef DEVICE
  printf("%s\n", seen);
#endif
  return 0;
}
