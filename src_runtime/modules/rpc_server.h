/* Function table of <tvm/runtime/rpc_server.h>, implemented by the RPC plug-in. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_RPC_SERVER_H_
#define TVMRT_SRC_RUNTIME_MODULES_RPC_SERVER_H_

#include <tvm/runtime/rpc_server.h>

/* The global function that returns the struct as a kTVMOpaqueHandle. */
#define TVMRT_RPC_SERVER_FUNCTIONS "tvmrt.rpc.server_functions"

/* Names as in the public header. Static. */
typedef struct tvmrt_rpc_server_functions {
  int (*open)(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out);
  int (*port)(const tvmrt_rpc_server* server);
  int (*run)(tvmrt_rpc_server* server);
  void (*stop)(tvmrt_rpc_server* server);
  int (*stop_fd)(const tvmrt_rpc_server* server);
  void (*close)(tvmrt_rpc_server* server);
} tvmrt_rpc_server_functions;

/* First member of each server. */
typedef struct tvmrt_rpc_server_head {
  const tvmrt_rpc_server_functions* functions;
} tvmrt_rpc_server_head;

#endif
