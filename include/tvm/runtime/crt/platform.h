/*!
 * \file tvm/runtime/crt/platform.h
 * \brief Board functions of older firmware runtimes, so that their code compiles unchanged.
 *
 * Of these, the libraries here call only TVMPlatformMemoryAllocate() and TVMPlatformMemoryFree(),
 * see tvm/runtime/platform.h; they never abort, print or read a timer on firmware.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_PLATFORM_H_
#define TVM_RUNTIME_CRT_PLATFORM_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/platform.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief End the program because of an error. Does not return. */
#if defined(__GNUC__)
void TVMPlatformAbort(tvm_crt_error_t code) __attribute__((noreturn));
#else
void TVMPlatformAbort(tvm_crt_error_t code);
#endif

/*! \brief vsnprintf of the board. \return Length of the whole text in bytes, without NUL. */
size_t TVMPlatformFormatMessage(char* out_buf, size_t out_buf_size_bytes, const char* fmt,
                                va_list args);

/*! \brief Start the board's timer. */
tvm_crt_error_t TVMPlatformTimerStart(void);

/*! \brief Stop the board's timer. \param elapsed_time_seconds [out] Time since the start. */
tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds);

/*! \brief Called before a measurement. */
tvm_crt_error_t TVMPlatformBeforeMeasurement(void);

/*! \brief Called after a measurement. */
tvm_crt_error_t TVMPlatformAfterMeasurement(void);

/*! \brief Fill a buffer with random bytes. */
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes);

/*! \brief Initialise the board: clocks, caches, consoles. */
tvm_crt_error_t TVMPlatformInitialize(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PLATFORM_H_ */
