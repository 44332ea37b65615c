/* A client of remote calls on any system: uploads a few bytes and prints what the session's folder has.
 * remote_client HOST PORT KEY */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

static int call(TVMFunctionHandle f, TVMValue* args, int* codes, int count, TVMValue* result) {
  int code = kTVMNullptr;
  return f == NULL ? -1 : TVMFuncCall(f, args, codes, count, result, &code);
}

static int call_remote(TVMModuleHandle session, const char* name, TVMValue* args, int* codes,
                       int count, TVMValue* result) {
  TVMFunctionHandle f = NULL;
  int rc;
  if (TVMModGetFunction(session, name, 0, &f) != 0) return -1;
  rc = call(f, args, codes, count, result);
  if (f != NULL) (void)TVMFuncFree(f);
  return rc;
}

static int run(char** argv) {
  TVMByteArray bytes = {"some bytes", 10};
  TVMFunctionHandle connect = NULL;
  TVMValue args[3];
  TVMValue session;
  TVMValue result;
  int codes[3] = {kTVMStr, kTVMArgInt, kTVMStr};
  int file_codes[2] = {kTVMStr, kTVMBytes};
  args[0].v_str = argv[1];
  args[1].v_int64 = strtol(argv[2], NULL, 10);
  args[2].v_str = argv[3];
  if (TVMFuncGetGlobal("rpc.Connect", &connect) != 0) return -1;
  if (call(connect, args, codes, 3, &session) != 0) return -1;
  args[0].v_str = "ten.txt";
  args[1].v_handle = &bytes;
  if (call_remote(session.v_handle, "tvm.rpc.server.upload", args, file_codes, 2, &result) != 0 ||
      call_remote(session.v_handle, "tvm.rpc.server.listdir", NULL, NULL, 0, &result) != 0) {
    return -1;
  }
  printf("the session has %s\n", result.v_str);
  return TVMModFree(session.v_handle);
}

int main(int argc, char** argv) {
  if (argc == 4 && run(argv) == 0) return 0;
  puts(TVMGetLastError());
  return 1;
}
