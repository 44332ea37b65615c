/* Prints which digit an image shows: "the digit is 7". Link it with the network as one C file:
 *
 *   tvmrt compile examples/digits/digits_int8.onnx -o net.c
 *   cc -I. examples/digits/digit.c net.c -lm -o digit
 */
#include <stdio.h>

#include "net.h"

/* Eight rows of eight pixels, 16 is dark. */
/* clang-format off */
static const unsigned char pixels[64] = {
  0, 0, 5, 13, 16, 16, 6, 0,
  0, 0, 12, 6, 4, 13, 9, 0,
  0, 0, 0, 0, 1, 15, 3, 0,
  0, 0, 0, 2, 10, 13, 2, 0,
  0, 2, 12, 16, 16, 12, 5, 0,
  0, 1, 6, 9, 11, 0, 0, 0,
  0, 0, 0, 15, 1, 0, 0, 0,
};
/* clang-format on */

int main(void) {
  static float image[64], scores[10];
  struct tvmgen_net_inputs inputs = {image};
  struct tvmgen_net_outputs outputs = {scores};
  int i, best = 0;
  for (i = 0; i < 64; i++) image[i] = pixels[i] / 16.0f;
  if (tvmgen_net_run(&inputs, &outputs) != 0) return 1;
  for (i = 1; i < 10; i++) best = scores[i] > scores[best] ? i : best;
  printf("the digit is %d\n", best);
  return 0;
}
