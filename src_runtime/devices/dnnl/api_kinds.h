/*
 * What oneDNN is told of each kind of primitive, for api_2.c and api_3.c: the same in both and in the
 * same order, but for names of functions and for what IN_3() holds.
 */
#ifndef TVMRT_DEVICES_DNNL_API_KINDS_H_
#define TVMRT_DEVICES_DNNL_API_KINDS_H_

#include "api.h"

#define FORWARD dnnl_forward_inference
#define MD(name) api_md(op->name)
#define WEIGHTED MD(src), MD(weights), MD(bias), MD(dst)
/* Dilations count the gaps between elements: 0 is a window without any. */
#define WINDOW op->dilations, op->before, op->after
/* One direction at a time: nodes of both are two cells to the compiler. */
#define DIRECTION (op->reversed ? dnnl_unidirectional_right2left : dnnl_unidirectional_left2right)
/* What a cell with one state has; the last argument is for flags. */
#define CELL MD(src), MD(state), MD(weights), MD(recurrence), MD(bias), MD(dst), MD(new_state), 0
#define LSTM_IN MD(src), MD(state), MD(cell), MD(weights), MD(recurrence)
#define LSTM_OUT MD(bias), MD(dst), MD(new_state), MD(new_cell), 0

/*
 * X(kind, function of version 2, of version 3, arguments...)
 *
 * - Convolutions by the direct algorithm alone: others transform their operands and round otherwise.
 *   A transposed one is told the windows of the convolution that it undoes.
 * - `constant` of a reduction is what some algorithms add; those used here ignore it.
 * - Resampling has no factors (NULL): they follow from the extents. Normalisations get no statistics
 *   from outside (NULL).
 * - Version 2 is told of no result where that has the operand's layout.
 * - LSTM cells have neither peepholes nor projections, the two that are NULL in version 3.
 * - "lbr": linear before reset, with a bias of its own for the recurrence.
 */
#define API_KINDS(X)                                                                              \
  X(API_CONV, dilated_convolution_forward, convolution_forward, FORWARD, dnnl_convolution_direct, \
    WEIGHTED, op->strides, WINDOW)                                                                \
  X(API_DECONV, dilated_deconvolution_forward, deconvolution_forward, FORWARD,                    \
    dnnl_deconvolution_direct, WEIGHTED, op->strides, WINDOW)                                     \
  X(API_MATMUL, matmul, matmul, WEIGHTED)                                                         \
  X(API_POOL, pooling_v2_forward, pooling_forward, FORWARD, op->alg, MD(src), MD(dst),            \
    op->strides, op->kernel, WINDOW)                                                              \
  X(API_REDUCTION, reduction, reduction, op->alg, MD(src), MD(dst), op->alpha, op->constant)      \
  X(API_NEAREST, resampling_forward, resampling_forward, FORWARD, dnnl_resampling_nearest, NULL,  \
    MD(src), MD(dst))                                                                             \
  X(API_SOFTMAX, softmax_v2_forward, softmax_forward, FORWARD, op->alg, MD(src), MD(dst),         \
    op->axis)                                                                                     \
  X(API_LAYER_NORM, layer_normalization_forward, layer_normalization_forward, FORWARD,            \
    MD(src) IN_3(MD(dst)), NULL, op->constant, op->flags)                                         \
  X(API_LRN, lrn_forward, lrn_forward, FORWARD, dnnl_lrn_across_channels, MD(src) IN_3(MD(dst)),  \
    op->size, op->alpha, op->beta, op->constant)                                                  \
  X(API_ELTWISE, eltwise_forward, eltwise_forward, FORWARD, op->alg, MD(src) IN_3(MD(dst)),       \
    op->alpha, op->beta)                                                                          \
  X(API_BINARY, binary, binary, op->alg, MD(src), MD(weights), MD(dst))                           \
  X(API_PRELU, prelu_forward, prelu_forward, FORWARD, MD(src), MD(weights) IN_3(MD(dst)))         \
  X(API_LSTM, lstm_forward, lstm_forward, FORWARD, DIRECTION, LSTM_IN IN_3(NULL, NULL), LSTM_OUT) \
  X(API_GRU, gru_forward, gru_forward, FORWARD, DIRECTION, CELL)                                  \
  X(API_GRU_BEFORE_RESET, lbr_gru_forward, lbr_gru_forward, FORWARD, DIRECTION, CELL)             \
  X(API_RNN, vanilla_rnn_forward, vanilla_rnn_forward, FORWARD, op->alg, DIRECTION, CELL,         \
    op->alpha, op->beta)

#endif
