/* The server of remote calls: packets, values and handles, for boards and hosts.
 *
 * Boards have fixed memory and answer errors by codes. With TVMRT_REMOTE_HOST the same packets and
 * values are compiled into the plug-in rpc, whose memory grows, whose handles retain objects, and
 * whose errors have texts. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/config_defaults.h>
#include <tvm/runtime/crt/error_codes.h>

#include "frames.h"

#ifdef TVMRT_REMOTE_HOST
enum {
  REMOTE_MAX_VALUES = 256,
  REMOTE_MAX_EXTENTS = 1024,
  REMOTE_MAX_NDIM = 64 /* of tensors of the runtime */
};
#else
enum {
  REMOTE_MAX_VALUES = 16,  /* of a call */
  REMOTE_MAX_EXTENTS = 32, /* of all its tensors */
  REMOTE_MAX_NDIM = REMOTE_MAX_EXTENTS,
  REMOTE_MAX_HANDLES = 48, /* functions, modules and memory known to a client */
  /* A message has a head and a packet. */
  REMOTE_MESSAGE_BYTES = TVM_CRT_MAX_PACKET_SIZE_BYTES,
  REMOTE_PACKET_BYTES = TVM_CRT_MAX_PACKET_SIZE_BYTES - TVMRT_MESSAGE_HEAD_BYTES
};
#endif

/* ---- packets ---- */

#define TVMRT_RPC_VERSION "0.8.0" /* sent and expected by every release from 0.8 to 0.18 */
/* The client's number of a session, times this, is in its device types. */
#define TVMRT_RPC_SESSION_MASK 128

/* TVM's codes; those from GET_GLOBAL to GET_STREAM are system calls. */
typedef enum {
  TVMRT_RPC_SHUTDOWN = 1,
  TVMRT_RPC_INIT_SERVER = 2,
  TVMRT_RPC_CALL = 3,
  TVMRT_RPC_RETURN = 4,
  TVMRT_RPC_EXCEPTION = 5,
  TVMRT_RPC_COPY_FROM = 6,
  TVMRT_RPC_COPY_TO = 7,
  TVMRT_RPC_COPY_ACK = 8,
  TVMRT_RPC_GET_GLOBAL = 9,
  TVMRT_RPC_FREE_HANDLE = 10,
  TVMRT_RPC_SET_DEVICE = 11,
  TVMRT_RPC_GET_ATTR = 12,
  TVMRT_RPC_ALLOC = 13,
  TVMRT_RPC_FREE_DATA = 14,
  TVMRT_RPC_SYNC = 15,
  TVMRT_RPC_COPY_REMOTE = 16,
  TVMRT_RPC_ALLOC_SCOPE = 17,
  TVMRT_RPC_NEW_STREAM = 18,
  TVMRT_RPC_FREE_STREAM = 19,
  TVMRT_RPC_SET_STREAM = 20,
  TVMRT_RPC_GET_STREAM = 21
} tvmrt_rpc_code;

enum {
  REMOTE_HEAD_BYTES = 8 + 4, /* length and code of a packet */
  /* Size of the data before the bytes that a called function returns: the head, the number of
   * values, two codes, the first value, the length. */
  REMOTE_RESULT_OFFSET = REMOTE_HEAD_BYTES + 4 + 2 * 4 + 8 + 8
};

/* ---- values of a packet ---- */

/* Strings and bytes point into the packet. Handles and addresses are the peer's, in v_int64 and
 * `data`; they must be looked up before use. */
typedef struct remote_values {
  int count;
  TVMValue values[REMOTE_MAX_VALUES];
  int codes[REMOTE_MAX_VALUES];
  DLTensor tensors[REMOTE_MAX_VALUES];   /* one per value; set for tensors */
  TVMByteArray bytes[REMOTE_MAX_VALUES]; /* one per value */
  int64_t extents[REMOTE_MAX_EXTENTS];
  int num_extents;
} remote_values;

/* Bytes that are read to their end; `failed` is set if there were too few. */
typedef struct remote_reader {
  uint8_t* at;
  size_t left;
  int failed;
} remote_reader;

uint64_t tvmrt__remote_read_uint(remote_reader* in, size_t bytes);
/* Values to the end of the packet. Texts and bytes are borrowed from it; the byte after the packet
 * is overwritten. */
tvm_crt_error_t tvmrt__remote_read_values(remote_reader* in, remote_values* out);
/* A tensor; its extents are stored in those of `values`. */
tvm_crt_error_t tvmrt__remote_read_tensor(remote_reader* in, remote_values* values, DLTensor* out);

/* A packet to be written; `failed` is set if there was no room. */
typedef struct remote_writer {
  uint8_t* data;
  size_t size;
  size_t capacity;
  int failed;
  size_t tail_bytes; /* that hosts send after the data, from where they are */
#ifdef TVMRT_REMOTE_HOST
  const void* tail;
#endif
} remote_writer;

void tvmrt__remote_begin(remote_writer* out, uint32_t code);
void tvmrt__remote_end(remote_writer* out);
void tvmrt__remote_write_uint(remote_writer* out, size_t bytes, uint64_t value);
void tvmrt__remote_write_bytes(remote_writer* out, const void* data, size_t bytes);
/* A length and bytes. */
void tvmrt__remote_write_data(remote_writer* out, const void* data, size_t bytes);
/* Devices lose their session's number. Strides are not sent: the tensor must be contiguous. */
void tvmrt__remote_write_tensor(remote_writer* out, const DLTensor* t);
/* All of a packet's values. Codes outside the protocol are written as eight bytes. */
void tvmrt__remote_write_values(remote_writer* out, const TVMValue* values, const int* codes,
                                int count);

/* ---- resources known to a client: remote_handles.c, and the plug-in's handles.c ---- */

#ifdef TVMRT_REMOTE_HOST
typedef struct remote_handle {
  int code;     /* kTVMOpaqueHandle: memory; -1: free */
  void* object; /* retained; NULL for memory */
  DLDevice device;
  uintptr_t address; /* of the memory, or of an array's data */
  uint64_t bytes;
} remote_handle;

typedef struct remote_handles {
  remote_handle* items;
  size_t count;
  size_t first_free; /* all places before it are in use */
  uint64_t memory;   /* bytes allocated by the client */
  uint64_t max_memory;
} remote_handles;
#else
typedef struct remote_handle {
  uintptr_t address;
  size_t bytes; /* of memory */
  int code;     /* kTVMOpaqueHandle: memory; 0: free */
  int is_owned; /* memory that the client allocated */
} remote_handle;

typedef struct remote_handles {
  remote_handle items[REMOTE_MAX_HANDLES];
} remote_handles;
#endif

/* Add a function, module or array that the client gets; *out is its handle, never 0. */
tvm_crt_error_t tvmrt__remote_add_handle(remote_handles* all, int code, void* object,
                                         uint64_t* out);
/* The function or module of a handle; `code` is its type. */
tvm_crt_error_t tvmrt__remote_find_handle(const remote_handles* all, int code, uint64_t handle,
                                          void** out);
#ifdef TVMRT_REMOTE_HOST
tvm_crt_error_t tvmrt__remote_drop_handle(remote_handles* all, uint64_t handle);
#else
/* Nothing is counted: all handles live as long as the image. */
static inline tvm_crt_error_t tvmrt__remote_drop_handle(remote_handles* all, uint64_t handle) {
  (void)all, (void)handle;
  return kTvmErrorNoError;
}
#endif
/* Success if `bytes` of a tensor lie in memory that the client knows. */
tvm_crt_error_t tvmrt__remote_check_access(const remote_handles* all, const DLTensor* t,
                                           uint64_t bytes);
/* Memory that the client owns, and frees by its address. */
tvm_crt_error_t tvmrt__remote_allocate(remote_handles* all, DLDevice dev, uint64_t bytes,
                                       size_t alignment, void** out);
tvm_crt_error_t tvmrt__remote_free(remote_handles* all, DLDevice dev, uint64_t address);
void tvmrt__remote_free_all(remote_handles* all);

/* ---- the server ---- */

/* Bytes of a tensor; SIZE_MAX, which no memory has, if they exceed the supported size. */
size_t tvmrt__remote_tensor_bytes(const DLTensor* t);

/* One packet of a session. */
typedef struct remote_session {
  remote_handles handles;
  int initialised;
  int ended; /* by its client */
#ifdef TVMRT_REMOTE_HOST
  void* result; /* owned object of the answer that is being written */
#endif
} remote_session;

/* Answer a packet: `bytes` at `packet`; the byte after them may be overwritten. */
void tvmrt__remote_answer(remote_session* s, uint8_t* packet, size_t bytes, remote_writer* out);
/* The answer for an error. */
void tvmrt__remote_write_error(remote_writer* out, tvm_crt_error_t code);

/* ---- functions of a board or a host: remote_board.c, and the plug-in's local_calls.c ---- */

/* The global function of a name; *out is NULL if there is none. */
tvm_crt_error_t tvmrt__remote_find_global(remote_session* s, const char* name, void** out);
/* Call a function. The result is valid until the answer is complete; `out` is empty. */
tvm_crt_error_t tvmrt__remote_call(remote_session* s, void* function, remote_values* in,
                                   const remote_writer* out, TVMValue* result, int* code);
/* The text of an error for the client; `room` may be used for it. */
const char* tvmrt__remote_error_text(tvm_crt_error_t code, char room[16]);

#ifdef TVMRT_REMOTE_HOST
/* Make room for more bytes; 0 if there is no memory. */
int tvmrt__remote_grow(remote_writer* out, size_t bytes);
void tvmrt__remote_set_error(const char* fmt, ...) TVMRT_PRINTF(1, 2);
/* An error code; hosts set the text, too. */
#define REMOTE_FAIL(code, ...) (tvmrt__remote_set_error(__VA_ARGS__), (code))
tvm_crt_error_t tvmrt__remote_check_version(const uint8_t* version, size_t size);

/* Bytes at the end of a packet, which must stay valid until it is sent. */
static inline void tvmrt__remote_write_tail(remote_writer* out, const void* data, size_t bytes) {
  out->tail = data;
  out->tail_bytes = bytes;
}
#else
static inline int tvmrt__remote_grow(remote_writer* out, size_t bytes) {
  (void)out, (void)bytes;
  return 0;
}
#define REMOTE_FAIL(code, ...) (code)
static inline tvm_crt_error_t tvmrt__remote_check_version(const uint8_t* version, size_t size) {
  (void)version, (void)size;
  return kTvmErrorNoError;
}
static inline void tvmrt__remote_write_tail(remote_writer* out, const void* data, size_t bytes) {
  tvmrt__remote_write_bytes(out, data, bytes);
}
#endif

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_ */
