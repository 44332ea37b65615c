/*
 * Run a network of any inputs and outputs once, and print the outputs.
 *
 * data.h lists the tensors in the order of the network's structs, whose members are all void *.
 */
#include <stddef.h>
#include <stdint.h>
#include <tvmgen_network.h>

#include "boards/board.h"
#include "print.h"
#include "weights.h"

typedef enum { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 } element;

typedef struct {
  const char* name; /* with type and shape */
  element type;
  size_t count;
  void* data;
} tensor;

#include "data.h" /* inputs, outputs */

static void print_element(const tensor* t, size_t i) {
  const void* data = t->data;
  switch (t->type) {
    case I8:
      print_signed(((const int8_t*)data)[i]);
      break;
    case U8:
      print_unsigned(((const uint8_t*)data)[i]);
      break;
    case I16:
      print_signed(((const int16_t*)data)[i]);
      break;
    case U16:
      print_unsigned(((const uint16_t*)data)[i]);
      break;
    case I32:
      print_signed(((const int32_t*)data)[i]);
      break;
    case U32:
      print_unsigned(((const uint32_t*)data)[i]);
      break;
    case I64:
      print_signed(((const int64_t*)data)[i]);
      break;
    case U64:
      print_unsigned(((const uint64_t*)data)[i]);
      break;
    case F32:
      print_real(((const float*)data)[i]);
      break;
    case F64:
      print_real(((const double*)data)[i]);
      break;
  }
}

static void print_tensor(const tensor* t) {
  print_text("output ");
  print_text(t->name);
  print_text("\n");
  for (size_t i = 0; i < t->count; ++i) {
    print_element(t, i);
    print_text(i % 8 == 7 || i + 1 == t->count ? "\n" : " ");
  }
}

int main(void) {
  void *from[INPUTS + 1], *to[OUTPUTS + 1];
  for (int i = 0; i < INPUTS; ++i) from[i] = inputs[i].data;
  for (int i = 0; i < OUTPUTS; ++i) to[i] = outputs[i].data;
  if (set_weights() != 0) return 1;
  const int32_t code =
      tvmgen_network_run((struct tvmgen_network_inputs*)from, (struct tvmgen_network_outputs*)to);
#if defined(WITH_TRACE)
  if (board_save("trace.bin", &tvmgen_network_trace, sizeof(tvmgen_network_trace)) != 0) {
    print_text("trace.bin cannot be written\n");
    return 3;
  }
#endif
  if (code != 0) {
    print_text("the network failed with code ");
    print_signed(code);
    print_text("; tvmrt explain says what that means\n");
    return 1;
  }
  for (int i = 0; i < OUTPUTS; ++i) print_tensor(&outputs[i]);
  return 0;
}
