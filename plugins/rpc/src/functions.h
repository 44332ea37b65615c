/* Functions of the rpc plug-in. */
#ifndef TVMRT_PLUGINS_RPC_FUNCTIONS_H_
#define TVMRT_PLUGINS_RPC_FUNCTIONS_H_

#include "sdk/plugin.h"

#define RPC_FUNCTIONS(X)                        \
  X("device_api.rpc", rpc_memory_device)        \
  X("rpc.ClientSession", rpc_client_session)    \
  X("rpc.ServerLoop", rpc_server_loop)          \
  X("rpc.SessTableIndex", rpc_table_index)      \
  X("rpc.SetPacketLimit", rpc_set_packet_limit) \
  X("rpc.TimeEvaluator", rpc_time_evaluator)

RPC_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
