/*!
 * \file tvm/runtime/crt/config_defaults.h
 * \brief Limits of the firmware headers. A crt_config.h of the application's own goes first.
 */
#ifndef TVM_RUNTIME_CRT_CONFIG_DEFAULTS_H_
#define TVM_RUNTIME_CRT_CONFIG_DEFAULTS_H_

#if defined(__has_include)
#if __has_include(<crt_config.h>)
#include <crt_config.h>
#endif
#endif

/*! \brief Whether debug text is logged. */
#ifndef TVM_CRT_DEBUG
#define TVM_CRT_DEBUG 0
#endif
/*! \brief Most dimensions of a tensor. */
#ifndef TVM_CRT_MAX_NDIM
#define TVM_CRT_MAX_NDIM 6
#endif
/*! \brief Most arguments in a TVMArgs. */
#ifndef TVM_CRT_MAX_ARGS
#define TVM_CRT_MAX_ARGS 10
#endif
/*! \brief Longest text of a data type, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_DLTYPE
#define TVM_CRT_MAX_STRLEN_DLTYPE 10
#endif
/*! \brief Longest name of a function, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
#define TVM_CRT_MAX_STRLEN_FUNCTION_NAME 120
#endif
/*! \brief Longest name of a parameter, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_PARAM_NAME
#define TVM_CRT_MAX_STRLEN_PARAM_NAME 80
#endif
/*! \brief Most modules at a time. */
#ifndef TVM_CRT_MAX_REGISTERED_MODULES
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#endif
/*! \brief Bytes of the table of global functions. */
#ifndef TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#endif
/*! \brief Longest message of a remote session. */
#ifndef TVM_CRT_MAX_PACKET_SIZE_BYTES
#define TVM_CRT_MAX_PACKET_SIZE_BYTES 2048
#endif

#endif /* TVM_RUNTIME_CRT_CONFIG_DEFAULTS_H_ */
