/* Messages over a line that loses and changes bytes: a frame each, with length and checksum, as
 * microTVM has them. Part of both runtimes, the firmware's and the host's.
 *
 *     ff fd   length: u32   payload   checksum: u16
 *
 * Integers are little-endian. Behind the first two, every byte ff is doubled, so that ff fd begins a
 * frame wherever it stands; ff fe is nothing. The checksum is CRC-16 (polynomial 0x1021, from 0xffff)
 * of all before it, doubled bytes twice. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_

#include <stddef.h>
#include <stdint.h>

#include "../../src_backend/compiler.h"

/* What a payload begins with: the session's id in two bytes, and what kind of message it is. */
enum { TVMRT_MESSAGE_HEAD_BYTES = 3 };

/* Messages 0x11 and 0x12 are of tvmrt alone: both begin with one more byte, the number of a request.
 * Whoever gets a request of the number of the last one sends the answer to that again, and executes
 * nothing; what is lost may therefore be sent again. */
typedef enum {
  TVMRT_MESSAGE_INIT = 0x00,
  TVMRT_MESSAGE_REPLY = 0x01,
  TVMRT_MESSAGE_TERMINATE = 0x02,
  TVMRT_MESSAGE_LOG = 0x03,
  TVMRT_MESSAGE_PACKET = 0x10,
  TVMRT_MESSAGE_NUMBERED = 0x11,
  TVMRT_MESSAGE_TAKEN = 0x12 /* a call has come whole and is executed now */
} tvmrt_message_type;

/* The function that boards have which take messages of these types. */
#define TVMRT_NUMBERED_NAME "tvmrt.rpc.numbered"

/* ---- writing ---- */

typedef struct tvmrt_frame_writer {
  int (*write)(void* ctx, const uint8_t* data, size_t bytes); /* all of them: 0, or a code */
  void* ctx;
  uint16_t crc; /* of the frame so far */
} tvmrt_frame_writer;

/* Begin a frame of so many bytes, which follow by tvmrt__frame_put(); then end it. Each returns 0 or
 * the code of `write`. */
int tvmrt__frame_begin(tvmrt_frame_writer* w, uint32_t payload_bytes);
int tvmrt__frame_put(tvmrt_frame_writer* w, const void* data, size_t bytes);
int tvmrt__frame_end(tvmrt_frame_writer* w);

/* ---- reading ---- */

typedef struct tvmrt_frame_reader {
  uint8_t* payload; /* of the caller: where payloads go */
  size_t capacity;
  uint32_t length; /* of the payload that comes */
  uint32_t have;   /* bytes of the part that is read */
  uint16_t crc;
  uint16_t told;
  uint8_t part;
  uint8_t escaped;
} tvmrt_frame_reader;

typedef enum { TVMRT_FRAME_MORE, TVMRT_FRAME_WHOLE } tvmrt_frame_state;

void tvmrt__frame_reader_init(tvmrt_frame_reader* r, void* payload, size_t capacity);
/* Take the next byte. WHOLE: `length` bytes of `payload` are a message, until the next byte is taken.
 * Frames that are damaged, cut off or too long are passed over. */
tvmrt_frame_state tvmrt__frame_take(tvmrt_frame_reader* r, uint8_t byte);
/* How many bytes come at least before a frame can be whole. */
size_t tvmrt__frame_needs(const tvmrt_frame_reader* r);

/* The next nonce of a session: from 1 to 255. */
uint8_t tvmrt__frame_next_nonce(uint8_t nonce);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_FRAMES_H_ */
