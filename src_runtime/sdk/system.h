/* Time, threads, locks, files, libraries. */
#ifndef TVMRT_SRC_RUNTIME_SDK_SYSTEM_H_
#define TVMRT_SRC_RUNTIME_SDK_SYSTEM_H_

#include "../platform/compiler.h"
#include "../platform/files.h"
#include "../platform/float_to_int.h"
#include "../platform/loading.h"
#include "../platform/system.h"
#include "../platform/threads.h"

#endif
