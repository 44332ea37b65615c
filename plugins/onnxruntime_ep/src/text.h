/* Growing byte buffers, and error texts. */
#ifndef TVMRT_ONNXRUNTIME_EP_TEXT_H_
#define TVMRT_ONNXRUNTIME_EP_TEXT_H_

#include "abi.h"
#include "platform/posix.h"

/* After a failed allocation `failed` is set, and further bytes are dropped. */
typedef struct bytes {
  char* data;
  size_t size, capacity;
  bool failed;
} bytes;

void bytes_add(bytes* to, const void* data, size_t size);
void bytes_free(bytes* of);

/* The text printed, owned by the caller; NULL without memory. */
PRINTF_LIKE(1) char* text_new(const char* format, ...);

/* A status with the text; never NULL, except without memory for it. */
PRINTF_LIKE(3) ort_status* fail(const ort_functions* ort, int code, const char* format, ...);
ort_status* fail_memory(const ort_functions* ort);

/* Write a file aside, then rename it. */
ort_status* write_file(const ort_functions* ort, const char* path, const void* data, size_t size);
/* Read a file into `to`, up to max_bytes of its end. */
int read_tail(const char* path, size_t max_bytes, bytes* to);

#endif /* TVMRT_ONNXRUNTIME_EP_TEXT_H_ */
