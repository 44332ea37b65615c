/* Operators whose operands broadcast to the result, or whose only operand has the result's shape.
 * `docs/generate_reference.py` makes this file from the contracts of the operators. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_
#define TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_

/* One text, which needs no relocation when the library is loaded, unlike pointers. The names end
 * with a zero each, and the list with an empty name. */
static const char pointwise_operators[] =
    "abs\0acos\0acosh\0add\0asin\0asinh\0atan\0atanh\0bit_and\0bit_cast\0bit_not\0"
    "bit_or\0bit_xor\0cast\0ceil\0cos\0cosh\0cumulative_product\0cumulative_sum\0"
    "dequantize\0div\0equal\0erf\0exp\0expm1\0fixed_difference\0fixed_inverse_root\0"
    "fixed_inverse_root_exponent\0fixed_logistic16\0fixed_logistic_by_table\0"
    "fixed_pair_product\0fixed_product\0fixed_reciprocal\0fixed_scale\0fixed_scale_by\0"
    "fixed_scale_wide\0fixed_shift\0fixed_sum\0fixed_tanh16\0fixed_tanh_by_table\0"
    "float_scale\0floor\0floor_mod\0greater\0greater_equal\0identity\0is_inf\0is_nan\0"
    "leading_zeros\0less\0less_equal\0log\0logical_and\0logical_not\0logical_or\0"
    "logical_xor\0max\0min\0mul\0narrow\0neg\0pow\0pow_whole\0prelu\0quantize\0"
    "reciprocal\0relu\0round\0round_away\0shift_left\0shift_right\0sigmoid\0sign\0"
    "signal_log\0signal_root\0signal_window\0sin\0sinh\0softmax\0softplus\0sqrt\0sub\0"
    "tan\0tanh\0text_find\0text_in\0text_out\0text_parts\0text_to_number\0trunc_mod\0"
    "where\0wide_product\0widen\0";

#endif /* TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_ */
