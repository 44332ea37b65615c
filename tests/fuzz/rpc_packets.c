/* What a client sends: each packet is answered by one, and no address outside of the session's memory
 * is used. */
#include "core/function.h"
#include "rpc/endpoint.h"
#include "rpc_records.h"
#include "tensors/tensor.h"

/* Eight such bytes stand for the address of what the session has allocated last. */
enum { ADDRESS = 0xa1 };

typedef struct pipes {
  tvmrt_buf in;
  size_t at;
  tvmrt_buf out;
} pipes;

static int send_all(tvmrt_channel* ch, const void* head, size_t head_bytes, const void* tail,
                    size_t tail_bytes) {
  pipes* p = ch->self;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(&p->out, head, head_bytes));
  return tvmrt__buf_append(&p->out, tail, tail_bytes);
}

static int receive(tvmrt_channel* ch, void* out, size_t most, size_t* got) {
  pipes* p = ch->self;
  *got = p->in.size - p->at < most ? p->in.size - p->at : most;
  if (*got != 0) memcpy(out, p->in.data + p->at, *got);
  p->at += *got;
  return 0;
}

TVMRT_NATIVE(echo) {
  TVMRT_ARGS("f");
  if (num_args == 0 || type_codes[0] == kTVMDLTensorHandle) return 0;
  return tvmrt_func_return(&args[0], type_codes[0], out, out_code);
}

TVMRT_NATIVE(make_array) {
  static const int64_t shape[] = {2, 3};
  const DLDataType type = {kDLFloat, 32, 1};
  const DLDevice cpu = {kDLCPU, 0};
  tvmrt_tensor* t = tvmrt__tensor_alloc(shape, 2, type, cpu);
  TVMRT_ARGS("a");
  if (t != NULL) memset(t->dl.data, 0, 24);
  return tvmrt__ret_object(out, out_code, t == NULL ? NULL : &t->base);
}

/* Touches all of its tensors, which lie where the session may write. */
TVMRT_NATIVE(fill) {
  int i;
  TVMRT_ARGS("t");
  for (i = 0; i < num_args; ++i) {
    uint64_t bytes;
    if (type_codes[i] != kTVMDLTensorHandle) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(args[i].v_handle, &bytes));
    if (bytes != 0) memset(tvmrt__tensor_data(args[i].v_handle), 1, (size_t)bytes);
  }
  return tvmrt__ret_str(out, out_code, "done");
}

static void enter_functions(void) {
  static const TVMCPackedFunc functions[] = {echo, make_array, fill};
  static const char* const names[] = {"f", "a", "t"};
  static int done;
  size_t i;
  for (i = 0; i < 3 && !done; ++i) {
    TVMFunctionHandle f;
    FUZZ_REQUIRE(tvmrt_func_create(functions[i], NULL, NULL, &f) == 0);
    FUZZ_REQUIRE(TVMFuncRegisterGlobal(names[i], f, 1) == 0);
    FUZZ_REQUIRE(TVMFuncFree(f) == 0);
  }
  done = 1;
}

static void put_addresses(const tvmrt_rpc_endpoint* ep, tvmrt_buf* packet) {
  uint64_t address = 0;
  size_t i;
  for (i = 0; i < ep->handles.count; ++i) {
    if (ep->handles.items[i].data != 0) address = ep->handles.items[i].data;
  }
  for (i = 12; i + 8 <= packet->size && address != 0; ++i) {
    int k = 0;
    while (k < 8 && (uint8_t)packet->data[i + (size_t)k] == ADDRESS) ++k;
    if (k == 8) memcpy(packet->data + i, &address, 8);
  }
}

/* One answer, of its own length, that says that it is one. */
static void check_answers(const tvmrt_buf* out) {
  uint64_t bytes;
  int32_t code;
  FUZZ_REQUIRE(out->size >= 12);
  memcpy(&bytes, out->data, 8);
  memcpy(&code, out->data + 8, 4);
  FUZZ_REQUIRE(bytes == out->size - 8);
  FUZZ_REQUIRE(code == TVMRT_RPC_RETURN || code == TVMRT_RPC_EXCEPTION ||
               code == TVMRT_RPC_COPY_ACK);
}

static void step(tvmrt_rpc_endpoint* ep, pipes* p, const record* r) {
  p->in.size = 0;
  p->at = 0;
  p->out.size = 0;
  append_packet(&p->in, r);
  put_addresses(ep, &p->in);
  while (!ep->ended && (p->at < p->in.size || ep->channel->begin < ep->channel->end)) {
    p->out.size = 0;
    if (!fuzz_succeeded(tvmrt__rpc_endpoint_step(ep))) {
      ep->ended = true; /* the stream ended inside of a packet */
    } else if (p->out.size != 0) {
      check_answers(&p->out);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tvmrt_channel_kind kind = {send_all, receive};
  static const uint8_t init[] = {5, 0, 0, 0, 0, 0, 0, 0, '0', '.', '8', '.', '0', 0, 0, 0, 0};
  static const tvmrt_rpc_limits limits = {1 << 16, 1 << 20, 64};
  record r = {TVMRT_RPC_INIT_SERVER, init, sizeof(init)};
  tvmrt_rpc_endpoint ep;
  tvmrt_channel ch;
  pipes p;
  memset(&p, 0, sizeof(p));
  enter_functions();
  tvmrt__channel_init(&ch, &kind, &p);
  tvmrt__rpc_endpoint_begin(&ep, &ch, &limits);
  step(&ep, &p, &r);
  while (!ep.ended && next_record(&data, &size, &r)) step(&ep, &p, &r);
  tvmrt__rpc_endpoint_end(&ep);
  tvmrt__buf_free(&p.in);
  tvmrt__buf_free(&p.out);
  return 0;
}
