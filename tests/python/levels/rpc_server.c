/* RPC server of emulated machines: it prints its port and serves each client by a process, in the
   folder that it was started in. It accepts every key. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#define PACKED(name) \
  static int name(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code, void* self)

/* (name, bytes) */
PACKED(upload) {
  const TVMByteArray* bytes = args[1].v_handle;
  FILE* file;
  (void)codes, (void)count, (void)out, (void)out_code, (void)self;
  (void)remove(args[0].v_str); /* a loaded older library stays mapped */
  file = fopen(args[0].v_str, "wb");
  if (file != NULL && fwrite(bytes->data, 1, bytes->size, file) == bytes->size) return fclose(file);
  TVMPackedFuncSetLastError("OSError: the file cannot be written.");
  return -1;
}

/* (name) -> module */
PACKED(load_module) {
  char path[300];
  (void)codes, (void)count, (void)self;
  (void)snprintf(path, sizeof(path), "./%s", args[0].v_str);
  *out_code = kTVMModuleHandle;
  return TVMModLoadFromFile(path, "", &out->v_handle);
}

static int add_function(const char* name, TVMCPackedFunc function) {
  TVMFunctionHandle f;
  if (tvmrt_func_create(function, NULL, NULL, &f) != 0) return -1;
  return TVMFuncRegisterGlobal(name, f, 1);
}

static int serve(int fd) {
  static const char name[] = "server:";
  uint32_t words[2]; /* what it is, and the length of the key */
  char key[256];
  TVMFunctionHandle loop = NULL;
  TVMValue arg = {.v_int64 = fd};
  TVMValue result;
  int kind = kTVMArgInt;
  int code;
  if (recv(fd, words, sizeof(words), MSG_WAITALL) != sizeof(words)) return 1;
  if (words[1] > sizeof(key) || recv(fd, key, words[1], MSG_WAITALL) != words[1]) return 1;
  words[1] = sizeof(name) - 1;
  if (send(fd, words, sizeof(words), 0) < 0 || send(fd, name, words[1], 0) < 0) return 1;
  if (add_function("tvm.rpc.server.upload", upload) != 0) return 1;
  if (add_function("tvm.rpc.server.load_module", load_module) != 0) return 1;
  if (TVMFuncGetGlobal("rpc.ServerLoop", &loop) != 0 || loop == NULL) return 1;
  return TVMFuncCall(loop, &arg, &kind, 1, &result, &code);
}

int main(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(where);
  if (bind(listener, (struct sockaddr*)&where, size) != 0 || listen(listener, 16) != 0 ||
      getsockname(listener, (struct sockaddr*)&where, &size) != 0) {
    return 1;
  }
  (void)signal(SIGCHLD, SIG_IGN);
  printf("port %d\n", ntohs(where.sin_port));
  fflush(stdout);
  for (;;) {
    const int fd = accept(listener, NULL, NULL);
    if (fd >= 0 && fork() == 0) _exit(serve(fd));
    (void)close(fd);
  }
}
