#include "recorded_sessions.h"

#include <pthread.h>
#include <sys/socket.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

#include "remote.h"

const tvmrt_rpc_limits recorded_limits = {1 << 16, 1 << 20, 64};

/* ---- client side ---- */

typedef struct client {
  int fd;
  void (*script)(tvmrt_module* root, int device_type);
} client;

static TVMValue value_of(int64_t number) {
  TVMValue v;
  v.v_int64 = number;
  return v;
}

static TVMValue text_of(const char* text) {
  TVMValue v;
  v.v_str = text;
  return v;
}

static TVMValue handle_of(void* handle) {
  TVMValue v;
  v.v_handle = handle;
  return v;
}

/* Call and release a function of a remote module; the caller owns a result object. */
static TVMValue call(void* module, const char* name, TVMValue* args, int* codes, int count) {
  TVMFunctionHandle f = NULL;
  TVMValue out;
  int code;
  FUZZ_REQUIRE(TVMModGetFunction(module, name, 0, &f) == 0 && f != NULL);
  FUZZ_REQUIRE(TVMFuncCall(f, args, codes, count, &out, &code) == 0);
  FUZZ_REQUIRE(TVMFuncFree(f) == 0);
  return out;
}

static void* new_tensor(int device_type) {
  static const int64_t shape[] = {2, 3};
  TVMArrayHandle out;
  FUZZ_REQUIRE(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, device_type, 0, &out) == 0);
  return out;
}

static void script_calls(tvmrt_module* root, int device_type) {
  static char data[] = "\1\0\2";
  TVMByteArray bytes = {data, 3};
  void* tensor = new_tensor(device_type);
  TVMValue args[7] = {value_of(5),       value_of(0), text_of("text"),  handle_of(&bytes),
                      handle_of(tensor), value_of(0), value_of(0x12002)};
  int codes[7] = {kTVMArgInt,         kTVMArgFloat, kTVMStr,     kTVMBytes,
                  kTVMDLTensorHandle, kTVMNullptr,  kTVMDataType};
  void* made;
  args[1].v_float64 = 2.5;
  (void)call(root, "f", args, codes, 7);
  (void)call(root, "f", &args[2], &codes[2], 2);
  (void)call(root, "f", &args[6], &codes[6], 1);
  made = call(root, "a", NULL, NULL, 0).v_handle;
  args[5] = handle_of(made);
  codes[5] = kTVMDLTensorHandle;
  (void)call(root, "t", &args[4], &codes[4], 2);
  FUZZ_REQUIRE(TVMArrayFree(made) == 0 && TVMArrayFree(tensor) == 0);
}

static void script_memory(tvmrt_module* root, int device_type) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  DLTensor* a = new_tensor(device_type);
  DLTensor* b = new_tensor(device_type);
  TVMStreamHandle stream = NULL;
  (void)root;
  FUZZ_REQUIRE(TVMArrayCopyFromBytes(a, data, sizeof(data)) == 0);
  FUZZ_REQUIRE(TVMArrayCopyFromTo(a, b, NULL) == 0);
  FUZZ_REQUIRE(TVMArrayCopyToBytes(b, data, sizeof(data)) == 0 && data[5] == 5);
  FUZZ_REQUIRE(TVMStreamCreate(device_type, 0, &stream) == 0);
  FUZZ_REQUIRE(TVMSynchronize(device_type, 0, stream) == 0);
  FUZZ_REQUIRE(TVMStreamFree(device_type, 0, stream) == 0);
  FUZZ_REQUIRE(TVMArrayFree(a) == 0 && TVMArrayFree(b) == 0);
}

static const char graph_json[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},{\"op\":\"tvm_op\",\"name\":\"y\","
    "\"attrs\":{\"func_name\":\"add_one\",\"num_inputs\":\"1\",\"num_outputs\":\"1\","
    "\"flatten_data\":\"0\"},\"inputs\":[[0,0,0]]}],\"arg_nodes\":[0],\"heads\":[[1,0,0]],"
    "\"node_row_ptr\":[0,1,2],\"attrs\":{\"shape\":[\"list_shape\",[[2,3],[2,3]]],\"dltype\":"
    "[\"list_str\",[\"float32\",\"float32\"]],\"storage_id\":[\"list_int\",[0,1]]}}";

/* Run a deployed network remotely, in the steps of TVM's guide. */
static void script_network(tvmrt_module* root, int device_type) {
  const float data[6] = {0, 1, 2, 3, 4, 5};
  float result[6] = {0};
  TVMValue args[4] = {text_of(graph_json), value_of(0), value_of(kDLCPU), value_of(0)};
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  DLTensor* x = new_tensor(device_type);
  void* library = call(root, "runtime.SystemLib", NULL, NULL, 0).v_handle;
  void* network;
  void* y;
  args[1] = handle_of(library);
  network = call(root, "tvm.graph_executor.create", args, codes, 4).v_handle;
  FUZZ_REQUIRE(call(network, "get_num_outputs", NULL, NULL, 0).v_int64 == 1);
  FUZZ_REQUIRE(TVMArrayCopyFromBytes(x, (void*)(uintptr_t)data, sizeof(data)) == 0);
  args[0] = text_of("x");
  args[1] = handle_of(x);
  codes[1] = kTVMDLTensorHandle;
  (void)call(network, "set_input", args, codes, 2);
  (void)call(network, "run", NULL, NULL, 0);
  args[0] = value_of(0);
  codes[0] = kTVMArgInt;
  y = call(network, "get_output", args, codes, 1).v_handle;
  FUZZ_REQUIRE(TVMArrayCopyToBytes(y, result, sizeof(result)) == 0 && result[5] == 6);
  FUZZ_REQUIRE(TVMArrayFree(y) == 0 && TVMArrayFree(x) == 0);
  FUZZ_REQUIRE(TVMModFree(network) == 0 && TVMModFree(library) == 0);
}

static void* run_client(void* opaque) {
  static const tvmrt_args init = {"a recorded session", NULL, NULL, 0};
  const client* c = opaque;
  tvmrt_rpc_session* session = NULL;
  tvmrt_module* root = NULL;
  FUZZ_REQUIRE(tvmrt__rpc_session_begin(c->fd, &init, &session) == 0);
  FUZZ_REQUIRE(tvmrt__rpc_root(session, &root) == 0);
  c->script(root, kDLCPU + TVMRT_RPC_SESSION_MASK * (tvmrt__rpc_session_index(session) + 1));
  FUZZ_REQUIRE(TVMModFree(root) == 0); /* with the session */
  return NULL;
}

/* ---- server side ---- */

static int add_one(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code,
                   void* resource) {
  (void)out;
  (void)out_code;
  (void)resource;
  if (count != 2) return -1;
  for (int i = 0; i < 2; ++i) {
    const DLTensor* t = args[i].v_handle;
    if (codes[i] != kTVMDLTensorHandle || t->dtype.bits != 32 || t->ndim != 2) return -1;
    if (t->shape[0] != 2 || t->shape[1] != 3) return -1;
  }
  for (int i = 0; i < 6; ++i) {
    ((float*)tvmrt__tensor_data(args[1].v_handle))[i] =
        ((const float*)tvmrt__tensor_data(args[0].v_handle))[i] + 1;
  }
  return 0;
}

/* 0 when the client has ended the connection before a packet. */
static int read_packet(tvmrt_channel* ch, tvmrt_buf* out) {
  uint8_t head[8];
  uint64_t bytes;
  bool ended = false;
  tvmrt_reader in;
  FUZZ_REQUIRE(tvmrt__channel_read(ch, head, sizeof(head), &ended) == 0);
  if (ended) return 0;
  tvmrt__reader_init(&in, "a recorded packet", head, sizeof(head));
  FUZZ_REQUIRE(tvmrt__read_uint(&in, 8, &bytes) == 0);
  FUZZ_REQUIRE(tvmrt__buf_append(out, head, sizeof(head)) == 0);
  FUZZ_REQUIRE(tvmrt__channel_append(ch, bytes, out) == 0);
  return 1;
}

static void mark_addresses(const tvmrt_rpc_handles* handles, tvmrt_buf* packet) {
  for (size_t i = 0; i < handles->count; ++i) {
    const uint64_t address = handles->items[i].data;
    for (size_t at = 12; address != 0 && at + 8 <= packet->size; ++at) {
      if (memcmp(packet->data + at, &address, 8) != 0) continue;
      memset(packet->data + at, ADDRESS_BYTE, 7);
      packet->data[at + 7] = (char)(uint8_t)i;
    }
  }
}

static void record(int fd, recorded_session* out) {
  tvmrt_rpc_endpoint ep;
  tvmrt_channel line;
  tvmrt_channel server;
  tvmrt_buf packet = {NULL, 0, 0};
  pipes p;
  memset(&p, 0, sizeof(p));
  tvmrt__channel_over(&line, fd);
  tvmrt__channel_init(&server, &pipes_kind, &p);
  tvmrt__rpc_endpoint_begin(&ep, &server, &recorded_limits);
  while (read_packet(&line, &packet)) {
    FUZZ_REQUIRE(out->count < MAX_RECORDED);
    p.at = p.in.size = p.out.size = 0;
    FUZZ_REQUIRE(tvmrt__buf_append(&p.in, packet.data, packet.size) == 0);
    mark_addresses(&ep.handles, &packet);
    out->packets[out->count++] = packet;
    memset(&packet, 0, sizeof(packet));
    FUZZ_REQUIRE(tvmrt__rpc_endpoint_step(&ep) == 0);
    if (p.out.size == 0) continue; /* the end */
    FUZZ_REQUIRE(check_answer(&p.out) != TVMRT_RPC_EXCEPTION);
    /* Fails if the client has gone: no one reads the reply to a release. */
    (void)fuzz_succeeded(tvmrt__channel_send(&line, p.out.data, p.out.size, NULL, 0));
  }
  tvmrt__rpc_endpoint_end(&ep);
  tvmrt__buf_free(&p.in);
  tvmrt__buf_free(&p.out);
}

void record_sessions(recorded_session* out) {
  static void (*const scripts[RECORDED_SESSIONS])(tvmrt_module*, int) = {
      script_calls, script_memory, script_network};
  enter_served_functions();
  FUZZ_REQUIRE(TVMBackendRegisterSystemLibSymbol("add_one", (void*)(uintptr_t)add_one) == 0);
  for (int i = 0; i < RECORDED_SESSIONS; ++i) {
    int ends[2];
    pthread_t thread;
    client c;
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    c.fd = ends[0];
    c.script = scripts[i];
    FUZZ_REQUIRE(pthread_create(&thread, NULL, run_client, &c) == 0);
    record(ends[1], &out[i]);
    FUZZ_REQUIRE(pthread_join(thread, NULL) == 0);
    FUZZ_REQUIRE(close(ends[1]) == 0);
  }
}

void free_sessions(recorded_session* sessions) {
  for (int i = 0; i < RECORDED_SESSIONS; ++i) {
    for (size_t k = 0; k < sessions[i].count; ++k) tvmrt__buf_free(&sessions[i].packets[k]);
  }
}
