/* Frames: messages over a line that may lose or change bytes.
 *
 * The format is that of TVM's microTVM server and its clients: ff fd, length, payload, checksum; a
 * byte ff in it is doubled, so that ff fd always begins a frame. No memory, no clock: bytes are
 * written by a function of the caller, and read one by one. Damaged frames are dropped silently:
 * the protocol above must send again. */
#include "frames.h"

enum { ESCAPE = 0xff, START = 0xfd, LENGTH_BYTES = 4, CRC_BYTES = 2, CRC_FIRST = 0xffff };

typedef enum { PART_NONE, PART_LENGTH, PART_PAYLOAD, PART_CRC } frame_part;

/* One byte of the CRC with polynomial 0x1021, without a table, which would take 512 bytes of flash;
 * bytes arrive more slowly than this computes. */
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

/* The checksum covers the bytes as sent, including doubled ones. */
static int send(tvmrt_frame_writer* w, const uint8_t* data, size_t bytes) {
  w->crc = crc_of_all(w->crc, data, bytes);
  return bytes == 0 ? 0 : w->write(w->ctx, data, bytes);
}

/* The length is written first, so the payload's size must be known in advance. */
int tvmrt__frame_begin(tvmrt_frame_writer* w, uint32_t payload_bytes) {
  static const uint8_t start[] = {ESCAPE, START};
  uint8_t length[LENGTH_BYTES];
  int rc;
  int i;
  /* a byte ff of the length is doubled as well */
  for (i = 0; i < LENGTH_BYTES; ++i) length[i] = (uint8_t)(payload_bytes >> (8 * i));
  w->crc = CRC_FIRST;
  rc = send(w, start, sizeof(start));
  return rc != 0 ? rc : tvmrt__frame_put(w, length, sizeof(length));
}

/* Writes runs that end with a byte ff, which the next run repeats. Nothing is copied, so that a
 * payload of any size needs no memory. */
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

/* Its own bytes change w->crc, which is not used afterwards. */
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
  r->received_crc = 0;
  r->part = PART_NONE;
  r->escaped = 0;
}

static void begin_part(tvmrt_frame_reader* r, frame_part part) {
  r->part = (uint8_t)part;
  r->have = 0;
}

/* The two start bytes count for the checksum. */
static void begin_frame(tvmrt_frame_reader* r) {
  r->length = 0;
  r->received_crc = 0;
  r->crc = crc_of(crc_of(CRC_FIRST, ESCAPE), START);
  begin_part(r, PART_LENGTH);
}

/* A frame that does not fit is skipped up to the next start. */
static void end_of_length(tvmrt_frame_reader* r) {
  if (r->length > r->capacity) {
    begin_part(r, PART_NONE);
  } else {
    begin_part(r, r->length == 0 ? PART_CRC : PART_PAYLOAD);
  }
}

/* A byte of the frame. A doubled byte was sent twice, and counts twice. Between frames bytes are
 * skipped: noise, or the rest of an abandoned frame. */
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
    r->received_crc = (uint16_t)(r->received_crc | (uint32_t)byte << (8 * r->have++));
    if (r->have == CRC_BYTES) {
      begin_part(r, PART_NONE);
      if (r->received_crc == r->crc) return TVMRT_FRAME_COMPLETE;
    }
  }
  return TVMRT_FRAME_MORE;
}

/* A byte ff is kept until the next byte decides the meaning of both. After a lost byte a pair may
 * be misread; the checksum detects that. */
tvmrt_frame_state tvmrt__frame_take(tvmrt_frame_reader* r, uint8_t byte) {
  if (!r->escaped) {
    if (byte != ESCAPE) return take_data(r, byte);
    r->escaped = 1;
    return TVMRT_FRAME_MORE;
  }
  r->escaped = 0;
  if (byte == ESCAPE) return take_data(r, byte);
  if (byte == START) {
    /* also within another frame, whose end was lost */
    begin_frame(r);
  } else if (byte != 0xfe) {
    begin_part(r, PART_NONE); /* damaged: such a pair is never sent */
  }
  return TVMRT_FRAME_MORE;
}

/* 0 means that there is no session. */
uint8_t tvmrt__frame_next_nonce(uint8_t nonce) {
  const uint32_t next = ((((uint32_t)nonce << 5) | ((uint32_t)nonce >> 5)) + 1u) & 0xffu;
  return (uint8_t)(next == 0 ? 1 : next);
}
