/* Frames: messages over a line that may lose or change bytes, each with length and checksum, in the
 * format of microTVM.
 *
 *     ff fd   length: u32   payload   checksum: u16
 *
 * Integers are little-endian. After the first two, every byte ff is doubled, so that ff fd always
 * begins a frame; ff fe is ignored. The checksum is CRC-16 (polynomial 0x1021, initial value
 * 0xffff) of all bytes before it; doubled bytes count twice. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_

#include <stddef.h>
#include <stdint.h>

#include "../../../src_backend/compiler.h"

/* A payload begins with the session's id in two bytes, and the type of the message. */
enum { TVMRT_MESSAGE_HEAD_BYTES = 3 };

typedef enum {
  TVMRT_MESSAGE_INIT = 0x00,
  TVMRT_MESSAGE_REPLY = 0x01,
  TVMRT_MESSAGE_TERMINATE = 0x02,
  TVMRT_MESSAGE_LOG = 0x03,
  TVMRT_MESSAGE_PACKET = 0x10
} tvmrt_message_type;

/* ---- writing ---- */

typedef struct tvmrt_frame_writer {
  int (*write)(void* ctx, const uint8_t* data, size_t bytes); /* writes all; returns 0 or a code */
  void* ctx;
  uint16_t crc; /* of the frame so far */
} tvmrt_frame_writer;

/* Begin a frame with `payload_bytes` bytes, which follow by tvmrt__frame_put(); then end it. Each
 * returns 0 or the code of `write`. */
int tvmrt__frame_begin(tvmrt_frame_writer* w, uint32_t payload_bytes);
int tvmrt__frame_put(tvmrt_frame_writer* w, const void* data, size_t bytes);
int tvmrt__frame_end(tvmrt_frame_writer* w);

/* ---- reading ---- */

typedef struct tvmrt_frame_reader {
  uint8_t* payload; /* the caller's memory for payloads */
  size_t capacity;
  uint32_t length; /* of the current payload */
  uint32_t have;   /* bytes read of the current part */
  uint16_t crc;
  uint16_t received_crc;
  uint8_t part;
  uint8_t escaped;
} tvmrt_frame_reader;

typedef enum { TVMRT_FRAME_MORE, TVMRT_FRAME_COMPLETE } tvmrt_frame_state;

void tvmrt__frame_reader_init(tvmrt_frame_reader* r, void* payload, size_t capacity);
/* Take the next byte. WHOLE: `length` bytes of `payload` are a message, until the next byte is
 * taken. Damaged, incomplete and oversized frames are skipped. */
tvmrt_frame_state tvmrt__frame_take(tvmrt_frame_reader* r, uint8_t byte);

/* The next nonce of a session: from 1 to 255. */
uint8_t tvmrt__frame_next_nonce(uint8_t nonce);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_ */
