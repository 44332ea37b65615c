/* Weights next to the image, at the address WEIGHTS_AT; otherwise they are in the image. */
#ifndef WEIGHTS_H_
#define WEIGHTS_H_

#include <tvmgen_network.h>

#include "print.h"

/* Check the weights, and give them to the network. Return 0, or the code after printing it. */
static inline int32_t set_weights(void) {
#if defined(WEIGHTS_AT)
  const int32_t code =
      tvmgen_network_set_weights((const void*)WEIGHTS_AT, TVMGEN_NETWORK_WEIGHTS_SIZE);
  if (code != 0) {
    print_text("the weights are refused with code ");
    print_signed(code);
    print_text("; tvmrt explain says what that means\n");
  }
  return code;
#else
  return 0;
#endif
}

#endif /* WEIGHTS_H_ */
