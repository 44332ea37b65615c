/*!
 * \file tvm/runtime/crt/logging.h
 * \brief Log levels and macros for firmware programs. The libraries here log nothing.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_LOGGING_H_
#define TVM_RUNTIME_CRT_LOGGING_H_

#include <tvm/runtime/crt/platform.h> /* TVMPlatformAbort(), as programs written for TVM expect */

#define TVM_CRT_LOG_LEVEL_ERROR 0
#define TVM_CRT_LOG_LEVEL_WARN 1
#define TVM_CRT_LOG_LEVEL_INFO 2
#define TVM_CRT_LOG_LEVEL_DEBUG 3

/*! \brief Messages above this level are compiled out. */
#ifndef TVM_CRT_LOG_LEVEL
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_ERROR
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Print a message; defined by the program. */
#if defined(__GNUC__)
void TVMLogf(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
#else
void TVMLogf(const char* fmt, ...);
#endif

#ifdef __cplusplus
}
#endif

/*! \brief Print a message at a log level. */
#define TVMRT_LOG_AT(level, ...)                            \
  do {                                                      \
    if ((level) <= TVM_CRT_LOG_LEVEL) TVMLogf(__VA_ARGS__); \
  } while (0)

#define TVM_LOG_ERROR(...) TVMRT_LOG_AT(TVM_CRT_LOG_LEVEL_ERROR, __VA_ARGS__)
#define TVM_LOG_WARN(...) TVMRT_LOG_AT(TVM_CRT_LOG_LEVEL_WARN, __VA_ARGS__)
#define TVM_LOG_INFO(...) TVMRT_LOG_AT(TVM_CRT_LOG_LEVEL_INFO, __VA_ARGS__)
#define TVM_LOG_DEBUG(...) TVMRT_LOG_AT(TVM_CRT_LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif /* TVM_RUNTIME_CRT_LOGGING_H_ */
