/* Attributes of nodes are text that the compiler's half has written and a library has carried: each
 * is checked where it is read. Lists of words are separated by one blank or several. */
#include "kernel_node.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "told.h"

/* Behind this word and the blanks that follow it. Borrowed, as all words here: they have no NUL
 * behind them. */
static const char* next_word(const char* at) {
  at += strcspn(at, " ");
  return at + strspn(at, " ");
}

/* Operands that are left out are no parameters of the kernel. */
int32_t kernel_num_tensors(const tvmrt_region_node* node) {
  int32_t count = node->num_outputs, i;
  for (i = 0; i < node->num_inputs; ++i) count += node->inputs[i] >= 0;
  return count;
}

/* By their types: the numbers beside them are compared when each is read. */
int32_t kernel_num_scalars(const tvmrt_region_node* node) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  int32_t count = 0;
  for (; *at != '\0'; at = next_word(at)) ++count;
  return count;
}

/* Of a word that has a length and no end. */
static bool is_type(const kernel_scalar* s, const char* type) {
  return s->type_length == strlen(type) && memcmp(s->type, type, s->type_length) == 0;
}

/* Whether the number is one of the scalar's type; NaN is a float alone. A fraction is cut where
 * the type is whole. False leaves `bytes` set, which nobody reads then. */
static bool set_value(double given, kernel_scalar* s) {
  s->bytes = 4;
  if (is_type(s, "float")) {
    s->value.f32 = (float)given;
  } else if (is_type(s, "int") && given >= INT32_MIN && given <= INT32_MAX) {
    s->value.i32 = (int32_t)given;
  } else if (is_type(s, "uint") && given >= 0 && given <= UINT32_MAX) {
    s->value.u32 = (uint32_t)given;
  } else if (is_type(s, "bool") && (given == 0 || given == 1)) {
    s->value.i32 = given != 0; /* an int in kernels, which take no bool */
  } else if (is_type(s, "half") && given >= 0 && given <= UINT16_MAX) {
    s->value.half = (uint16_t)given;
    s->bytes = 2;
  } else {
    return false;
  }
  return true;
}

/* Numbers travel as doubles, which hold every int, uint and float; a half travels as its bits.
 * *out points into the node's text, which lives as long as the region. */
int kernel_read_scalar(const tvmrt_region_node* node, int32_t number, kernel_scalar* out) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  const tvmrt_attr* all = tvmrt_node_attr(node, "scalars");
  double given;
  int32_t i;
  if (all == NULL || number >= all->count || all->kind == TVMRT_ATTR_TEXT) {
    return device_fail("there are fewer scalars than scalar types");
  }
  given = all->kind == TVMRT_ATTR_INTS ? (double)all->ints[number] : all->floats[number];
  for (i = 0; i < number; ++i) at = next_word(at);
  out->type = at;
  out->type_length = strcspn(at, " ");
  if (set_value(given, out)) return 0;
  return device_fail("scalar %d of a kernel is %g, which is not of type %.*s", (int)number, given,
                     (int)out->type_length, at);
}

/* A word has a type and extents, "float32:2x3". The type itself is not compared: operands have it
 * from the network, as the text has. */
static bool has_extents(const tvmrt_region_tensor* tensor, const char* word) {
  const char* at = word + strcspn(word, ": ");
  int32_t d;
  for (d = 0; d < tensor->ndim; ++d) {
    char* end;
    if (*at != (d == 0 ? ':' : 'x')) return false;
    if (strtoll(at + 1, &end, 10) != tensor->shape[d]) return false;
    at = end;
  }
  return d == 0 || *at == ' ' || *at == '\0'; /* and has no axis more */
}

/* A region whose extents runs choose may come with others than the kernel's text has. Results
 * alone: what is written beyond its tensor is what must not be, and operands follow the results. */
int kernel_check_extents(const tvmrt_region* region, const tvmrt_region_node* node) {
  const char* word = tvmrt_node_text(node, "types", "");
  int32_t k;
  for (k = 0; k < node->num_outputs; ++k, word = next_word(word)) {
    const tvmrt_region_tensor* tensor = &region->tensors[node->outputs[k]];
    if (has_extents(tensor, word)) continue;
    return device_fail("kernel %s was made for other extents than tensor %s has; compile again",
                       tvmrt_node_text(node, "function", node->op), tensor->name);
  }
  return 0;
}
