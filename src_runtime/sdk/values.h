/* Packed functions and their arguments, objects, containers, the global registry. */
#ifndef TVMRT_SRC_RUNTIME_SDK_VALUES_H_
#define TVMRT_SRC_RUNTIME_SDK_VALUES_H_

#include "../core/container.h"
#include "../core/function.h"
#include "../core/object.h"

#endif
