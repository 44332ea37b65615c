/* Functions of the rpc plug-in. */
#ifndef TVMRT_PLUGINS_RPC_FUNCTIONS_H_
#define TVMRT_PLUGINS_RPC_FUNCTIONS_H_

#include "sdk/plugin.h"

#define RPC_FUNCTIONS(X)                         \
  X("device_api.rpc", rpc_memory_device)         \
  X("micro._rpc_connect", rpc_connect_board)     \
  X("rpc.Connect", rpc_connect)                  \
  X("rpc.DeviceAttr", rpc_device_attribute)      \
  X("rpc.LocalSession", rpc_local_session)       \
  X("rpc.ReturnException", rpc_return_exception) \
  X("rpc.ServerLoop", rpc_server_loop)           \
  X("rpc.SessTableIndex", rpc_table_index)       \
  X("rpc.TimeEvaluator", rpc_time_evaluator)

RPC_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
