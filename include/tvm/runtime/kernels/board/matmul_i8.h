/*!
 * \file board/matmul_i8.h
 * \brief Matrix multiplication of 8-bit tensors on microcontrollers, where both operands are
 * computed: the right one is packed as weights, then a dense layer multiplies them.
 *
 * The header of the dense kernel is included first; without it, this file is empty. It defines
 * tvmrt_micro_packed_at(), which returns the position of a weight.
 */
#if defined(TVMRT_MICRO_UNIT) && !defined(TVM_RUNTIME_KERNELS_BOARD_MATMUL_I8_H_)
#define TVM_RUNTIME_KERNELS_BOARD_MATMUL_I8_H_

#include "common_i8.h"

/*! \brief A right operand computed at run time. */
typedef struct tvmrt_micro_right {
  const void* b;
  int32_t k_stride; /*!< Bytes from b[k][n] to b[k + 1][n]. */
  int32_t n_stride; /*!< Bytes from b[k][n] to b[k][n + 1]. */
  int16_t zero;     /*!< Zero point. */
  int8_t is_signed; /*!< 1: int8, 0: uint8, which is stored minus 128. */
  int32_t weights;  /*!< Bytes of packed weights. */
  int32_t biases;   /*!< Number of biases, padding included. */
} tvmrt_micro_right;

/*! \brief Pack b as weights, and fold the zero point of x into biases. */
static inline void tvmrt_micro_pack_right(const tvmrt_micro_conv_i8* c, const tvmrt_micro_right* b,
                                          int8_t* weights, int32_t* bias) {
  const int32_t flip = b->is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  const int32_t zero = b->is_signed ? b->zero : b->zero - 128;
  const int32_t x_zero = c->x_zero - tvmrt_micro_zero_byte(c);
  memset(weights, 0, (size_t)b->weights);
  memset(bias, 0, (size_t)b->biases * sizeof(*bias));
  for (int32_t n = 0; n < c->shape.out_c; n++) {
#ifdef TVMRT_MICRO_FLAG_SPAN /* all blocks are split, since sums of any weights must fit */
    for (int32_t k = 0; n % 4 == 0 && k < c->shape.in_c; k += TVMRT_MICRO_FLAG_SPAN) {
      memset(weights + tvmrt_micro_packed_at(c, n, k) - 4, 0xFF, 4);
    }
#endif
    const uint8_t* p = (const uint8_t*)b->b + n * b->n_stride;
    int32_t sum = 0;
    for (int32_t k = 0; k < c->shape.in_c; k++, p += b->k_stride) {
      const int32_t v = (*p ^ flip) - 0x80;
      weights[tvmrt_micro_packed_at(c, n, k)] = (int8_t)v;
      sum += v - zero;
    }
    bias[n] = TVMRT_WRAP_NEG(TVMRT_WRAP_MULTIPLY(x_zero, sum));
  }
}

/*!
 * \brief y = x * b.
 *
 * \param c    [in] The product as a 1 x 1 convolution whose pixels are the rows of x.
 * \param data [in] The tensors; weights and bias are set here. shift: 128 minus the zero point of a
 * uint8 operand, minus the zero point of an int8 one, for each column; NULL if it is 0.
 * \param b    [in] The right operand.
 *
 * `tile` and `kind`, errors and threads: as of tvmrt_micro_conv_i8_run().
 */
static inline int tvmrt_micro_matmul_i8(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        const tvmrt_micro_right* b, int tile,
                                        tvmrt_micro_window_kind kind) {
  tvmrt_micro_data own = *data;
  const int32_t bytes = (b->weights + 7) & ~7;
  uint8_t* const scratch = (uint8_t*)tvmrt_scratch_alloc(bytes + 4 * (int64_t)b->biases);
  if (scratch == NULL) return -1;
  int32_t* const bias = (int32_t*)(void*)(scratch + bytes);
  tvmrt_micro_pack_right(c, b, (int8_t*)scratch, bias);
  own.weights = scratch;
  own.bias = bias;
  const int rc = tvmrt_micro_conv_i8_run(c, &own, tile, kind);
  if (tvmrt_scratch_free(scratch) != 0) return -1;
  return rc;
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_MATMUL_I8_H_ */
