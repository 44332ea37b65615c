/* Packets of a client: each one gets one reply, and no address outside of the session's memory
   is used. The server's side of the session reads and writes bytes in memory. */
#include <tvm/runtime/plugin.h>

#include "core/function.h"
#include "endpoint.h"
#include "rpc_records.h"
#include "tensors/tensor.h"

/* The plug-in is linked into the program. */
extern const tvmrt_plugin tvmrt_plugin_table_rpc;

static void enter_rpc(void) { FUZZ_REQUIRE(tvmrt_plugin_enter(&tvmrt_plugin_table_rpc) == 0); }

/* Received and sent bytes: the resource of a channel's functions. */
typedef struct pipes {
  tvmrt_buf in;
  size_t at;
  tvmrt_buf out;
} pipes;

TVMRT_NATIVE(pipes_send) {
  pipes* p = resource_handle;
  TVMByteArray bytes;
  TVMRT_ARGS("send");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &bytes));
  return tvmrt__buf_append(&p->out, bytes.data, bytes.size);
}

TVMRT_NATIVE(pipes_receive) {
  pipes* p = resource_handle;
  const size_t capacity = (size_t)args[0].v_int64;
  TVMByteArray bytes;
  TVMValue value;
  (void)type_codes, (void)num_args;
  bytes.data = p->in.data + p->at;
  bytes.size = p->in.size - p->at < capacity ? p->in.size - p->at : capacity;
  p->at += bytes.size;
  value.v_handle = &bytes;
  return tvmrt_func_return(&value, kTVMBytes, out, out_code);
}

/* Whether there are bytes that the server has not parsed yet. */
static int pipes_wait(const tvmrt_rpc_endpoint* ep, const pipes* p) {
  return !ep->session.ended && p->at < p->in.size;
}

TVMRT_NATIVE(served_echo) {
  TVMRT_ARGS("f");
  if (num_args == 0 || type_codes[0] == kTVMDLTensorHandle) return 0;
  return tvmrt_func_return(&args[0], type_codes[0], out, out_code);
}

TVMRT_NATIVE(served_array) {
  static const int64_t shape[] = {2, 3};
  const DLDataType type = {kDLFloat, 32, 1};
  const DLDevice cpu = {kDLCPU, 0};
  tvmrt_tensor* t = tvmrt__tensor_alloc(shape, 2, type, cpu);
  TVMRT_ARGS("a");
  if (t != NULL) memset(t->dl.data, 0, 24);
  return tvmrt__ret_object(out, out_code, t == NULL ? NULL : &t->base);
}

/* Access all elements of a tensor, which is where the session may write. */
TVMRT_NATIVE(served_fill) {
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

/* Global functions f, a and t: an echo, a new array, and one that fills tensors. */
static void enter_served_functions(void) {
  static const TVMCPackedFunc functions[] = {served_echo, served_array, served_fill};
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

/* Check that the output is one reply of its own length; return its code. */
static int check_answer(const tvmrt_buf* out) {
  uint64_t bytes;
  int32_t code;
  FUZZ_REQUIRE(out->size >= 12);
  memcpy(&bytes, out->data, 8);
  memcpy(&code, out->data + 8, 4);
  FUZZ_REQUIRE(bytes == out->size - 8);
  FUZZ_REQUIRE(code == TVMRT_RPC_RETURN || code == TVMRT_RPC_EXCEPTION ||
               code == TVMRT_RPC_COPY_ACK);
  return code;
}

/* Eight such bytes are replaced by the address of the session's last allocation. */
enum { ADDRESS = 0xa1 };

static void put_addresses(const tvmrt_rpc_endpoint* ep, tvmrt_buf* packet) {
  const remote_handles* handles = &ep->session.handles;
  uint64_t address = 0;
  size_t i;
  for (i = 0; i < handles->count; ++i) {
    if (handles->items[i].address != 0) address = handles->items[i].address;
  }
  for (i = 12; i + 8 <= packet->size && address != 0; ++i) {
    int k = 0;
    while (k < 8 && (uint8_t)packet->data[i + (size_t)k] == ADDRESS) ++k;
    if (k == 8) memcpy(packet->data + i, &address, 8);
  }
}

static void step(tvmrt_rpc_endpoint* ep, pipes* p, const record* r) {
  p->in.size = 0;
  p->at = 0;
  p->out.size = 0;
  append_packet(&p->in, r);
  put_addresses(ep, &p->in);
  while (pipes_wait(ep, p)) {
    p->out.size = 0;
    if (!fuzz_succeeded(tvmrt__rpc_endpoint_step(ep))) {
      ep->session.ended = 1; /* the stream ended within a packet */
    } else if (p->out.size != 0) {
      (void)check_answer(&p->out);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint8_t init[] = {5, 0, 0, 0, 0, 0, 0, 0, '0', '.', '8', '.', '0', 0, 0, 0, 0};
  record r = {TVMRT_RPC_INIT_SERVER, init, sizeof(init)};
  tvmrt_rpc_endpoint ep;
  tvmrt_channel ch = {-1, NULL, NULL};
  pipes p;
  memset(&p, 0, sizeof(p));
  enter_rpc();
  enter_served_functions();
  FUZZ_REQUIRE(tvmrt_func_create(pipes_send, &p, NULL, &ch.send) == 0);
  FUZZ_REQUIRE(tvmrt_func_create(pipes_receive, &p, NULL, &ch.receive) == 0);
  tvmrt__rpc_endpoint_begin(&ep, ch);
  ep.max_packet_bytes = 1 << 16;
  ep.session.handles.max_memory = 1 << 20;
  step(&ep, &p, &r);
  while (!ep.session.ended && next_record(&data, &size, &r)) step(&ep, &p, &r);
  tvmrt__rpc_endpoint_end(&ep);
  FUZZ_REQUIRE(TVMFuncFree(ch.send) == 0 && TVMFuncFree(ch.receive) == 0);
  tvmrt__buf_free(&p.in);
  tvmrt__buf_free(&p.out);
  return 0;
}
