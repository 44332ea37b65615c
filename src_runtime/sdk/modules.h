/* Types of modules, and functions to create them. */
#ifndef TVMRT_SRC_RUNTIME_SDK_MODULES_H_
#define TVMRT_SRC_RUNTIME_SDK_MODULES_H_

#include "../modules/module.h"

#endif
