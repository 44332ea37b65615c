/*! \file streams.h
 *  \brief The stream that a thread uses, on the other side for the time of a call.
 *
 * Either side has a stream of each device for each thread. It is taken over for the device of the first
 * tensor that does not lie in the CPU's memory, as tvm-ffi's own front end does, where the caller has set
 * one; what the callee's side had comes back after the call. */
#ifndef TVMRT_PLUGINS_TVM_FFI_STREAMS_H_
#define TVMRT_PLUGINS_TVM_FFI_STREAMS_H_

#include "abi.h"

typedef struct {
  DLDevice device;
  void* before;
  int is_changed;
} BridgeStream;

/*! \brief Before a call of the other side with these arguments; -1 with the error text set. */
int bridge_stream_to_ffi(BridgeStream* stream, const FfiAny* args, int count);
/*! \brief After it. */
void bridge_stream_back_to_ffi(const BridgeStream* stream);
/*! \brief Before a call of a classic function with these arguments; -1 with the error text set. */
int bridge_stream_to_classic(BridgeStream* stream, const FfiAny* args, int count);
/*! \brief After it. */
void bridge_stream_back_to_classic(const BridgeStream* stream);

#endif /* TVMRT_PLUGINS_TVM_FFI_STREAMS_H_ */
