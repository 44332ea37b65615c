/* Reads the attributes of kernel nodes. They are text written by the compiler and stored in a
 * library, so each is checked here. Words are separated by one or more blanks. */
#include <stdlib.h>

#include "plan.h"

/* Skip a word and the following blanks. All words here are borrowed and not NUL-terminated. */
const char* kernel_next_word(const char* at) {
  at += strcspn(at, " ");
  return at + strspn(at, " ");
}

/* Omitted operands are not parameters of the kernel. */
int32_t kernel_num_tensors(const tvmrt_region_node* node) {
  int32_t count = node->num_outputs, i;
  for (i = 0; i < node->num_inputs; ++i) count += node->inputs[i] >= 0;
  return count;
}

/* Counted by types; the number of values is checked when each is read. */
int32_t kernel_num_scalars(const tvmrt_region_node* node) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  int32_t count = 0;
  for (; *at != '\0'; at = kernel_next_word(at)) ++count;
  return count;
}

/* Compare a word given by its length. */
static bool is_type(const kernel_scalar* s, const char* type) {
  return s->type_length == strlen(type) && memcmp(s->type, type, s->type_length) == 0;
}

/* Whether the number fits the scalar's type; only floats may be NaN. Fractions are truncated for
 * integer types. If false, `bytes` is meaningless. */
static bool set_value(double number, kernel_scalar* s) {
  s->bytes = 4;
  if (is_type(s, "float")) {
    s->value.f32 = (float)number;
  } else if (is_type(s, "int") && number >= INT32_MIN && number <= INT32_MAX) {
    s->value.i32 = (int32_t)number;
  } else if (is_type(s, "uint") && number >= 0 && number <= UINT32_MAX) {
    s->value.u32 = (uint32_t)number;
  } else if (is_type(s, "bool") && (number == 0 || number == 1)) {
    s->value.i32 = number != 0; /* an int in kernels, whose parameters cannot be bool */
  } else if (is_type(s, "half") && number >= 0 && number <= UINT16_MAX) {
    s->value.half = (uint16_t)number;
    s->bytes = 2;
  } else {
    return false;
  }
  return true;
}

/* Numbers are stored as doubles, which represent every int, uint and float; a half is stored as its
 * bits. *out points into the node's text, which lives as long as the region. */
int kernel_read_scalar(const tvmrt_region_node* node, int32_t index, kernel_scalar* out) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  const tvmrt_attr* all = tvmrt_node_attr(node, "scalars");
  double number;
  int32_t i;
  if (all == NULL || index >= all->count || all->kind == TVMRT_ATTR_TEXT) {
    return opencl_fail("there are fewer scalars than scalar types");
  }
  number = all->kind == TVMRT_ATTR_INTS ? (double)all->ints[index] : all->floats[index];
  for (i = 0; i < index; ++i) at = kernel_next_word(at);
  out->type = at;
  out->type_length = strcspn(at, " ");
  if (set_value(number, out)) return 0;
  return opencl_fail("scalar %d of a kernel is %g, which is not of type %.*s", (int)index, number,
                     (int)out->type_length, at);
}
