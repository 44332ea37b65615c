/*!
 * \file tvm/runtime/crt/config_defaults.h
 * \brief Limits of the firmware headers. The application's crt_config.h overrides them.
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
/*! \brief Maximum number of dimensions of a tensor. */
#ifndef TVM_CRT_MAX_NDIM
#define TVM_CRT_MAX_NDIM 6
#endif
/*! \brief Maximum number of arguments in a TVMArgs. */
#ifndef TVM_CRT_MAX_ARGS
#define TVM_CRT_MAX_ARGS 10
#endif
/*! \brief Maximum length of a data type's name in bytes, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_DLTYPE
#define TVM_CRT_MAX_STRLEN_DLTYPE 10
#endif
/*! \brief Maximum length of a function's name in bytes, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
#define TVM_CRT_MAX_STRLEN_FUNCTION_NAME 120
#endif
/*! \brief Maximum length of a parameter's name in bytes, with NUL. */
#ifndef TVM_CRT_MAX_STRLEN_PARAM_NAME
#define TVM_CRT_MAX_STRLEN_PARAM_NAME 80
#endif
/*! \brief Maximum number of modules at the same time. */
#ifndef TVM_CRT_MAX_REGISTERED_MODULES
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#endif
/*! \brief Size of the table of global functions in bytes. */
#ifndef TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#endif
/*! \brief Maximum length of a message of a remote session in bytes. */
#ifndef TVM_CRT_MAX_PACKET_SIZE_BYTES
#define TVM_CRT_MAX_PACKET_SIZE_BYTES 2048
#endif

#endif /* TVM_RUNTIME_CRT_CONFIG_DEFAULTS_H_ */
