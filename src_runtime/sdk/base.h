/* Errors and buffers, byte streams, JSON text. */
#ifndef TVMRT_SRC_RUNTIME_SDK_BASE_H_
#define TVMRT_SRC_RUNTIME_SDK_BASE_H_

#include "../base/error.h"
#include "../base/json.h"
#include "../base/stream.h"

#endif
