/* The line to a board.
 *
 * One request is on its way at a time. Where the board takes numbered messages, a request is sent again
 * until its answer has come: the board executes it once. Others, TVM's own servers among them, get each
 * request once, so that what is lost ends the session. */
#include "board.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/frames.h"
#include "sdk/system.h"
#include "sdk/values.h"
#include "wire.h"

enum {
  MESSAGE_BYTES = 1 << 16, /* the longest that a board may send */
  LOG_BYTES = 256,
  LONG_CALL = 60, /* times the time for an answer */
  MOST_WAIT = 8   /* times the first wait, between two attempts */
};

struct tvmrt_board {
  tvmrt_board_options options; /* its functions retained */
  char* name;
  tvmrt_frame_reader frames;
  uint8_t session[2]; /* nonces of this side and of the board; zeros: none */
  uint8_t nonce;      /* of the last session that was begun */
  uint8_t number;     /* of the last request */
  bool is_numbered;   /* the board knows numbered messages: a request may be sent again */
  bool is_waiting;    /* for the answer to `request` */
  tvmrt_buf request;  /* a packet */
  tvmrt_buf inbox;    /* answers, read up to `at` */
  size_t at;
  tvmrt_buf text; /* what is handed to the function that sends */
  char log[LOG_BYTES + 1];
  uint8_t message[MESSAGE_BYTES];
};

/* ---- bytes ---- */

/* For the frame's writer, which escapes and sums up what it is given. */
static int append(void* ctx, const uint8_t* data, size_t bytes) {
  return tvmrt__buf_append(ctx, data, bytes);
}

/* The codes are copied for each call, since a front end's function may write to its arguments. */
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

/* The head is the session's id, the type and, in numbered messages, the number of the request. */
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

/* Bytes that have come until then, at most `most`, at least one unless *got is 0; *out is borrowed from
 * *owner, which is the caller's. */
static int receive(tvmrt_board* b, size_t most, double until, TVMByteArray* out,
                   tvmrt_object** owner) {
  const double left = until - tvmrt__seconds();
  TVMValue args[2];
  TVMValue result;
  int codes[2] = {kTVMArgInt, kTVMArgInt};
  int code = kTVMNullptr;
  const tvmrt_args in = {"the function that receives from a board", &result, &code, 1};
  args[0].v_int64 = (int64_t)most;
  /* microseconds, rounded up, and never 0: that would be a wait without an end */
  args[1].v_int64 = left > 0 ? tvmrt__int_of_real(left * 1e6 + 1) : 1;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(b->options.receive, args, codes, 2, &result, &code));
  *owner = tvmrt__value_object(&result, code);
  return tvmrt__arg_bytes(&in, 0, out);
}

/* The next whole message: its bytes are in b->message, *size 0 if none came until then. */
static int next_message(tvmrt_board* b, double until, size_t* size) {
  *size = 0;
  while (*size < TVMRT_MESSAGE_HEAD_BYTES) {
    /* What is asked for is never more than the frame needs, so no byte of the next one is taken
     * with it. */
    const size_t needs = tvmrt__frame_needs(&b->frames);
    TVMByteArray bytes = {NULL, 0};
    tvmrt_object* owner = NULL;
    size_t i;
    int rc = receive(b, needs, until, &bytes, &owner);
    if (rc == 0 && bytes.size > needs) {
      rc = tvmrt__fail("RPCError: more bytes came from %s than were asked.", b->name);
    }
    /* a frame is whole with the last byte that was asked for, at the earliest */
    for (i = 0; rc == 0 && i < bytes.size; ++i) {
      if (tvmrt__frame_take(&b->frames, (uint8_t)bytes.data[i]) == TVMRT_FRAME_WHOLE) {
        *size = b->frames.length;
      }
    }
    tvmrt__release(owner);
    TVMRT_RETURN_IF_ERROR(rc);
    /* Whatever of a frame has come stays with the reader for the next call. */
    if (tvmrt__seconds() >= until && *size < TVMRT_MESSAGE_HEAD_BYTES) {
      *size = 0;
      return 0;
    }
  }
  return 0;
}

/* ---- messages ---- */

/* What a board says of itself is shown with the next error; the last words count. */
static void keep_log(tvmrt_board* b, size_t size) {
  size_t bytes = size - TVMRT_MESSAGE_HEAD_BYTES;
  if (bytes > LOG_BYTES) bytes = LOG_BYTES;
  memcpy(b->log, b->message + TVMRT_MESSAGE_HEAD_BYTES, bytes);
  b->log[bytes] = '\0';
}

/* A session's first number is never 0, so that nothing is ours before one has begun. */
static bool is_ours(const tvmrt_board* b) {
  return b->message[0] == b->session[0] && b->message[1] == b->session[1] && b->session[0] != 0;
}

/* Always -1: what happened, what the board last said, what to look at. */
static int fail_with_log(const tvmrt_board* b, const char* what, const char* next) {
  const bool has = b->log[0] != '\0';
  return tvmrt__fail("RPCError: %s %s%s%s%s; %s.", b->name, what, has ? "; it last said '" : "",
                     b->log, has ? "'" : "", next);
}

/* What a message means while an answer is waited for. */
typedef enum { OTHER, TAKEN, ANSWER, ENDED } meaning;

/* *head is where the answer's packet begins. Answers to requests that were given up carry another
 * number and are passed over. */
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

/* The first time and again: the number tells the board that it is the same request. */
static int transmit(tvmrt_board* b) {
  return send_message(b, b->is_numbered ? TVMRT_MESSAGE_NUMBERED : TVMRT_MESSAGE_PACKET,
                      b->request.data, b->request.size);
}

/* Two sentences: a board that has taken the call is alive, and its user looks elsewhere than at
 * the line. */
static int give_up(const tvmrt_board* b, bool was_taken) {
  return fail_with_log(
      b, was_taken ? "took a call and has not ended it" : "does not answer",
      was_taken ? "is it still running?" : "look at the line, its speed and the board's power");
}

/* Wait for the answer to the request that is on its way; it goes to the inbox. A board that has
 * said that it runs the request may take longer; one that says nothing is asked again, each time
 * later, as it may be busy with its line. */
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
      return fail_with_log(b, "was started anew, or has ended the session", "connect again");
    }
    if (what == ANSWER) {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->inbox, b->message + head, size - head));
      b->is_waiting = false;
    } else if (what == TAKEN && !was_taken) {
      was_taken = true;
      end = begun + LONG_CALL * b->options.answer;
    } else if (tvmrt__seconds() >= end) {
      return give_up(b, was_taken);
    } else if (b->is_numbered && tvmrt__seconds() >= again) {
      TVMRT_RETURN_IF_ERROR(transmit(b));
      if (wait < MOST_WAIT * b->options.retry) wait *= 2;
      again = tvmrt__seconds() + wait;
    }
  }
  return 0;
}

/* ---- the channel ---- */

/* Answers that nobody has read are collected first: the board takes one request at a time. A packet
 * goes as it is put together, since it may have to be sent again. */
static int channel_send(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                        size_t tail_bytes) {
  tvmrt_board* b = ch->self;
  TVMRT_RETURN_IF_ERROR(collect(b));
  b->request.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->request, head, head_bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->request, tail, tail_bytes));
  /* one byte, which wraps: what is compared is only the last one */
  b->number++;
  b->is_waiting = true;
  return transmit(b);
}

/* Hands out what is in the inbox, and waits for the answer where that is used up. */
static int channel_receive(tvmrt_channel* ch, void* out, size_t most, size_t* got) {
  tvmrt_board* b = ch->self;
  if (b->at == b->inbox.size) {
    b->inbox.size = 0;
    b->at = 0;
    if (!b->is_waiting) return tvmrt__fail("RPCError: an answer of %s is too short.", b->name);
    TVMRT_RETURN_IF_ERROR(collect(b));
  }
  *got = b->inbox.size - b->at < most ? b->inbox.size - b->at : most;
  if (*got != 0) memcpy(out, b->inbox.data + b->at, *got);
  b->at += *got;
  return 0;
}

/* The channel borrows the board, which the session frees after it. */
void tvmrt__board_channel(tvmrt_board* board, tvmrt_channel* out) {
  static const tvmrt_channel_kind kind = {channel_send, channel_receive};
  tvmrt__channel_init(out, &kind, board);
}

/* ---- begin and end ---- */

/* Whether the message answers the nonce of this side by one of the board. */
static bool is_reply(const tvmrt_board* b) {
  return b->message[2] == TVMRT_MESSAGE_REPLY && b->message[0] == b->session[0] &&
         b->message[1] != 0;
}

/* Wait for the board's nonce; *began says whether it came. Messages of other kinds give it no more
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

/* One of the first packets, whose loss begins all anew; *came says whether its answer came. */
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

/* Whether the answer in the inbox is one value, a handle that is not 0. */
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

/* Without arguments: a board has one session of one kind. */
static int write_init(tvmrt_buf* out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_init(out, NULL, NULL, 0));
  tvmrt__rpc_end(out, 0);
  return 0;
}

/* Whether the board has a function of the name that stands for numbered messages. */
static int write_question(tvmrt_buf* out) {
  static const int code = kTVMStr;
  TVMValue name;
  name.v_str = TVMRT_NUMBERED_NAME;
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_begin(out, TVMRT_RPC_GET_GLOBAL));
  TVMRT_RETURN_IF_ERROR(tvmrt__rpc_write_seq(out, &name, &code, 1));
  tvmrt__rpc_end(out, 0);
  return 0;
}

/* From the first nonce to the knowledge whether messages may be numbered. A board that had a session
 * begins anew by itself, and takes part when it is asked again. */
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
  /* what it said while it started is no explanation of later errors */
  b->log[0] = '\0';
  return 0;
}

/* A board may have been reset or not be ready: everything is tried again until the time is up. */
static int begin_session(tvmrt_board* b) {
  const double end = tvmrt__seconds() + b->options.start;
  bool began = false;
  b->text.size = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&b->text, "\xfe", 1)); /* wakes receivers up */
  TVMRT_RETURN_IF_ERROR(send_text(b));
  do {
    TVMRT_RETURN_IF_ERROR(try_session(b, &began));
  } while (!began && tvmrt__seconds() < end);
  if (began) return 0;
  return fail_with_log(b, "does not begin a session",
                       "is an image with the server of remote calls on it, and the line's speed "
                       "right?");
}

/* The board holds its functions until it is freed; NULL is one that was not given. */
static TVMFunctionHandle keep(TVMFunctionHandle f) {
  if (f != NULL) tvmrt__retain(f);
  return f;
}

/* On failure the line is closed by the caller's function. The nonce begins anywhere, so that two
 * clients one after the other rarely have the same. */
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

/* The error that somebody is about to read stays. */
static void close_line(TVMFunctionHandle close) {
  char* kept = tvmrt__strdup(TVMGetLastError());
  (void)tvmrt__func_call(close, NULL, NULL, 0);
  if (kept != NULL) TVMPackedFuncSetLastError(kept);
  free(kept);
}

/* NULL does nothing. Functions are given back after the line is closed by one of them. */
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
