/* Functions of the rpc plug-in. */
#ifndef TVMRT_PLUGINS_RPC_FUNCTIONS_H_
#define TVMRT_PLUGINS_RPC_FUNCTIONS_H_

#include "sdk/plugin.h"

#define RPC_FUNCTIONS(X)                              \
  X("device_api.rpc", rpc_memory_device)              \
  X("micro._rpc_connect", rpc_connect_board)          \
  X("rpc.Connect", rpc_connect)                       \
  X("rpc.DeviceAttr", rpc_device_attribute)           \
  X("rpc.ImportRemoteModule", rpc_import_remote)      \
  X("rpc.LoadRemoteModule", rpc_load_remote)          \
  X("rpc.LocalSession", rpc_local_session)            \
  X("rpc.ReturnException", rpc_return_exception)      \
  X("rpc.ServerLoop", rpc_server_loop)                \
  X("rpc.SessTableIndex", rpc_table_index)            \
  X("rpc.TimeEvaluator", rpc_time_evaluator)          \
  X("tvm.rpc.server.ImportModule", rpc_import_module) \
  X("tvm.rpc.server.download", rpc_download)          \
  X("tvm.rpc.server.listdir", rpc_listdir)            \
  X("tvm.rpc.server.load_module", rpc_load_module)    \
  X("tvm.rpc.server.remove", rpc_remove_file)         \
  X("tvm.rpc.server.upload", rpc_upload)              \
  X("tvm.rpc.server.workpath", rpc_workpath)          \
  X("tvmrt.rpc.server_functions", rpc_server_functions)

RPC_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
