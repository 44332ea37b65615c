/*! \file streams.h
 * \brief Transfers a thread's current stream to the other side for the duration of a call.
 *
 * Each side has a current stream per device and thread. If the caller has set one, it is
 * transferred for the device of the first tensor outside the CPU's memory, as in tvm-ffi's
 * frontend. The callee's stream is restored after the call. */
#ifndef TVMRT_PLUGINS_TVM_FFI_STREAMS_H_
#define TVMRT_PLUGINS_TVM_FFI_STREAMS_H_

#include "abi.h"

typedef struct {
  DLDevice device;
  void* before; /* the callee's stream */
  /*! Sets the callee's stream; NULL if it was not changed. */
  int (*set)(int32_t type, int32_t id, void* stream, void** old);
} BridgeStream;

/*! \brief Before a tvm-ffi call with these arguments; -1 with the error text set. */
int bridge_stream_to_ffi(BridgeStream* stream, const FfiAny* args, int count);
/*! \brief Before a classic call with these arguments; -1 with the error text set. */
int bridge_stream_to_classic(BridgeStream* stream, const FfiAny* args, int count);
/*! \brief Restore the callee's stream, after the call or after a failure of it. */
void bridge_stream_restore(const BridgeStream* stream);

#endif /* TVMRT_PLUGINS_TVM_FFI_STREAMS_H_ */
