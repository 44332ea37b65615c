/* Messages in frames with a checksum, in the format of the firmware. */
#ifndef TVMRT_SRC_RUNTIME_SDK_FRAMES_H_
#define TVMRT_SRC_RUNTIME_SDK_FRAMES_H_

#include "../firmware/remote/frames.h"

#endif
