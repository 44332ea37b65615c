/* Tensors and their memory. */
#ifndef TVMRT_SRC_RUNTIME_SDK_TENSORS_H_
#define TVMRT_SRC_RUNTIME_SDK_TENSORS_H_

#include "../core/dtype.h"
#include "../tensors/memory_device.h"
#include "../tensors/tensor.h"

#endif
