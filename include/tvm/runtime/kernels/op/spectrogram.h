/*!
 * \file spectrogram.h
 * \brief Spectra of overlapping frames of a signal (STFT).
 */
#ifndef TVM_RUNTIME_KERNELS_OP_SPECTROGRAM_H_
#define TVM_RUNTIME_KERNELS_OP_SPECTROGRAM_H_

#include <math.h>
#include <stdint.h>

#include "fft.h"

/*! \brief Parameters of the transform. */
typedef struct tvmrt_spectrogram_f32_layer {
  int32_t channels; /* of the signal, interleaved */
  int32_t frames;
  int32_t step;    /* samples from one frame to the next */
  int32_t width;   /* samples of a frame, at most the length of the transform */
  int32_t squared; /* power spectrum, else magnitudes */
} tvmrt_spectrogram_f32_layer;

/*!
 * \brief Magnitudes (or squares) of the spectrum of each frame.
 *
 * \param x [in] samples of channels.
 * \param window [in] a weight for each sample of a frame.
 * \param y [out] [channels][frames][fft->size + 1].
 * \param work [scratch] the samples of a frame, then two floats for each of its spectrum.
 */
static inline void tvmrt_spectrogram_f32(const tvmrt_spectrogram_f32_layer* layer,
                                         const tvmrt_fft* fft, const float* x, const float* window,
                                         float* y, float* work) {
  float* const spectrum = work + layer->width;
  const int32_t bins = fft->size + 1;
  for (int32_t c = 0; c < layer->channels; ++c) {
    for (int32_t t = 0; t < layer->frames; ++t) {
      const float* const in = x + (int64_t)t * layer->step * layer->channels + c;
      for (int32_t i = 0; i < layer->width; ++i) {
        work[i] = window[i] * in[(int64_t)i * layer->channels];
      }
      tvmrt_rfft_float32(fft, work, layer->width, spectrum);
      for (int32_t k = 0; k < bins; ++k) {
        const float re = spectrum[2 * k], im = spectrum[2 * k + 1];
        const float energy = re * re + im * im;
        *y++ = layer->squared ? energy : sqrtf(energy);
      }
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_OP_SPECTROGRAM_H_ */
