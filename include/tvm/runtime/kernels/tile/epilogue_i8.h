/*!
 * \file epilogue_i8.h
 * \brief Interface between integer matmul kernels and their epilogues.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_EPILOGUE_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_EPILOGUE_I8_H_

#include <stdint.h>

/*! \brief Finished int32 sums of neighbouring output pixels, for a row epilogue. */
typedef struct tvmrt_i8_rows {
  const int32_t* acc; /*!< Sums of the first pixel, first channel of this call; bias is added. */
  int64_t acc_stride; /*!< Pixel stride of acc in elements. */
  int64_t pixel;      /*!< Index of the first pixel in the output, counted from data->y. */
  int32_t pixels;     /*!< Number of pixels. */
  int32_t channel;    /*!< First channel of this call. */
  int32_t channels; /*!< Channels in this call; the sums of a pixel are padded to whole vectors. */
  void* y;          /*!< Output of the first pixel, first channel of this call. */
  int64_t y_stride; /*!< Pixel stride of y in elements. */
} tvmrt_i8_rows;

/*!
 * \brief Epilogue of an integer kernel beyond requantisation: see tile/requantize.h for the
 * predefined ones; generated code adds others. Called while the sums are in the cache, concurrently
 * from several threads.
 */
typedef void (*tvmrt_i8_epilogue)(const tvmrt_i8_rows* rows, const void* ctx);

#endif /* TVM_RUNTIME_KERNELS_TILE_EPILOGUE_I8_H_ */
