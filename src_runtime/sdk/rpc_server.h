/* The functions of <tvm/runtime/rpc_server.h>, which the runtime library exports. */
#ifndef TVMRT_SRC_RUNTIME_SDK_RPC_SERVER_H_
#define TVMRT_SRC_RUNTIME_SDK_RPC_SERVER_H_

#include "../modules/rpc_server.h"

#endif
