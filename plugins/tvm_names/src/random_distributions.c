/* Random distributions, which compiled networks call by name.
 *
 * Numbers differ between runs and threads; networks that need reproducible numbers contain them.
 * Not cryptographically secure. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "functions.h"
#include "random.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* Next random number of this thread. As in TVM, there is no seed: it differs between processes. */
static uint64_t draw(void) {
  static _Thread_local uint64_t state;
  if (state == 0) state = ((uint64_t)time(NULL) << 20) ^ (uint64_t)(uintptr_t)&state;
  return names_next_random(&state);
}

/* In [0, 1), from the upper 53 bits, which is the precision of a double. */
static double draw_unit(void) { return (double)(draw() >> 11) * (1.0 / 9007199254740992.0); }

/* Get argument 2, a tensor of float32 or integers, and its number of elements. */
static int arg_output(const tvmrt_args* in, int code, DLTensor** out, uint64_t* out_count) {
  char text[TVMRT_DTYPE_TEXT_BYTES];
  DLDataType type;
  bool known;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 2, out));
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(*out, out_count));
  type = (*out)->dtype;
  known = code == kDLFloat ? type.code == kDLFloat && type.bits == 32
                           : (type.code == kDLInt || type.code == kDLUInt) &&
                                 (type.bits == 8 || type.bits == 16 || type.bits == 32);
  if (!known || type.lanes != 1) {
    tvmrt__dtype_to_text(type, text);
    return tvmrt__fail_type("%s: unknown data type %s; give a tensor of %s.", in->callee, text,
                            code == kDLFloat ? "float32" : "int8 to int32 or uint8 to uint32");
  }
  if ((*out)->device.device_type != kDLCPU || !tvmrt__is_compact(*out)) {
    return tvmrt__fail_value("%s fills compact CPU tensors only.", in->callee);
  }
  *out_count /= type.bits / 8u;
  return 0;
}

/* (low, high, output): float32 in [low, high) */
TVMRT_PLUGIN_NATIVE(names_uniform) {
  double low, high;
  DLTensor* t;
  uint64_t count;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_number(&in, 0, &low));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_number(&in, 1, &high));
  TVMRT_RETURN_IF_ERROR(arg_output(&in, kDLFloat, &t, &count));
  if (!(high > low)) {
    return tvmrt__fail_value("%s: high must be bigger than low, got %g and %g.", in.callee, high,
                             low);
  }
  for (uint64_t i = 0; i < count; ++i) {
    float value = (float)(low + (high - low) * draw_unit());
    if (!((double)value < high) || (double)value < low) value = (float)low; /* rounded out of it */
    memcpy(tvmrt__tensor_data(t) + i * 4, &value, sizeof(value));
  }
  return 0;
}

/* (mean, standard deviation, output): float32 */
TVMRT_PLUGIN_NATIVE(names_normal) {
  double mean, deviation;
  DLTensor* t;
  uint64_t count;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_number(&in, 0, &mean));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_number(&in, 1, &deviation));
  TVMRT_RETURN_IF_ERROR(arg_output(&in, kDLFloat, &t, &count));
  if (!(deviation > 0)) {
    return tvmrt__fail_value("%s: standard deviation must be positive, got %g.", in.callee,
                             deviation);
  }
  for (uint64_t i = 0; i < count; ++i) {
    /* Box-Muller transform; 1 - draw is never 0, so the logarithm is finite */
    double radius = sqrt(-2.0 * log(1.0 - draw_unit()));
    float value = (float)(mean + deviation * radius * cos(6.283185307179586 * draw_unit()));
    memcpy(tvmrt__tensor_data(t) + i * 4, &value, sizeof(value));
  }
  return 0;
}

/* (low, high, output): integers in [low, high), limited to the range of the type */
TVMRT_PLUGIN_NATIVE(names_randint) {
  int64_t low, high, minimum, maximum;
  DLTensor* t;
  uint64_t count;
  unsigned bits;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &low));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 1, &high));
  TVMRT_RETURN_IF_ERROR(arg_output(&in, kDLInt, &t, &count));
  bits = t->dtype.bits;
  minimum = t->dtype.code == kDLInt ? -((int64_t)1 << (bits - 1)) : 0;
  maximum = minimum + ((int64_t)1 << bits); /* exclusive */
  if (low < minimum) low = minimum;
  if (high > maximum) high = maximum;
  if (high <= low) {
    return tvmrt__fail_value("%s: high must be bigger than low, within the range of the tensor.",
                             in.callee);
  }
  for (uint64_t i = 0; i < count; ++i) {
    /* The modulo bias is less than 2^-31, since the range has at most 32 bits. */
    int64_t value = low + (int64_t)(draw() % (uint64_t)(high - low));
    int32_t v32 = (int32_t)(uint32_t)value;
    int16_t v16 = (int16_t)(uint16_t)value;
    int8_t v8 = (int8_t)(uint8_t)value;
    const void* from = bits == 32 ? (const void*)&v32 : bits == 16 ? (const void*)&v16 : &v8;
    memcpy(tvmrt__tensor_data(t) + i * (bits / 8), from, bits / 8);
  }
  return 0;
}
