/* Replies of a server to a client that looks up a function, calls it and reads the result. */
#include <sys/socket.h>
#include <unistd.h>

#include "remote.h"
#include "rpc_records.h"

enum { MAX_COPY = 4096 };

static void look_at(const TVMValue* value, int code) {
  if (code == kTVMNDArrayHandle) {
    static char bytes[MAX_COPY];
    uint64_t size = 0;
    const DLTensor* t = value->v_handle;
    int i;
    size = ((uint64_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
    for (i = 0; i < t->ndim && size <= MAX_COPY; ++i) {
      size = t->shape[i] <= MAX_COPY ? size * (uint64_t)t->shape[i] : MAX_COPY + 1;
    }
    if (size <= MAX_COPY) {
      (void)fuzz_succeeded(TVMArrayCopyToBytes(value->v_handle, bytes, (size_t)size));
    }
  } else if (code == kTVMModuleHandle) {
    TVMFunctionHandle f = NULL;
    if (fuzz_succeeded(TVMModGetFunction(value->v_handle, "g", 1, &f))) (void)TVMFuncFree(f);
  }
}

static void call(TVMFunctionHandle f) {
  int i;
  for (i = 0; i < 4; ++i) {
    TVMValue args[2];
    TVMValue result;
    int codes[2] = {kTVMArgInt, kTVMStr};
    int code = kTVMNullptr;
    args[0].v_int64 = 10;
    args[1].v_str = "ab";
    if (!fuzz_succeeded(TVMFuncCall(f, args, codes, 2, &result, &code))) continue;
    look_at(&result, code);
    tvmrt__release(tvmrt__value_object(&result, code));
  }
}

static void use(int fd) {
  const tvmrt_channel channel = {fd, NULL, NULL};
  tvmrt_rpc_session* s = NULL;
  tvmrt_module* root = NULL;
  TVMFunctionHandle f = NULL;
  if (!fuzz_succeeded(tvmrt__rpc_session_begin(channel, &s))) return;
  FUZZ_REQUIRE(tvmrt__rpc_root(s, &root) == 0);
  if (fuzz_succeeded(TVMModGetFunction(root, "f", 0, &f)) && f != NULL) {
    call(f);
    (void)TVMFuncFree(f);
  }
  tvmrt__module_release(root);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint8_t begun[] = {1, 0, 0, 0, 4, 0, 0, 0};
  record r = {TVMRT_RPC_RETURN, begun, sizeof(begun)};
  tvmrt_buf all = {NULL, 0, 0};
  int fds[2];
  append_packet(&all, &r);
  while (next_record(&data, &size, &r)) append_packet(&all, &r);
  FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  FUZZ_REQUIRE(write(fds[0], all.data, all.size) == (ssize_t)all.size);
  FUZZ_REQUIRE(shutdown(fds[0], SHUT_WR) == 0);
  use(fds[1]);
  (void)close(fds[0]);
  tvmrt__buf_free(&all);
  TVMAPISetLastError("");
  return 0;
}
