/* Windows' own header, and conversion of its texts. */
#ifndef TVMRT_SRC_RUNTIME_SDK_WINDOWS_H_
#define TVMRT_SRC_RUNTIME_SDK_WINDOWS_H_

#include "../platform/windows_api.h"

#endif
