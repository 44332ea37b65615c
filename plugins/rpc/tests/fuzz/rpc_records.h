/* Packets from an input: records of a code, the length of a body in two bytes, and the body. */
#ifndef TVMRT_PLUGINS_RPC_TESTS_RPC_RECORDS_H_
#define TVMRT_PLUGINS_RPC_TESTS_RPC_RECORDS_H_

#include "base/stream.h"
#include "fuzz.h"

enum { RAW = 0x80 /* flag in a code: the body has no packet header */ };

typedef struct record {
  int code;
  const uint8_t* body;
  size_t size;
} record;

/* The next record; 0 at the end of the input. */
static inline int next_record(const uint8_t** at, size_t* left, record* out) {
  if (*left < 3) return 0;
  out->code = (*at)[0];
  out->size = (size_t)(*at)[1] | (size_t)(*at)[2] << 8;
  if (out->size > *left - 3) out->size = *left - 3;
  out->body = *at + 3;
  *at += 3 + out->size;
  *left -= 3 + out->size;
  return 1;
}

static inline void append_packet(tvmrt_buf* out, const record* r) {
  if ((r->code & RAW) == 0) {
    FUZZ_REQUIRE(tvmrt__write_uint(out, 8, r->size + 4) == 0);
    FUZZ_REQUIRE(tvmrt__write_uint(out, 4, (uint64_t)r->code) == 0);
  }
  FUZZ_REQUIRE(tvmrt__buf_append(out, r->body, r->size) == 0);
}

#endif
