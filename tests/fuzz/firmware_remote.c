/* Input of a board's line: bytes, frames and packets. The server uses no address that it has not
   sent to the client, and it still replies afterwards. */
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/platform.h>

#include "firmware/remote/frames.h"
#include "fuzz.h"

enum {
  RAW = 0x80,     /* a record whose bytes are sent unchanged */
  MESSAGE = 0x40, /* a record whose bytes are a frame's payload */
  KNOWN = 0xa1,   /* eight such bytes are replaced by the last handle sent */
  FRAME_BYTES = 1 << 14
};

typedef struct line {
  uint8_t sent[FRAME_BYTES]; /* of the frame that is made */
  size_t size;
  tvmrt_frame_reader answers;
  uint8_t answer[FRAME_BYTES];
  uint64_t known;
  size_t num_answers;
} line;

static int add(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
               void* resource_handle) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] == kTVMDLTensorHandle) {
    const DLTensor* t = args[0].v_handle;
    size_t bytes = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
    int32_t i;
    for (i = 0; i < t->ndim; ++i) bytes *= (size_t)t->shape[i];
    if (bytes != 0) memset((char*)t->data + t->byte_offset, 1, bytes);
    return 0;
  }
  *out = args[0];
  *out_code = type_codes[0];
  return 0;
}

/* Every reply is a whole frame. */
static ssize_t take_answer(void* context, const uint8_t* data, size_t num_bytes) {
  line* l = context;
  size_t i;
  for (i = 0; i < num_bytes; ++i) {
    if (tvmrt__frame_take(&l->answers, data[i]) != TVMRT_FRAME_COMPLETE) continue;
    l->num_answers++;
    if (l->answers.length == 3 + 28) memcpy(&l->known, l->answer + 3 + 20, 8);
  }
  return (ssize_t)num_bytes;
}

static int append(void* ctx, const uint8_t* data, size_t bytes) {
  line* l = ctx;
  FUZZ_REQUIRE(l->size + bytes <= FRAME_BYTES);
  memcpy(l->sent + l->size, data, bytes);
  l->size += bytes;
  return 0;
}

static int send(microtvm_rpc_server_t server, line* l, const uint8_t* data, size_t size) {
  uint8_t* copy = malloc(size + 1);
  uint8_t* at = copy;
  int rc;
  FUZZ_REQUIRE(copy != NULL);
  if (size != 0) memcpy(copy, data, size);
  rc = MicroTVMRpcServerLoop(server, &at, &size);
  free(copy);
  FUZZ_REQUIRE(rc == kTvmErrorNoError || rc == kTvmErrorPlatformShutdown);
  l->size = 0;
  return rc;
}

static int send_message(microtvm_rpc_server_t server, line* l, const uint8_t* head,
                        size_t head_size, const uint8_t* body, size_t size) {
  tvmrt_frame_writer w = {append, l, 0};
  l->size = 0;
  FUZZ_REQUIRE(tvmrt__frame_begin(&w, (uint32_t)(head_size + size)) == 0);
  FUZZ_REQUIRE(tvmrt__frame_put(&w, head, head_size) == 0);
  FUZZ_REQUIRE(tvmrt__frame_put(&w, body, size) == 0);
  FUZZ_REQUIRE(tvmrt__frame_end(&w) == 0);
  return send(server, l, l->sent, l->size);
}

static void put_known(const line* l, uint8_t* body, size_t size) {
  size_t i;
  for (i = 0; i + 8 <= size && l->known != 0; ++i) {
    int k = 0;
    while (k < 8 && body[i + (size_t)k] == KNOWN) ++k;
    if (k == 8) memcpy(body + i, &l->known, 8);
  }
}

static int send_record(microtvm_rpc_server_t server, line* l, int code, const uint8_t* data,
                       size_t size) {
  uint8_t body[2048];
  uint8_t head[15] = {1, 0, TVMRT_MESSAGE_PACKET};
  uint64_t bytes;
  int packet_code = code & 0x1f;
  if (code & RAW) return send(server, l, data, size);
  if (size > sizeof(body)) size = sizeof(body);
  if (size != 0) memcpy(body, data, size);
  if (code & MESSAGE) return send_message(server, l, NULL, 0, body, size);
  put_known(l, body, size);
  head[1] = l->answers.length != 0 ? l->answer[1] : 0; /* the server's nonce, of its last reply */
  bytes = size + 4;
  memcpy(head + 3, &bytes, 8);
  memcpy(head + 11, &packet_code, 4);
  return send_message(server, l, head, sizeof(head), body, size);
}

static void begin(microtvm_rpc_server_t* server, line* l) {
  static const uint8_t hello[] = {1, 0, TVMRT_MESSAGE_INIT, 1};
  static const uint8_t version[12] = {0};
  *server = MicroTVMRpcServerInit(take_answer, l);
  FUZZ_REQUIRE(send_message(*server, l, hello, sizeof(hello), NULL, 0) == 0);
  FUZZ_REQUIRE(send_record(*server, l, 2, version, sizeof(version)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint8_t hello[] = {1, 0, TVMRT_MESSAGE_INIT, 1};
  static const TVMCPackedFunc add_function = add;
  static uint64_t memory[1 << 12];
  static line l;
  microtvm_rpc_server_t server;
  size_t before;
  memset(&l, 0, sizeof(l));
  tvmrt__frame_reader_init(&l.answers, l.answer, sizeof(l.answer));
  tvmrt_workspace_init(memory + 128, sizeof(memory) - 1024);
  FUZZ_REQUIRE(tvmrt_globals_init(memory, 1024) == 0);
  FUZZ_REQUIRE(TVMFuncRegisterGlobal("f", (TVMFunctionHandle)(uintptr_t)&add_function, 1) == 0);
  begin(&server, &l);
  FUZZ_REQUIRE(l.num_answers >= 3);
  while (size >= 3) {
    size_t bytes = (size_t)data[1] | (size_t)data[2] << 8;
    if (bytes > size - 3) bytes = size - 3;
    if (send_record(server, &l, data[0], data + 3, bytes) != 0) begin(&server, &l);
    data += 3 + bytes;
    size -= 3 + bytes;
  }
  /* A byte ff before a frame swallows part of its beginning: the following frame is received. */
  before = l.num_answers;
  if (send_message(server, &l, hello, sizeof(hello), NULL, 0) == 0 &&
      send_message(server, &l, hello, sizeof(hello), NULL, 0) == 0) {
    FUZZ_REQUIRE(l.num_answers > before);
  }
  server = MicroTVMRpcServerInit(take_answer, &l); /* gives all memory back */
  return 0;
}
