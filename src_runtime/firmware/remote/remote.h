/* Firmware runtime: the parts of the server of remote calls. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/config_defaults.h>
#include <tvm/runtime/crt/error_codes.h>

#include "frames.h"

enum {
  REMOTE_MAX_VALUES = 16,  /* of a call */
  REMOTE_MAX_EXTENTS = 32, /* of all its tensors */
  REMOTE_MAX_HANDLES = 48, /* functions, modules and memory known to a client */
  /* A message has a head and a packet. */
  REMOTE_MESSAGE_BYTES = TVM_CRT_MAX_PACKET_SIZE_BYTES,
  REMOTE_PACKET_BYTES = TVM_CRT_MAX_PACKET_SIZE_BYTES - TVMRT_MESSAGE_HEAD_BYTES,
  /* Size of the data before the bytes that a called function returns: length and code of the
   * packet, number of values, two codes, the first value, the length. */
  REMOTE_RESULT_OFFSET = 8 + 4 + 4 + 2 * 4 + 8 + 8
};

/* ---- values of a packet ---- */

typedef struct remote_values {
  int count;
  TVMValue values[REMOTE_MAX_VALUES];
  int codes[REMOTE_MAX_VALUES];
  DLTensor tensors[REMOTE_MAX_VALUES];
  TVMByteArray bytes[REMOTE_MAX_VALUES];
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
} remote_writer;

void tvmrt__remote_begin(remote_writer* out, uint32_t code);
void tvmrt__remote_end(remote_writer* out);
void tvmrt__remote_write_uint(remote_writer* out, size_t bytes, uint64_t value);
void tvmrt__remote_write_bytes(remote_writer* out, const void* data, size_t bytes);
void tvmrt__remote_write_tensor(remote_writer* out, const DLTensor* t);

/* ---- resources known to a client ---- */

typedef enum {
  REMOTE_HANDLE_NONE,
  REMOTE_HANDLE_FUNCTION,
  REMOTE_HANDLE_MODULE,
  REMOTE_HANDLE_MEMORY
} remote_handle_kind;

typedef struct remote_handle {
  uintptr_t address;
  size_t bytes; /* of memory */
  remote_handle_kind kind;
  int is_owned; /* memory that the client allocated */
} remote_handle;

typedef struct remote_handles {
  remote_handle items[REMOTE_MAX_HANDLES];
} remote_handles;

/* Add a resource that the client gets; a known one is not added twice. */
tvm_crt_error_t tvmrt__remote_add_handle(remote_handles* all, remote_handle_kind kind,
                                         const void* address, size_t bytes, int is_owned);
/* Whether the client knows a function or module. */
int tvmrt__remote_has_handle(const remote_handles* all, remote_handle_kind kind, uint64_t address);
/* Whether bytes lie in memory that the client knows. */
int tvmrt__remote_may_access(const remote_handles* all, const DLTensor* t, uint64_t bytes);
/* Free memory that the client has allocated. */
tvm_crt_error_t tvmrt__remote_free(remote_handles* all, uint64_t address);
void tvmrt__remote_free_all(remote_handles* all);

/* ---- the server ---- */

/* Bytes of a tensor; SIZE_MAX, which no memory has, if they exceed the supported size. */
size_t tvmrt__remote_tensor_bytes(const DLTensor* t);

/* One packet of a session. */
typedef struct remote_session {
  remote_handles handles;
  int initialised;
  int ended; /* by its client */
} remote_session;

/* Answer a packet: `bytes` at `packet`; the byte after them may be overwritten. */
void tvmrt__remote_answer(remote_session* s, uint8_t* packet, size_t bytes, remote_writer* out);

/* The built-in function with this name; NULL if there is none. */
TVMFunctionHandle tvmrt__remote_builtin(const char* name);
/* Where an evaluator writes its times, directly in the answer: `room` bytes. */
void tvmrt__remote_set_times(uint8_t* at, size_t room);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_REMOTE_H_ */
