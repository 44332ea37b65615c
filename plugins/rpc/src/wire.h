/* Packets of remote calls in growing memory, and their errors as texts. */
#ifndef TVMRT_PLUGINS_RPC_WIRE_H_
#define TVMRT_PLUGINS_RPC_WIRE_H_

#include "sdk/base.h"
#include "sdk/remote_calls.h"

/* Reads and writes are those of firmware/remote/remote_values.c. */

void tvmrt__rpc_writer_free(remote_writer* out);
/* Success if a tensor can be described by a packet, which has no strides. */
int tvmrt__rpc_check_tensor(const DLTensor* t);

#endif
