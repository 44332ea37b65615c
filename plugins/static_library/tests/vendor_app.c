/* An application for a vendor's compiler that is based on TVM; "test_vector.h" has its data. */
#include <stdio.h>
#include <string.h>

#include "test_vector.h"
#include "tvmgen_default.h"

static float features[TVMGEN_DEFAULT_ONNX__ADD_0_SIZE / sizeof(float)];
static float scores[TVMGEN_DEFAULT_OUTPUT0_SIZE / sizeof(float)];
static int8_t codes[TVMGEN_DEFAULT_OUTPUT1_SIZE];

int main(void) {
  size_t i;
#ifdef TVMGEN_DEFAULT_TI_NPU
  TI_NPU_init();
#endif
  struct tvmgen_default_inputs inputs = {(void*)&features[0]};
  struct tvmgen_default_outputs outputs = {(void*)&scores[0], (void*)&codes[0]};
  memcpy(inputs.onnx__Add_0, test_vector, sizeof(test_vector));
  if (tvmgen_default_run(&inputs, &outputs) != 0) return 1;
#ifdef TVMGEN_DEFAULT_TI_NPU
  while (!tvmgen_default_finished) {
  }
#endif
  for (i = 0; i < sizeof(scores) / sizeof(scores[0]); i++) {
    uint32_t bits;
    memcpy(&bits, &scores[i], sizeof(bits));
    printf("%08lx\n", (unsigned long)bits);
  }
  for (i = 0; i < sizeof(codes); i++) printf("%d\n", codes[i]);
  return TVMGEN_DEFAULT_WORKSPACE_SIZE > 0 ? 0 : 2;
}
