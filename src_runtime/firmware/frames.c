/* Messages over a line that loses and changes bytes.
 *
 * The format is that of TVM's microTVM server, which clients of TVM speak: ff fd, length, payload,
 * checksum; a byte ff in it is sent twice, so that ff fd begins a frame wherever a reader stands.
 * No memory, no clock: bytes go out by a function of the caller's, come in one by one. What is
 * damaged is dropped without a word: sending again is up to the protocol above. */
#include "frames.h"

enum { ESCAPE = 0xff, START = 0xfd, LENGTH_BYTES = 4, CRC_BYTES = 2, CRC_FIRST = 0xffff };

typedef enum { PART_NONE, PART_LENGTH, PART_PAYLOAD, PART_CRC } frame_part;

/* One byte by the polynomial 0x1021, without a table. A table would take 512 bytes of flash; the
 * bytes of a line come more slowly than this computes. */
static uint16_t crc_of(uint16_t crc, uint8_t byte) {
  uint32_t c = (((uint32_t)crc >> 8) | ((uint32_t)crc << 8)) & 0xffffu;
  c ^= byte;
  c ^= (c & 0xffu) >> 4;
  c ^= c << 12;
  c ^= (c & 0xffu) << 5;
  return (uint16_t)(c & 0xffffu);
}

static uint16_t crc_of_all(uint16_t crc, const uint8_t* data, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; ++i) crc = crc_of(crc, data[i]);
  return crc;
}

/* ---- writing ---- */

/* The checksum is over the bytes as they are sent, doubled ones included. */
static int send(tvmrt_frame_writer* w, const uint8_t* data, size_t bytes) {
  w->crc = crc_of_all(w->crc, data, bytes);
  return bytes == 0 ? 0 : w->write(w->ctx, data, bytes);
}

/* Written first, so the number of bytes must be known before the first of them. */
int tvmrt__frame_begin(tvmrt_frame_writer* w, uint32_t payload_bytes) {
  static const uint8_t start[] = {ESCAPE, START};
  uint8_t length[LENGTH_BYTES];
  int rc;
  int i;
  /* the length is data, too: a byte ff in it is doubled */
  for (i = 0; i < LENGTH_BYTES; ++i) length[i] = (uint8_t)(payload_bytes >> (8 * i));
  w->crc = CRC_FIRST;
  rc = send(w, start, sizeof(start));
  return rc != 0 ? rc : tvmrt__frame_put(w, length, sizeof(length));
}

/* In runs that end with a byte ff, which the next one repeats. What the caller has is not copied,
 * so a payload of any size needs no memory. */
int tvmrt__frame_put(tvmrt_frame_writer* w, const void* data, size_t bytes) {
  const uint8_t* at = data;
  size_t from = 0;
  size_t i;
  for (i = 0; i < bytes; ++i) {
    int rc;
    if (at[i] != ESCAPE) continue;
    rc = send(w, at + from, i + 1 - from);
    if (rc != 0) return rc;
    from = i;
  }
  return bytes == 0 ? 0 : send(w, at + from, bytes - from);
}

/* Its own bytes change w->crc as they go out, which nobody reads any more. */
int tvmrt__frame_end(tvmrt_frame_writer* w) {
  uint8_t crc[CRC_BYTES];
  crc[0] = (uint8_t)(w->crc & 0xffu);
  crc[1] = (uint8_t)(w->crc >> 8);
  return tvmrt__frame_put(w, crc, sizeof(crc));
}

/* ---- reading ---- */

/* The memory for payloads is borrowed as long as the reader is used. */
void tvmrt__frame_reader_init(tvmrt_frame_reader* r, void* payload, size_t capacity) {
  r->payload = payload;
  r->capacity = capacity;
  r->length = 0;
  r->have = 0;
  r->crc = 0;
  r->told = 0;
  r->part = PART_NONE;
  r->escaped = 0;
}

static void begin_part(tvmrt_frame_reader* r, frame_part part) {
  r->part = (uint8_t)part;
  r->have = 0;
}

/* The two bytes that began it count for the checksum. */
static void begin_frame(tvmrt_frame_reader* r) {
  r->length = 0;
  r->told = 0;
  r->crc = crc_of(crc_of(CRC_FIRST, ESCAPE), START);
  begin_part(r, PART_LENGTH);
}

/* A frame that does not fit is passed over up to the next beginning. */
static void end_of_length(tvmrt_frame_reader* r) {
  if (r->length > r->capacity) {
    begin_part(r, PART_NONE);
  } else {
    begin_part(r, r->length == 0 ? PART_CRC : PART_PAYLOAD);
  }
}

/* A byte of the frame's own. A doubled byte was sent twice, and counts twice. Between frames
 * bytes are passed over: noise, or the rest of a frame that was given up. */
static tvmrt_frame_state take_data(tvmrt_frame_reader* r, uint8_t byte) {
  if (r->part != PART_CRC) {
    r->crc = crc_of(r->crc, byte);
    if (byte == ESCAPE) r->crc = crc_of(r->crc, byte);
  }
  if (r->part == PART_LENGTH) {
    r->length |= (uint32_t)byte << (8 * r->have++);
    if (r->have == LENGTH_BYTES) end_of_length(r);
  } else if (r->part == PART_PAYLOAD) {
    r->payload[r->have++] = byte;
    if (r->have == r->length) begin_part(r, PART_CRC);
  } else if (r->part == PART_CRC) {
    r->told = (uint16_t)(r->told | (uint32_t)byte << (8 * r->have++));
    if (r->have == CRC_BYTES) {
      begin_part(r, PART_NONE);
      if (r->told == r->crc) return TVMRT_FRAME_WHOLE;
    }
  }
  return TVMRT_FRAME_MORE;
}

/* A byte ff is kept back until the next one tells what both are. Behind a lost byte a pair may be
 * taken wrongly: the checksum finds that out. */
tvmrt_frame_state tvmrt__frame_take(tvmrt_frame_reader* r, uint8_t byte) {
  if (!r->escaped) {
    if (byte != ESCAPE) return take_data(r, byte);
    r->escaped = 1;
    return TVMRT_FRAME_MORE;
  }
  r->escaped = 0;
  if (byte == ESCAPE) return take_data(r, byte);
  if (byte == START) {
    /* in the middle of another one, too: that one has lost its end */
    begin_frame(r);
  } else if (byte != 0xfe) {
    begin_part(r, PART_NONE); /* damaged: nobody sends such a pair */
  }
  return TVMRT_FRAME_MORE;
}

/* The least: doubled bytes may make it more. A reader that waits for exactly so many never waits
 * for a byte that nobody sends. */
size_t tvmrt__frame_needs(const tvmrt_frame_reader* r) {
  if (r->part == PART_LENGTH) return LENGTH_BYTES - r->have;
  if (r->part == PART_PAYLOAD) return r->length - r->have + CRC_BYTES;
  if (r->part == PART_CRC) return CRC_BYTES - r->have;
  return 1;
}

/* 0 means that there is no session. */
uint8_t tvmrt__frame_next_nonce(uint8_t nonce) {
  const uint32_t next = ((((uint32_t)nonce << 5) | ((uint32_t)nonce >> 5)) + 1u) & 0xffu;
  return (uint8_t)(next == 0 ? 1 : next);
}
