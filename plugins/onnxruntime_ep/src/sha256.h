#ifndef TVMRT_ONNXRUNTIME_EP_SHA256_H_
#define TVMRT_ONNXRUNTIME_EP_SHA256_H_

#include <stddef.h>
#include <stdint.h>

/* "sha256:", 64 hexadecimal digits in lower case, and NUL. */
enum { SHA256_TEXT_BYTES = 7 + 64 + 1 };

/* The SHA-256 of bytes as a text. */
void sha256_text(const void* data, size_t size, char text[SHA256_TEXT_BYTES]);

#endif /* TVMRT_ONNXRUNTIME_EP_SHA256_H_ */
