/* Reading from a byte stream in protocol units.
 *
 * A channel abstracts the transport: a socket, a pair of functions, a line to a board, or this
 * process. Reads are buffered, since packets have short headers; writes are not. A channel is used
 * by one thread at a time and owns nothing. */
#include "channel.h"

#include <stdlib.h>
#include <string.h>

/* `self` belongs to the channel kind and outlives the channel. Channels with a descriptor set it
 * themselves. */
void tvmrt__channel_init(tvmrt_channel* ch, const tvmrt_channel_kind* kind, void* self) {
  ch->kind = kind;
  ch->self = self;
  ch->fd = -1;
  ch->begin = 0;
  ch->end = 0;
}

/* Take at most `capacity` bytes from the buffer. */
static size_t take(tvmrt_channel* ch, char* out, size_t capacity) {
  size_t available = ch->end - ch->begin;
  if (available > capacity) available = capacity;
  if (available != 0) memcpy(out, ch->buffer + ch->begin, available);
  ch->begin += available;
  return available;
}

/* Read long data directly into its destination, short data through the buffer: one system call per
 * small packet. If `ended` is not NULL, an end of the stream before the first byte is not an error,
 * since peers disconnect between packets. */
int tvmrt__channel_read(tvmrt_channel* ch, void* out, size_t size, bool* ended) {
  char* to = out;
  size_t have = take(ch, to, size);
  if (ended != NULL) *ended = false;
  while (have < size) {
    const bool direct = size - have >= sizeof(ch->buffer);
    size_t received = 0;
    TVMRT_RETURN_IF_ERROR(ch->kind->receive(ch, direct ? to + have : ch->buffer,
                                            direct ? size - have : sizeof(ch->buffer), &received));
    if (received == 0) {
      if (ended != NULL && have == 0) {
        *ended = true;
        return 0;
      }
      return tvmrt__fail("RPCError: the other side has closed the connection.");
    }
    if (direct) {
      have += received;
      continue;
    }
    ch->begin = 0;
    ch->end = received;
    have += take(ch, to + have, size - have);
  }
  return 0;
}

/* Memory grows with the bytes received, since `size` is only the peer's claim. */
int tvmrt__channel_append(tvmrt_channel* ch, uint64_t size, tvmrt_buf* out) {
  /* so that an empty result has a buffer, too */
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, 0));
  while (size != 0) {
    uint64_t part = out->size < 65536 ? 65536 : out->size;
    if (part > size) part = size;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_reserve(out, (size_t)part));
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, out->data + out->size, (size_t)part, NULL));
    out->size += (size_t)part;
    out->data[out->size] = '\0';
    size -= part;
  }
  return 0;
}

/* Skip the rest of a rejected packet, so that the next read begins at a packet. */
int tvmrt__channel_skip(tvmrt_channel* ch, uint64_t size) {
  char away[4096];
  while (size != 0) {
    const size_t part = size < sizeof(away) ? (size_t)size : sizeof(away);
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, away, part, NULL));
    size -= part;
  }
  return 0;
}
