/*!
 * \file tvm/runtime/rpc_server.h
 * \brief RPC server for a phone or a Linux board: remote clients upload libraries, load them, call
 * their functions and copy tensors.
 *
 * It implements the protocol of TVM 0.8 to 0.18, for TVM's clients and trackers and for tvmrt's.
 *
 * Security: a client with the key can run any code as the server's user. By default the server
 * listens at the loopback address only. The key is sent unencrypted: in a shared network keep the
 * server at the loopback address and connect through ssh -L.
 *
 * Each session is a separate process with its own temporary folder: a client that crashes its
 * session, or sends an invalid packet, ends only that session. A connection that has not sent the
 * key takes no session and delays no other client: it has greet_seconds in all. If 128 connections
 * wait, the oldest without the key is closed for the next one. The program that runs a server
 * should have few other threads, since their locks stay held in session processes.
 *
 * Windows cannot fork: for each session the program is started again, with its command line, and
 * serves the session in tvmrt_rpc_server_run(). So it must reach that call again in the same way;
 * several servers are identified by the order in which they are opened.
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
 * \brief Options of a server. Zero fields, except struct_bytes, select the defaults in brackets.
 *
 * Texts are borrowed while the server exists.
 */
typedef struct tvmrt_rpc_server_options {
  size_t struct_bytes; /*!< sizeof(tvmrt_rpc_server_options). */
  const char* host;    /*!< Address to listen at ["127.0.0.1"]; "0.0.0.0" for all of IPv4. */
  int port;            /*!< First port to try [any that is free]. */
  int port_end;        /*!< Upper end of the ports that are tried in order, exclusive [port + 1]. */
  const char* key;     /*!< Key that clients must send [""]. */
  const char* tracker; /*!< "host:port" of a tracker to register at [none]. */
  const char* custom_addr; /*!< Address for the tracker's clients [as the tracker sees it]. */
  int max_sessions;        /*!< At the same time; further clients wait [1: reliable timings]. */
  double greet_seconds;    /*!< Time for a client to send its whole key [5]. */
  double idle_seconds;     /*!< Timeout of a session without traffic [no limit]. */
  double session_seconds; /*!< Maximum length of a session [no limit]. A client may request less. */
  uint64_t packet_bytes;  /*!< Limit for one call's values and texts, including uploads [2 GiB]. */
  uint64_t memory_bytes;  /*!< Limit for a session's tensors, and again for its files [16 GiB]. */
  /*! Called with one log line, on the thread that runs the server [none]. */
  void (*log)(void* context, const char* line);
  void* context; /*!< For log. */
} tvmrt_rpc_server_options;

/*! \brief A server. Opaque. */
typedef struct tvmrt_rpc_server tvmrt_rpc_server;

/*!
 * \brief Begin to listen.
 * \param options [in] Options and their defaults.
 * \param out     [out] Owned; released by tvmrt_rpc_server_close(). NULL on failure.
 * \return 0; -1 if no port is free or an option is invalid.
 */
TVM_DLL int tvmrt_rpc_server_open(const tvmrt_rpc_server_options* options, tvmrt_rpc_server** out);

/*! \brief The port that the server listens at. */
TVM_DLL int tvmrt_rpc_server_port(const tvmrt_rpc_server* server);

/*!
 * \brief Serve until tvmrt_rpc_server_stop(); open sessions are then ended.
 * \return 0, or -1 if the system fails. Errors of clients are not failures.
 * Threads: one at a time.
 */
TVM_DLL int tvmrt_rpc_server_run(tvmrt_rpc_server* server);

/*! \brief Let tvmrt_rpc_server_run() return. From any thread, and from signal handlers. */
TVM_DLL void tvmrt_rpc_server_stop(tvmrt_rpc_server* server);

/*!
 * \brief A descriptor, on Windows a socket; a byte written to it acts as tvmrt_rpc_server_stop().
 */
TVM_DLL int tvmrt_rpc_server_stop_fd(const tvmrt_rpc_server* server);

/*! \brief Release a server that is not running. NULL does nothing. */
TVM_DLL void tvmrt_rpc_server_close(tvmrt_rpc_server* server);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_RPC_SERVER_H_ */
