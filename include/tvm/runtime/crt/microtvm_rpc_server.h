/*!
 * \file tvm/runtime/crt/microtvm_rpc_server.h
 * \brief RPC server of a board, over a serial line: run, time and compare its network from a host.
 *
 * The byte format is microTVM's of TVM 0.8 to 0.18: frames with a checksum, sessions, and RPC
 * packets. Clients are `tvmrt.rpc.connect_board()`, `--rpc serial:PATH` of the tvmrt command, and
 * TVM's own.
 *
 * The program passes in every received byte, and a function that sends bytes. Called functions run
 * within MicroTVMRpcServerLoop(). Handles and addresses from the client are used only if the server
 * issued them before. The only allocations, by TVMPlatformMemoryAllocate(), are those that the
 * client requests. Times are measured by TVMPlatformTimerStart() and TVMPlatformTimerStop() of
 * crt/platform.h, which the program defines.
 *
 * C99 and C++ clean. Only in libtvm_firmware.a, which has one server: its memory is two messages of
 * TVM_CRT_MAX_PACKET_SIZE_BYTES. Threads: one at a time, which also runs the network.
 */
#ifndef TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

/* ssize_t: from POSIX if available, otherwise a type of its size. */
#if defined(__has_include)
#if __has_include(<sys/types.h>)
#include <sys/types.h>
#define TVMRT_HAS_SSIZE
#endif
#endif
#if !defined(TVMRT_HAS_SSIZE) || defined(_MSC_VER)
typedef ptrdiff_t ssize_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Sends bytes.
 * \param context   [in] As passed to MicroTVMRpcServerInit().
 * \param data      [in] Borrowed for the call.
 * \param num_bytes [in] 1 or more.
 * \return Number of sent bytes; the remainder is passed again. Less than 1: the line is broken.
 */
typedef ssize_t (*microtvm_rpc_channel_write_t)(void* context, const uint8_t* data,
                                                size_t num_bytes);

/*! \brief The server; there is one. */
typedef void* microtvm_rpc_server_t;

/*!
 * \brief Start the server: discard the state of an earlier session, and notify the client.
 *
 * Call TVMInitializeRuntime() before, and register the functions to be called.
 *
 * \param write_func     [in] Kept.
 * \param write_func_ctx [in] Passed to write_func.
 * \return The server, static.
 */
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func,
                                            void* write_func_ctx);

/*!
 * \brief Process received bytes, and answer.
 *
 * \param server        [in] From MicroTVMRpcServerInit().
 * \param new_data      [in,out] The bytes; advanced past the consumed ones.
 * \param new_data_size [in,out] Their number; on return 0 unless the session ended.
 * \return kTvmErrorNoError; kTvmErrorPlatformShutdown if the client has ended its session or is
 *         about to begin a new one: reset the board then, or call MicroTVMRpcServerInit() again;
 *         kTvmErrorWriteStreamShortWrite if nothing can be sent.
 */
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data,
                                      size_t* new_data_size);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_ */
