/*!
 * \file scalar/sigmoid_table.h
 * \brief The logistic function and tanh from one look-up table, as in the kernels of TensorFlow
 * Lite Micro, without floating point.
 *
 * Fractions are in units of 2 ^ -15; operands are above INT32_MIN.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_SIGMOID_TABLE_H_
#define TVM_RUNTIME_KERNELS_SCALAR_SIGMOID_TABLE_H_

#include <stdint.h>

#include "pairs.h"

/* the logistic function of i / 24 in units of 2 ^ -16 */
TVMRT_TABLE(uint16_t, tvmrt_gate_table, 256, 32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513,
            38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688, 43304, 43912, 44511, 45102,
            45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
            51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174,
            56503, 56823, 57133, 57433, 57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519,
            59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110, 61279, 61441, 61599, 61750,
            61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
            63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090,
            64148, 64204, 64257, 64308, 64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652,
            64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900, 64926, 64950, 64974, 64997,
            65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
            65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337,
            65345, 65352, 65360, 65367, 65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415,
            65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449, 65453, 65456, 65459, 65462,
            65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
            65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509,
            65510, 65511, 65512, 65513, 65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520,
            65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524, 65525, 65525, 65526, 65526,
            65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
            65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532,
            65532, 65533, 65533, 65533, 65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534,
            65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535);
#define tvmrt_gate_table tvmrt_gate_table

/*! \brief Interpolate the table at v / 2 ^ bits for v >= 0, times 2 ^ bits; else `beyond`. */
static inline int32_t tvmrt_gate_interpolate(int32_t v, int32_t bits, int32_t beyond) {
  const int32_t index = v >> bits;
  if (index >= 255) return beyond;
  const int32_t entry = tvmrt_gate_table[0][index];
  const int32_t slope = tvmrt_gate_table[0][index + 1] - entry;
  return entry * (1 << bits) + slope * (v & ((1 << bits) - 1));
}

/*! \brief The logistic function of v / 24 / 2 ^ 9, as a fraction. */
static inline int32_t tvmrt_fixed_logistic_by_table(int32_t v) {
  const int32_t r = tvmrt_gate_interpolate(v < 0 ? -v : v, 9, INT32_C(32767) << 10);
  return (v < 0 ? (INT32_C(1) << 25) - r + 511 : r + 512) >> 10;
}

/*! \brief tanh of v / 48 / 2 ^ 8, as a fraction. */
static inline int32_t tvmrt_fixed_tanh_by_table(int32_t v) {
  const int32_t r = tvmrt_gate_interpolate(v < 0 ? -v : v, 8, INT32_C(65535) << 8);
  return (v < 0 ? (INT32_C(1) << 23) - r + 127 : r - (INT32_C(1) << 23) + 128) >> 8;
}

#endif  // TVM_RUNTIME_KERNELS_SCALAR_SIGMOID_TABLE_H_
