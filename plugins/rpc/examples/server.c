/* RPC server for a board without Python: server [KEY [PORT [ADDRESS]]]
 *
 * Serves one client after the other, each by a process of its own in a temporary folder. It has the
 * functions that clients need to upload and load libraries. A client with the key can run any code
 * as the user of this program. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#define PACKED(name) \
  static int name(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code, void* self)

enum { MAGIC = 0xff271, MISMATCH = 0xff273, GREET_SECONDS = 5 };

/* The session's process is in its folder, so names of files are relative paths. */
static int check_name(int code, const char* name) {
  if (code == kTVMStr && name[0] != '.' && name[0] != '\0' && strchr(name, '/') == NULL) return 0;
  TVMPackedFuncSetLastError("ValueError: pass the name of a file without directories.");
  return -1;
}

/* (name, bytes) */
PACKED(upload) {
  const TVMByteArray* bytes;
  FILE* file;
  size_t written;
  (void)out, (void)out_code, (void)self;
  if (count != 2 || codes[1] != kTVMBytes || check_name(codes[0], args[0].v_str) != 0) return -1;
  bytes = args[1].v_handle;
  (void)remove(args[0].v_str); /* a loaded older library stays mapped */
  file = fopen(args[0].v_str, "wb");
  written = file == NULL ? 0 : fwrite(bytes->data, 1, bytes->size, file);
  if (file != NULL && fclose(file) == 0 && written == bytes->size) return 0;
  TVMPackedFuncSetLastError("OSError: the file cannot be written.");
  return -1;
}

/* (name) -> module */
PACKED(load_module) {
  char path[300];
  (void)self;
  if (count != 1 || check_name(codes[0], args[0].v_str) != 0) return -1;
  (void)snprintf(path, sizeof(path), "./%s", args[0].v_str);
  if (TVMModLoadFromFile(path, "", &out->v_handle) != 0) return -1;
  *out_code = kTVMModuleHandle;
  return 0;
}

static int add_function(const char* name, TVMCPackedFunc function) {
  TVMFunctionHandle f;
  if (tvmrt_func_create(function, NULL, NULL, &f) != 0) return -1;
  return TVMFuncRegisterGlobal(name, f, 1);
}

static int read_all(int fd, void* data, size_t size) {
  return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

/* Compare the client's key and answer; options after the key are ignored. */
static int greet(int fd, const char* key) {
  uint32_t words[2];
  char text[256];
  char expected[256];
  if (read_all(fd, words, sizeof(words)) != 0) return -1;
  if (words[0] != MAGIC || words[1] >= sizeof(text)) return -1;
  if (read_all(fd, text, words[1]) != 0) return -1;
  text[words[1]] = '\0';
  text[strcspn(text, " ")] = '\0';
  (void)snprintf(expected, sizeof(expected), "client:%s", key);
  if (strcmp(text, expected) != 0) {
    words[0] = MISMATCH;
    (void)send(fd, words, 4, MSG_NOSIGNAL);
    return -1;
  }
  words[1] = (uint32_t)snprintf(text, sizeof(text), "server:%.200s", key);
  if (send(fd, words, sizeof(words), MSG_NOSIGNAL) != sizeof(words)) return -1;
  return send(fd, text, words[1], MSG_NOSIGNAL) == (ssize_t)words[1] ? 0 : -1;
}

/* In the session's process. A client that does not send its key in time is ended by SIGALRM. */
static int serve(int fd, const char* key) {
  TVMFunctionHandle loop = NULL;
  TVMValue arg;
  TVMValue result;
  int kind = kTVMArgInt;
  int code = kTVMNullptr;
  (void)alarm(GREET_SECONDS);
  if (greet(fd, key) != 0) return -1;
  (void)alarm(0);
  if (add_function("tvm.rpc.server.upload", upload) != 0) return -1;
  if (add_function("tvm.rpc.server.load_module", load_module) != 0) return -1;
  if (TVMFuncGetGlobal("rpc.ServerLoop", &loop) != 0 || loop == NULL) return -1;
  arg.v_int64 = fd;
  return TVMFuncCall(loop, &arg, &kind, 1, &result, &code);
}

static void serve_in_process(int fd, int listener, const char* key) {
  char folder[] = "/tmp/rpc-session-XXXXXX";
  pid_t process = -1;
  if (mkdtemp(folder) != NULL) process = fork();
  if (process == 0) {
    (void)close(listener);
    if (chdir(folder) != 0 || serve(fd, key) != 0) _exit(1);
    _exit(0);
  }
  (void)close(fd);
  if (process > 0) (void)waitpid(process, NULL, 0);
  {
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    (void)!system(command);
  }
}

int main(int argc, char** argv) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in where = {.sin_family = AF_INET};
  socklen_t size = sizeof(where);
  const int on = 1;
  where.sin_port = htons((uint16_t)(argc > 2 ? atoi(argv[2]) : 0));
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (inet_pton(AF_INET, argc > 3 ? argv[3] : "127.0.0.1", &where.sin_addr) != 1 ||
      bind(listener, (struct sockaddr*)&where, size) != 0 || listen(listener, 16) != 0 ||
      getsockname(listener, (struct sockaddr*)&where, &size) != 0) {
    perror("cannot listen");
    return 1;
  }
  printf("port %d\n", ntohs(where.sin_port));
  fflush(stdout);
  for (;;) {
    const int fd = accept(listener, NULL, NULL);
    if (fd >= 0) serve_in_process(fd, listener, argc > 1 ? argv[1] : "");
  }
}
