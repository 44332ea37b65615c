/* Packets, values and the server of remote calls, as boards have them; needs TVMRT_REMOTE_HOST. */
#ifndef TVMRT_SRC_RUNTIME_SDK_REMOTE_CALLS_H_
#define TVMRT_SRC_RUNTIME_SDK_REMOTE_CALLS_H_

#include "../firmware/remote/remote.h"

#endif
