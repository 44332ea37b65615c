/* Reading from a stream in the sizes of a protocol.
 *
 * A channel hides what bytes go through: a socket, a pair of functions, a board's line, this
 * process. Reading is buffered, since packets have short heads; writing is not. A channel belongs
 * to one thread at a time and owns nothing. */
#include "channel.h"

#include <stdlib.h>
#include <string.h>

/* `self` is the kind's own and outlives the channel. A descriptor is set by channels that have
 * one. */
void tvmrt__channel_init(tvmrt_channel* ch, const tvmrt_channel_kind* kind, void* self) {
  ch->kind = kind;
  ch->self = self;
  ch->fd = -1;
  ch->deadline = 0;
  ch->begin = 0;
  ch->end = 0;
}

/* What the buffer has, at most so much. */
static size_t take(tvmrt_channel* ch, char* out, size_t most) {
  size_t there = ch->end - ch->begin;
  if (there > most) there = most;
  if (there != 0) memcpy(out, ch->buffer + ch->begin, there);
  ch->begin += there;
  return there;
}

/* What is long goes to its place at once, the rest by way of the buffer: one call of the system for
 * a small packet. `ended` says whether an end before the first byte is no error: between packets it
 * is the other side's way to go. */
int tvmrt__channel_read(tvmrt_channel* ch, void* out, size_t size, bool* ended) {
  char* to = out;
  size_t have = take(ch, to, size);
  if (ended != NULL) *ended = false;
  while (have < size) {
    const bool direct = size - have >= sizeof(ch->buffer);
    size_t got = 0;
    TVMRT_RETURN_IF_ERROR(ch->kind->receive(ch, direct ? to + have : ch->buffer,
                                            direct ? size - have : sizeof(ch->buffer), &got));
    if (got == 0) {
      if (ended != NULL && have == 0) {
        *ended = true;
        return 0;
      }
      return tvmrt__fail("RPCError: the other side has closed the connection.");
    }
    if (direct) {
      have += got;
      continue;
    }
    ch->begin = 0;
    ch->end = got;
    have += take(ch, to + have, size - have);
  }
  return 0;
}

/* A length is only a claim: memory grows with what has come. */
int tvmrt__channel_append(tvmrt_channel* ch, uint64_t size, tvmrt_buf* out) {
  /* so that there is a text of no bytes, too */
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

/* "HOST:PORT"; *out_host is the caller's, NULL where nothing was given. The last colon counts, as
 * addresses may have others. */
int tvmrt__socket_place(const char* what, const char* where, char** out_host, int* out_port) {
  const char* colon = where == NULL ? NULL : strrchr(where, ':');
  char* end = NULL;
  long port;
  *out_host = NULL;
  if (where == NULL) return 0;
  port = colon == NULL ? 0 : strtol(colon + 1, &end, 10);
  if (colon == NULL || colon == where || end == colon + 1 || *end != '\0' || port < 1 ||
      port > 65535) {
    return tvmrt__fail_value("the %s '%s' must be given as HOST:PORT.", what, where);
  }
  *out_host = tvmrt__strdup(where);
  if (*out_host == NULL) return -1;
  (*out_host)[colon - where] = '\0';
  *out_port = (int)port;
  return 0;
}

/* For packets that were refused, so that the next one begins where it should. */
int tvmrt__channel_skip(tvmrt_channel* ch, uint64_t size) {
  char away[4096];
  while (size != 0) {
    const size_t part = size < sizeof(away) ? (size_t)size : sizeof(away);
    TVMRT_RETURN_IF_ERROR(tvmrt__channel_read(ch, away, part, NULL));
    size -= part;
  }
  return 0;
}
