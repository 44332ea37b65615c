/* Line to a board.
 *
 * Only one request is in flight at a time. If the board supports numbered messages, a request is
 * sent again until its answer arrives, and the board executes it once. Other boards, such as those
 * with TVM's own server, get each request once: a lost packet ends the session. */
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
  MAX_WAIT = 8    /* maximum wait between two attempts, as a multiple of the first */
};

struct tvmrt_board {
  tvmrt_board_options options; /* functions are retained */
  char* name;
  tvmrt_frame_reader frames;
  uint8_t session[2]; /* nonces of this side and of the board; zeros: no session */
  uint8_t nonce;      /* of the last session attempt */
  uint8_t number;     /* of the last request */
  bool is_numbered;   /* the board supports numbered messages, so requests may be sent again */
  bool is_waiting;    /* for the answer to `request` */
  tvmrt_buf request;  /* a packet */
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

/* The header holds the session id, the type and, in numbered messages, the request number. */
static int send_message(tvmrt_board* b, tvmrt_message_type type, const void* body, size_t bytes) {
  const bool numbered = type == TVMRT_MESSAGE_NUMBERED;
  const uint8_t head[] = {b->session[0], b->session[1], (uint8_t)type, b->number};
  const size_t head_bytes = sizeof(head) - (numbered ? 0 : 1);
  tvmrt_frame_writer w = {append, &b->text, 0};
  b->text.size = 0;
  /* lengths of frames have 32 bits */
  if (bytes > UINT32_MAX - sizeof(head))
    return tvmrt__fail_value("a packet is too long for boards.");
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_begin(&w, (uint32_t)(head_bytes + bytes)));
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_put(&w, head, head_bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__frame_put(&w, body, bytes));
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
typedef enum { OTHER, TAKEN, ANSWER, ENDED } meaning;

/* Classify a message; *head is the offset of the answer's packet. Answers to abandoned requests
 * carry another number and are skipped. */
static meaning read_message(tvmrt_board* b, size_t size, size_t* head) {
  const uint8_t type = b->message[2];
  *head = TVMRT_MESSAGE_HEAD_BYTES;
  if (type == TVMRT_MESSAGE_LOG) keep_log(b, size);
  if (type == TVMRT_MESSAGE_TERMINATE && (is_ours(b) || (b->message[0] | b->message[1]) == 0)) {
    return ENDED;
  }
  if (!is_ours(b)) return OTHER;
  if (type == TVMRT_MESSAGE_PACKET && !b->is_numbered) return ANSWER;
  if (!b->is_numbered || size < TVMRT_MESSAGE_HEAD_BYTES + 1 || b->message[3] != b->number) {
    return OTHER;
  }
  *head += 1;
  if (type == TVMRT_MESSAGE_NUMBERED) return ANSWER;
  return type == TVMRT_MESSAGE_TAKEN ? TAKEN : OTHER;
}

/* Send the current request. On a retry, the number identifies it to the board as a duplicate. */
static int transmit(tvmrt_board* b) {
  return send_message(b, b->is_numbered ? TVMRT_MESSAGE_NUMBERED : TVMRT_MESSAGE_PACKET,
                      b->request.data, b->request.size);
}

/* Report a timeout. A board that took the call is alive, so the text then points at the call
 * instead of the line. */
static int fail_with_timeout(const tvmrt_board* b, bool was_taken) {
  return fail_with_log(b, was_taken ? "accepted a call and has not finished it" : "does not answer",
                       was_taken ? "check whether the call is still running"
                                 : "check the serial line, its speed and the board's power");
}

/* Wait for the answer to the pending request and append it to the inbox. A board that has
 * acknowledged the request gets more time. Otherwise the request is sent again with growing delays,
 * since the board may be busy with its line. */
static int collect(tvmrt_board* b) {
  const double begun = tvmrt__seconds();
  double wait = b->options.retry;
  double again = begun + wait;
  double end = begun + b->options.answer;
  bool was_taken = false;
  while (b->is_waiting) {
    size_t size;
    size_t head;
    meaning what;
    TVMRT_RETURN_IF_ERROR(next_message(b, b->is_numbered && again < end ? again : end, &size));
    what = size == 0 ? OTHER : read_message(b, size, &head);
    if (what == ENDED) {
      return fail_with_log(b, "was restarted, or ended the session", "connect again");
    }
    if (what == ANSWER) {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->inbox, b->message + head, size - head));
      b->is_waiting = false;
    } else if (what == TAKEN && !was_taken) {
      was_taken = true;
      end = begun + LONG_CALL * b->options.answer;
    } else if (tvmrt__seconds() >= end) {
      return fail_with_timeout(b, was_taken);
    } else if (b->is_numbered && tvmrt__seconds() >= again) {
      TVMRT_RETURN_IF_ERROR(transmit(b));
      if (wait < MAX_WAIT * b->options.retry) wait *= 2;
      again = tvmrt__seconds() + wait;
    }
  }
  return 0;
}

/* ---- the channel ---- */

/* Unread answers are collected first, since the board takes one request at a time. The packet is
 * kept in one piece because it may have to be sent again. */
static int channel_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                        size_t tail_bytes) {
  tvmrt_board* b = ch->self;
  TVMRT_RETURN_IF_ERROR(collect(b));
  b->request.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->request, head, head_bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->request, tail, tail_bytes));
  /* wraps at one byte: only the last number is compared */
  b->number++;
  b->is_waiting = true;
  return transmit(b);
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

/* Exchange one of the first packets; *came reports whether the answer arrived. A lost packet
 * restarts the whole session setup. */
static int exchange_first(tvmrt_board* b, double until, bool* came) {
  size_t size;
  size_t head;
  meaning what = OTHER;
  *came = false;
  TVMRT_RETURN_IF_ERROR(transmit(b));
  while (what != ANSWER) {
    TVMRT_RETURN_IF_ERROR(next_message(b, until, &size));
    if (size == 0) return 0;
    what = read_message(b, size, &head);
    if (what == ENDED || (what != ANSWER && tvmrt__seconds() >= until)) return 0;
  }
  b->inbox.size = 0;
  *came = true;
  return tvmrt__buf_append(&b->inbox, b->message + head, size - head);
}

/* Whether the answer in the inbox is a single non-zero handle. */
static bool is_handle(const tvmrt_board* b) {
  tvmrt_reader in;
  tvmrt_rpc_seq seq;
  uint64_t bytes;
  uint64_t code;
  bool is = false;
  memset(&seq, 0, sizeof(seq));
  tvmrt__reader_init(&in, "the answer", b->inbox.data, b->inbox.size);
  if (tvmrt__read_uint(&in, 8, &bytes) == 0 && tvmrt__read_uint(&in, 4, &code) == 0 &&
      code == TVMRT_RPC_RETURN && tvmrt__rpc_read_seq(&in, &seq) == 0 && seq.count == 1) {
    is = seq.codes[0] == kTVMOpaqueHandle && seq.values[0].v_int64 != 0;
  }
  tvmrt__rpc_seq_free(&seq);
  tvmrt__forget_error();
  return is;
}

/* No arguments: a board supports one kind of session. */
static int write_init(tvmrt_buf* out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_init(out, NULL, NULL, 0));
  tvmrt__rpc_end(out, 0);
  return 0;
}

/* Ask for the function whose presence indicates support for numbered messages. */
static int write_question(tvmrt_buf* out) {
  static const int code = kTVMStr;
  TVMValue name;
  name.v_str = TVMRT_NUMBERED_NAME;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(out, TVMRT_RPC_GET_GLOBAL));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_seq(out, &name, &code, 1));
  tvmrt__rpc_end(out, 0);
  return 0;
}

/* Try the setup from the first nonce to the query for numbered messages. A board with an earlier
 * session resets itself and responds to the next attempt. */
static int try_session(tvmrt_board* b, bool* began) {
  static const uint8_t version = 1;
  const double until = tvmrt__seconds() + b->options.retry;
  b->nonce = tvmrt__frame_next_nonce(b->nonce);
  b->session[0] = b->nonce;
  b->session[1] = 0;
  TVMRT_RETURN_IF_ERROR(send_message(b, TVMRT_MESSAGE_INIT, &version, sizeof(version)));
  TVMRT_RETURN_IF_ERROR(await_session(b, until, began));
  if (!*began) return 0;
  TVMRT_RETURN_IF_ERROR(write_init(&b->request));
  TVMRT_RETURN_IF_ERROR(exchange_first(b, tvmrt__seconds() + b->options.retry, began));
  if (!*began) return 0;
  TVMRT_RETURN_IF_ERROR(write_question(&b->request));
  TVMRT_RETURN_IF_ERROR(exchange_first(b, tvmrt__seconds() + b->options.retry, began));
  b->is_numbered = *began && is_handle(b);
  b->inbox.size = 0;
  /* log output from start-up does not explain later errors */
  b->log[0] = '\0';
  return 0;
}

/* The board may have been reset or not be ready, so retry until the time limit. */
static int begin_session(tvmrt_board* b) {
  const double end = tvmrt__seconds() + b->options.start;
  bool began = false;
  b->text.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->text, "\xfe", 1)); /* wakes up receivers */
  TVMRT_RETURN_IF_ERROR(send_text(b));
  do {
    TVMRT_RETURN_IF_ERROR(try_session(b, &began));
  } while (!began && tvmrt__seconds() < end);
  if (began) return 0;
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
  tvmrt__buf_free(&b->request);
  tvmrt__buf_free(&b->inbox);
  tvmrt__buf_free(&b->text);
  free(b->name);
  free(b);
}
