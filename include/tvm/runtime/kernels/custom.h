/*!
 * \file tvm/runtime/kernels/custom.h
 * \brief Arguments of the C bodies of custom operators: the shapes of their operands.
 *
 * A body is a static function. Its parameters are a pointer to the elements and a tvmrt_shape for
 * each input and output in order, then the scalar parameters, then scratch memory if its
 * declaration requests some:
 *
 *     static int32_t scale_f32(const float* x, const tvmrt_shape* x_shape, float* y,
 *                              const tvmrt_shape* y_shape, float factor) {
 *       (void)y_shape;
 *       for (int64_t i = 0; i < x_shape->size; ++i) y[i] = factor * x[i];
 *       return 0;
 *     }
 *
 * Shapes are constants at the call, so the C compiler knows the loop bounds. Elements are
 * contiguous, row-major or in the layout that the declaration names. Half-precision elements are
 * uint16_t, see scalar/half.h; bool elements are uint8_t.
 *
 * Errors:    0, or -1 after TVMAPISetLastError() with a text.
 * Ownership: everything is borrowed for the call. Inputs and outputs never overlap.
 * Threads:   several threads may call one body at the same time; it keeps no state.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_KERNELS_CUSTOM_H_
#define TVM_RUNTIME_KERNELS_CUSTOM_H_

#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

/*! \brief Maximum dimensions of an operand. */
#define TVMRT_SHAPE_MAX_DIMS 8

/*! \brief Logical extents of a tensor, [N, C, *spatial] for images in every layout. */
typedef struct tvmrt_shape {
  int32_t ndim;                      /*!< 0 for a scalar. */
  int64_t size;                      /*!< Product of the extents: number of elements. */
  int64_t dim[TVMRT_SHAPE_MAX_DIMS]; /*!< Extents in elements; the first ndim are valid. */
} tvmrt_shape;

#endif /* TVM_RUNTIME_KERNELS_CUSTOM_H_ */
