/* Mock of the driver of an Ethos-U. It calls a function of the program for the results; with
   ANSWERS, a header of recorded calls, it compares inputs with those of the test and returns its
   outputs. It always overwrites the scratch memory, as the device may. */
#include <string.h>

#include "ethosu_driver.h"

#ifdef KEEP_ERROR /* in place of the backend library */
#include <tvm/runtime/c_backend_api.h>
const char* ethosu_error;
void TVMAPISetLastError(const char* msg) { ethosu_error = msg; }
#endif

int ethosu_busy, ethosu_reserved, ethosu_failing;
int (*ethosu_answer)(const void* data, int size, const uint64_t* base, const size_t* sizes,
                     int count);

static struct ethosu_driver driver;

struct ethosu_driver* ethosu_reserve_driver(void) {
  if (ethosu_busy || driver.reserved) return NULL;
  driver.reserved = 1;
  ++ethosu_reserved;
  return &driver;
}

void ethosu_release_driver(struct ethosu_driver* drv) { drv->reserved = 0; }

#ifdef ANSWERS
struct bytes {
  size_t place, count;
  const uint8_t* data;
};
struct call {
  int size;
  size_t weights, scratch;
  struct bytes inputs[4], outputs[4];
};
#include ANSWERS

static int answer(const void* data, int size, const uint64_t* base, const size_t* sizes,
                  int count) {
  static size_t number;
  const struct call* call = &calls[number++ % (sizeof calls / sizeof *calls)];
  uint8_t* scratch = (uint8_t*)(uintptr_t)base[1];
  if (memcmp(data, "COP1", 4) != 0 || size != call->size || count != 3) return -10;
  if (sizes[0] != call->weights || sizes[1] != call->scratch) return -11;
  for (int i = 0; i < count; ++i)
    if (base[i] % 16 != 0) return -12;
  for (const struct bytes* in = call->inputs; in->data != NULL; ++in)
    if (memcmp(scratch + in->place, in->data, in->count) != 0) return -13;
  memset(scratch, 0xA5, call->scratch);
  for (const struct bytes* out = call->outputs; out->data != NULL; ++out)
    memcpy(scratch + out->place, out->data, out->count);
  return 0;
}
#endif

int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr,
                     const int custom_data_size, uint64_t* const base_addr,
                     const size_t* base_addr_size, const int num_base_addr, void* user_arg) {
  (void)user_arg;
  if (ethosu_failing || drv == NULL || !drv->reserved) return -1;
#ifdef ANSWERS
  ethosu_answer = answer;
#endif
  if (ethosu_answer == NULL) return -2;
  return ethosu_answer(custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr);
}
