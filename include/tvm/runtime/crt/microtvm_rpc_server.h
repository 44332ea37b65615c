/*!
 * \file tvm/runtime/crt/microtvm_rpc_server.h
 * \brief A board that answers remote calls over a serial line: its network is run, timed and compared
 *        from a desk.
 *
 * The bytes are those of microTVM in TVM 0.8 to 0.18: frames with a checksum, sessions, and the packets
 * of remote calls. Clients are `tvmrt.rpc.connect_board()`, `--rpc serial:PATH` of the tvmrt command,
 * and TVM's own.
 *
 * The program hands in every byte that comes, and a function that sends bytes. What is called in
 * between runs within MicroTVMRpcServerLoop(). Handles and addresses that the other side sends are
 * used only if they were given to it before. Nothing is allocated but the memory that the other side
 * asks for, by TVMPlatformMemoryAllocate(); times are measured by TVMPlatformTimerStart() and
 * TVMPlatformTimerStop() of crt/platform.h, which the program defines.
 *
 * C99 and C++ clean. In libtvm_firmware.a alone, which has one server: two messages of
 * TVM_CRT_MAX_PACKET_SIZE_BYTES are its memory. Threads: one at a time, which also runs the network.
 */
#ifndef TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

/* ssize_t: of POSIX where that is, else a type of its size. */
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
 * \param context   [in] As given to MicroTVMRpcServerInit().
 * \param data      [in] Borrowed for the call.
 * \param num_bytes [in] At least 1.
 * \return How many were sent, at least 1; the rest is handed in again. Less: the line is broken.
 */
typedef ssize_t (*microtvm_rpc_channel_write_t)(void* context, const uint8_t* data,
                                                size_t num_bytes);

/*! \brief The server; there is one. */
typedef void* microtvm_rpc_server_t;

/*!
 * \brief Begin to serve: what an earlier session had is forgotten, and the other side is told so.
 *
 * Call TVMInitializeRuntime() before, and register what shall be called.
 *
 * \param write_func     [in] Kept.
 * \param write_func_ctx [in] Handed to it.
 * \return The server, static.
 */
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func,
                                            void* write_func_ctx);

/*!
 * \brief Take bytes that have come, and answer.
 *
 * \param server        [in] Of MicroTVMRpcServerInit().
 * \param new_data      [in,out] The bytes; moved behind those that were taken.
 * \param new_data_size [in,out] Their number, and how many are left: none unless the session ended.
 * \return kTvmErrorNoError; kTvmErrorPlatformShutdown when the other side has ended its session or a
 *         new one is about to begin: reset the board then, or begin again with
 *         MicroTVMRpcServerInit(); kTvmErrorWriteStreamShortWrite when nothing can be sent.
 */
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data,
                                      size_t* new_data_size);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_ */
