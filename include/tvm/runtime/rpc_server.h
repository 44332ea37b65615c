/*!
 * \file tvm/runtime/rpc_server.h
 * \brief A server for remote calls: what runs on a phone or a Linux board, so that a client elsewhere
 *        uploads libraries, loads them, calls their functions and copies tensors.
 *
 * It speaks the protocol of TVM 0.8 to 0.18; their clients and trackers are served as tvmrt's are.
 *
 * Who has the key can run any code as the server's user: that is what the server is for. By default it
 * listens at the loopback address only. The key goes over the network as it is: in a network that
 * others share let the server stay at the loopback address and come through ssh -L.
 *
 * Each session is a process of its own, with a folder of its own that goes with it: a client that
 * crashes its session, or sends what is no packet, ends that session and nothing else. A connection that
 * has not sent the key takes no session and delays no other client: it has greet_seconds, in all, and
 * where 128 wait, the oldest without the key is closed for the next one. So the program
 * that runs a server should have few other threads: their locks are held for good in those processes.
 *
 * On Windows processes cannot be split: for each session the program is started again, with its
 * command line, and serves the session in tvmrt_rpc_server_run(). So it must reach that call again by
 * the same way; servers are told apart by the order in which they are opened.
 *
 * C99 and C++ clean. POSIX systems and Windows.
 */
#ifndef TVM_RUNTIME_RPC_SERVER_H_
#define TVM_RUNTIME_RPC_SERVER_H_

#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief What a server is asked for. All zero, struct_bytes aside, takes what stands in brackets.
 *
 * Texts are borrowed while the server exists.
 */
typedef struct tvmrt_rpc_server_options {
  size_t struct_bytes; /*!< sizeof(tvmrt_rpc_server_options). */
  const char* host;    /*!< Address to listen at ["127.0.0.1"]; "0.0.0.0" for all of IPv4. */
  int port;            /*!< First port to try [any that is free]. */
  int port_end;        /*!< Ports below it are tried in their order [port + 1]. */
  const char* key;     /*!< What clients must say [""]. */
  const char* tracker; /*!< "host:port" of a tracker to register at [none]. */
  const char*
      custom_addr;        /*!< Address that the tracker tells clients [where it sees the server]. */
  int max_sessions;       /*!< At a time; further clients wait [1, so that times can be trusted]. */
  double greet_seconds;   /*!< For a client to tell its key, from the first byte to the last [5]. */
  double idle_seconds;    /*!< Without a byte, then the session ends [no limit]. */
  double session_seconds; /*!< For a whole session [no limit]. A client may ask for less. */
  uint64_t packet_bytes;  /*!< Of one call's values and texts, uploads among them [2 GiB]. */
  uint64_t memory_bytes;  /*!< Of a session's tensors; of its files as much again [16 GiB]. */
  /*! Called with a line for a log, on the thread that runs the server [none]. */
  void (*log)(void* context, const char* line);
  void* context; /*!< For log. */
  /*! "host:port" of a proxy to wait at for clients of the key, in place of listening [none]. */
  const char* proxy;
} tvmrt_rpc_server_options;

/*! \brief A server. Opaque. */
typedef struct tvmrt_rpc_server tvmrt_rpc_server;

/*!
 * \brief Begin to listen.
 * \param options [in] See above.
 * \param out     [out] Owned; released by tvmrt_rpc_server_close(). NULL on failure.
 * \return 0; -1 if no port is free or an option makes no sense.
 */
TVM_DLL int tvmrt_rpc_server_open(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out);

/*! \brief The port that the server listens at. */
TVM_DLL int tvmrt_rpc_server_port(const tvmrt_rpc_server* server);

/*!
 * \brief Serve until tvmrt_rpc_server_stop(); sessions that are open then are ended.
 * \return 0, or -1 if the system fails. What clients do wrong is no failure.
 * Threads: one at a time.
 */
TVM_DLL int tvmrt_rpc_server_run(tvmrt_rpc_server* server);

/*! \brief Let tvmrt_rpc_server_run() return. From any thread, and from signal handlers. */
TVM_DLL void tvmrt_rpc_server_stop(tvmrt_rpc_server* server);

/*!
 * \brief A descriptor, on Windows a socket: a byte that is written to it does what
 *        tvmrt_rpc_server_stop() does.
 */
TVM_DLL int tvmrt_rpc_server_stop_fd(const tvmrt_rpc_server* server);

/*! \brief Give a server back that is not running. NULL does nothing. */
TVM_DLL void tvmrt_rpc_server_close(tvmrt_rpc_server* server);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_RPC_SERVER_H_ */
