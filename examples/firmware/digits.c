/*
 * Reads handwritten digits: an example of an application that runs a network.
 *
 * An image has 64 grey values from 0 to 16, as a camera might give; the network wants floats from 0
 * to 1 and answers with the probability of each digit.
 */
#include <tvmgen_network.h>

#include "boards/board.h"
#include "data.h" /* images, labels: some of the test set */
#include "print.h"
#include "weights.h"

enum { PIXELS = 64, DIGITS = 10 };

_Static_assert(TVMGEN_NETWORK_IMAGE_SIZE == PIXELS * sizeof(float), "another network's image");
_Static_assert(TVMGEN_NETWORK_OUTPUT_SIZE == DIGITS * sizeof(float), "another network's output");

static float image[PIXELS];
static float probabilities[DIGITS];

/* The most probable digit, or a negative number where the network fails. */
static int read_digit(const uint8_t* pixels) {
  struct tvmgen_network_inputs inputs = {.image = image};
  struct tvmgen_network_outputs outputs = {.output = probabilities};
  int best = 0;
  for (int i = 0; i < PIXELS; ++i) image[i] = (float)pixels[i] / 16;
  if (tvmgen_network_run(&inputs, &outputs) != 0) return -1;
  for (int i = 1; i < DIGITS; ++i) {
    if (probabilities[i] > probabilities[best]) best = i;
  }
  return best;
}

int main(void) {
  int right = 0;
  if (set_weights() != 0) return 1;
  for (int i = 0; i < LABELS_COUNT; ++i) {
    const int digit = read_digit(&images[i * PIXELS]);
    if (digit < 0) {
      print_text("the network failed\n");
      return 1;
    }
    print_text("image ");
    print_signed(i);
    print_text(": ");
    print_signed(digit);
    if (digit != labels[i]) {
      print_text(", but it is a ");
      print_signed(labels[i]);
    }
    print_text("\n");
    right += digit == labels[i];
  }
  print_signed(right);
  print_text(" of ");
  print_signed(LABELS_COUNT);
  print_text(" right\n");
  return 0;
}
