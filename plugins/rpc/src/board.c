/* Line to a board: one request at a time, each sent once. A lost packet ends the session. */
#include "board.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/frames.h"
#include "sdk/system.h"
#include "sdk/values.h"
#include "wire.h"

enum {
  MESSAGE_BYTES = 1 << 16, /* maximum bytes of a message from a board */
  LOG_BYTES = 256,
  LONG_CALL = 60, /* multiple of the time limit for an answer */
  CODE_AT = 8     /* of a packet: after its length */
};

struct tvmrt_board {
  tvmrt_board_options options; /* functions are retained */
  char* name;
  tvmrt_frame_reader frames;
  uint8_t session[2]; /* nonces of this side and of the board; zeros: no session */
  uint8_t nonce;      /* of the last session attempt */
  bool is_waiting;    /* for the answer to a request */
  bool is_call;       /* the last request was one, which may take long */
  tvmrt_buf inbox;    /* received answers; read up to `at` */
  size_t at;
  tvmrt_buf text; /* argument of the send function */
  char log[LOG_BYTES + 1];
  uint8_t message[MESSAGE_BYTES];
};

/* ---- bytes ---- */

/* Output callback of the frame writer, which escapes its input and adds the checksum. */
static int append(void* ctx, const uint8_t* data, size_t bytes) {
  return tvmrt__buf_append(ctx, data, bytes);
}

/* The codes are copied for each call, since a frontend's function may write to its arguments. */
static int send_text(tvmrt_board* b) {
  TVMByteArray bytes = {b->text.data, b->text.size};
  static const int codes[2] = {kTVMBytes, kTVMNullptr};
  int own[2];
  TVMValue args[2];
  memcpy(own, codes, sizeof(own));
  args[0].v_handle = &bytes;
  args[1].v_handle = NULL;
  return tvmrt__func_call(b->options.send, args, own, 2);
}

/* The header holds the session id and the type; the body comes in two parts. */
static int send_message(tvmrt_board* b, tvmrt_message_type type, const void* body, size_t bytes,
                        const void* tail, size_t tail_bytes) {
  const uint8_t head[TVMRT_MESSAGE_HEAD_BYTES] = {b->session[0], b->session[1], (uint8_t)type};
  tvmrt_frame_writer w = {append, &b->text, 0};
  b->text.size = 0;
  /* lengths of frames have 32 bits */
  if (bytes > UINT32_MAX / 2 || tail_bytes > UINT32_MAX / 2)
    return tvmrt__fail_value("a packet is too long for boards.");
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_begin(&w, (uint32_t)(sizeof(head) + bytes + tail_bytes)));
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_put(&w, head, sizeof(head)));
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_put(&w, body, bytes));
  if (tail_bytes != 0) TVMRT_RETURN_IF_ERROR(tvmrt__frame_put(&w, tail, tail_bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_end(&w));
  return send_text(b);
}

/* Receive at most `capacity` bytes before the time `until`; *got is 0 on timeout. *out points into
 * *owner, which the caller releases. */
static int receive(tvmrt_board* b, size_t capacity, double until, TVMByteArray* out,
                   tvmrt_object** owner) {
  const double left = until - tvmrt__seconds();
  TVMValue args[2];
  TVMValue result;
  int codes[2] = {kTVMArgInt, kTVMArgInt};
  int code = kTVMNullptr;
  const tvmrt_args in = {"the function that receives from a board", &result, &code, 1};
  args[0].v_int64 = (int64_t)capacity;
  /* microseconds, rounded up and never 0, which would mean no limit */
  args[1].v_int64 = left > 0 ? tvmrt__float_to_int(left * 1e6 + 1) : 1;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(b->options.receive, args, codes, 2, &result, &code));
  *owner = tvmrt__value_object(&result, code);
  return tvmrt__arg_bytes(&in, 0, out);
}

/* Read the next complete message into b->message; *size is 0 on timeout. */
static int next_message(tvmrt_board* b, double until, size_t* size) {
  *size = 0;
  while (*size < TVMRT_MESSAGE_HEAD_BYTES) {
    /* Never request more than the frame needs, so that no byte of the next frame is consumed. */
    const size_t missing = tvmrt__frame_missing_bytes(&b->frames);
    TVMByteArray bytes = {NULL, 0};
    tvmrt_object* owner = NULL;
    size_t i;
    int rc = receive(b, missing, until, &bytes, &owner);
    if (rc == 0 && bytes.size > missing) {
      rc = tvmrt__fail("RPCError: %s sent more bytes than were requested.", b->name);
    }
    /* a frame is complete with the last requested byte at the earliest */
    for (i = 0; rc == 0 && i < bytes.size; ++i) {
      if (tvmrt__frame_take(&b->frames, (uint8_t)bytes.data[i]) == TVMRT_FRAME_COMPLETE) {
        *size = b->frames.length;
      }
    }
    tvmrt__release(owner);
    TVMRT_RETURN_IF_ERROR(rc);
    /* A partial frame stays in the reader for the next call. */
    if (tvmrt__seconds() >= until && *size < TVMRT_MESSAGE_HEAD_BYTES) {
      *size = 0;
      return 0;
    }
  }
  return 0;
}

/* ---- messages ---- */

/* Store the board's last log message, which the next error text shows. */
static void keep_log(tvmrt_board* b, size_t size) {
  size_t bytes = size - TVMRT_MESSAGE_HEAD_BYTES;
  if (bytes > LOG_BYTES) bytes = LOG_BYTES;
  memcpy(b->log, b->message + TVMRT_MESSAGE_HEAD_BYTES, bytes);
  b->log[bytes] = '\0';
}

/* The first byte of a session's id is never 0, so no message matches before a session. */
static bool is_ours(const tvmrt_board* b) {
  return b->message[0] == b->session[0] && b->message[1] == b->session[1] && b->session[0] != 0;
}

/* Return -1 with an error text: the problem, the board's last log message, and a hint. */
static int fail_with_log(const tvmrt_board* b, const char* what, const char* next) {
  const bool has = b->log[0] != '\0';
  return tvmrt__fail("RPCError: %s %s%s%s%s; %s.", b->name, what, has ? "; it last said '" : "",
                     b->log, has ? "'" : "", next);
}

/* Meaning of a message while waiting for an answer. */
typedef enum { OTHER, ANSWER, ENDED } meaning;

/* Classify a message; *size is 0 on timeout. An answer is appended to the inbox. */
static int await_message(tvmrt_board* b, double until, size_t* size, meaning* what) {
  *what = OTHER;
  TVMRT_RETURN_IF_ERROR(next_message(b, until, size));
  if (*size == 0) return 0;
  if (b->message[2] == TVMRT_MESSAGE_LOG) keep_log(b, *size);
  if (b->message[2] == TVMRT_MESSAGE_TERMINATE &&
      (is_ours(b) || (b->message[0] | b->message[1]) == 0)) {
    *what = ENDED;
  }
  if (b->message[2] != TVMRT_MESSAGE_PACKET || !is_ours(b)) return 0;
  *what = ANSWER;
  return tvmrt__buf_append(&b->inbox, b->message + TVMRT_MESSAGE_HEAD_BYTES,
                           *size - TVMRT_MESSAGE_HEAD_BYTES);
}

/* Wait for the answer to the pending request. */
static int collect(tvmrt_board* b) {
  const double end = tvmrt__seconds() + (b->is_call ? LONG_CALL : 1) * b->options.answer;
  while (b->is_waiting) {
    size_t size;
    meaning what;
    TVMRT_RETURN_IF_ERROR(await_message(b, end, &size, &what));
    if (what == ENDED) {
      return fail_with_log(b, "was restarted, or ended the session", "connect again");
    }
    if (what == ANSWER) {
      b->is_waiting = false;
    } else if (tvmrt__seconds() >= end) {
      return fail_with_log(b, b->is_call ? "has not finished a call" : "does not answer",
                           "check the serial line, its speed and the board's power");
    }
  }
  return 0;
}

/* ---- the channel ---- */

/* Unread answers are collected first, since the board takes one request at a time. */
static int channel_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                        size_t tail_bytes) {
  tvmrt_board* b = ch->self;
  TVMRT_RETURN_IF_ERROR(collect(b));
  b->is_call = head_bytes > CODE_AT && ((const uint8_t*)head)[CODE_AT] == TVMRT_RPC_CALL;
  b->is_waiting = true;
  return send_message(b, TVMRT_MESSAGE_PACKET, head, head_bytes, tail, tail_bytes);
}

/* Return bytes of the inbox; when it is empty, wait for the answer. */
static int channel_receive(tvmrt_channel* ch, void* out, size_t capacity, size_t* received) {
  tvmrt_board* b = ch->self;
  if (b->at == b->inbox.size) {
    b->inbox.size = 0;
    b->at = 0;
    if (!b->is_waiting) return tvmrt__fail("RPCError: a reply from %s is too short.", b->name);
    TVMRT_RETURN_IF_ERROR(collect(b));
  }
  *received = b->inbox.size - b->at < capacity ? b->inbox.size - b->at : capacity;
  if (*received != 0) memcpy(out, b->inbox.data + b->at, *received);
  b->at += *received;
  return 0;
}

/* The channel borrows the board, which the session frees after the channel. */
void tvmrt__board_channel(tvmrt_board* board, tvmrt_channel* out) {
  static const tvmrt_channel_kind kind = {channel_send, channel_receive};
  tvmrt__channel_init(out, &kind, board);
}

/* ---- begin and end ---- */

/* Whether the message answers this side's nonce with the board's nonce. */
static bool is_reply(const tvmrt_board* b) {
  return b->message[2] == TVMRT_MESSAGE_REPLY && b->message[0] == b->session[0] &&
         b->message[1] != 0;
}

/* Wait for the board's nonce; *began reports whether it arrived. Other messages do not extend the
 * time. */
static int await_session(tvmrt_board* b, double until, bool* began) {
  size_t size;
  *began = false;
  do {
    TVMRT_RETURN_IF_ERROR(next_message(b, until, &size));
    if (size == 0) return 0;
    if (b->message[2] == TVMRT_MESSAGE_LOG) keep_log(b, size);
    *began = is_reply(b);
  } while (!*began && tvmrt__seconds() < until);
  if (*began) b->session[1] = b->message[1];
  return 0;
}

/* Exchange the first packet; *came reports whether the answer arrived. */
static int exchange_first(tvmrt_board* b, const tvmrt_buf* packet, double until, bool* came) {
  size_t size;
  meaning what;
  *came = false;
  TVMRT_RETURN_IF_ERROR(send_message(b, TVMRT_MESSAGE_PACKET, packet->data, packet->size, NULL, 0));
  do {
    TVMRT_RETURN_IF_ERROR(await_message(b, until, &size, &what));
    *came = what == ANSWER;
  } while (size != 0 && what == OTHER && tvmrt__seconds() < until);
  return 0;
}

/* Try the setup from the nonce to the answer to the first packet. A lost packet restarts it. A
 * board with an earlier session resets itself and responds to the next attempt. */
static int try_session(tvmrt_board* b, const tvmrt_buf* first, bool* began) {
  static const uint8_t version = 1;
  const double until = tvmrt__seconds() + b->options.retry;
  b->nonce = tvmrt__frame_next_nonce(b->nonce);
  b->session[0] = b->nonce;
  b->session[1] = 0;
  TVMRT_RETURN_IF_ERROR(send_message(b, TVMRT_MESSAGE_INIT, &version, sizeof(version), NULL, 0));
  TVMRT_RETURN_IF_ERROR(await_session(b, until, began));
  if (!*began) return 0;
  TVMRT_RETURN_IF_ERROR(exchange_first(b, first, tvmrt__seconds() + b->options.retry, began));
  b->inbox.size = 0;
  /* log output from start-up does not explain later errors */
  if (*began) b->log[0] = '\0';
  return 0;
}

/* The board may have been reset or not be ready, so retry until the time limit. */
static int begin_session(tvmrt_board* b) {
  const double end = tvmrt__seconds() + b->options.start;
  tvmrt_buf first = {NULL, 0, 0};
  bool began = false;
  int rc = tvmrt__buf_append(&b->text, "\xfe", 1); /* wakes up receivers */
  if (rc == 0) rc = send_text(b);
  if (rc == 0) rc = tvmrt__rpc_write_init(&first);
  while (rc == 0 && !began && tvmrt__seconds() < end) rc = try_session(b, &first, &began);
  tvmrt__buf_free(&first);
  if (rc != 0 || began) return rc;
  return fail_with_log(b, "does not start a session",
                       "check that its firmware contains the RPC server, and the line's speed");
}

/* Retain a function; NULL is allowed. */
static TVMFunctionHandle keep(TVMFunctionHandle f) {
  if (f != NULL) tvmrt__retain(f);
  return f;
}

/* On failure the line is closed with the caller's function. The nonce starts at a time-dependent
 * value, so that consecutive clients rarely share one. */
int tvmrt__board_open(const tvmrt_board_options* options, tvmrt_board** out) {
  tvmrt_board* b = tvmrt__calloc(1, sizeof(*b));
  *out = NULL;
  if (b == NULL) return -1;
  b->options = *options;
  (void)keep(options->send);
  (void)keep(options->receive);
  (void)keep(options->close);
  b->nonce = (uint8_t)((uint64_t)(tvmrt__seconds() * 1e6) & 0xff);
  tvmrt__frame_reader_init(&b->frames, b->message, sizeof(b->message));
  b->name = tvmrt__strdup(options->name);
  if (b->name == NULL || begin_session(b) != 0) {
    tvmrt__board_free(b);
    return -1;
  }
  *out = b;
  return 0;
}

/* Close the line without losing the current error text. */
static void close_line(TVMFunctionHandle close) {
  char* saved = tvmrt__strdup(TVMGetLastError());
  (void)tvmrt__func_call(close, NULL, NULL, 0);
  if (saved != NULL) TVMPackedFuncSetLastError(saved);
  free(saved);
}

/* NULL does nothing. The functions are released after the line is closed with one of them. */
void tvmrt__board_free(tvmrt_board* b) {
  if (b == NULL) return;
  if (b->options.close != NULL) close_line(b->options.close);
  tvmrt__release(b->options.send);
  tvmrt__release(b->options.receive);
  tvmrt__release(b->options.close);
  tvmrt__buf_free(&b->inbox);
  tvmrt__buf_free(&b->text);
  free(b->name);
  free(b);
}
