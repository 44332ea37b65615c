/* An application that runs a graph over the firmware library: reads JSON and params from files, as a
 * board would have them in flash, and prints the code or the result. */
#include <stdio.h>
#include <tvm/runtime/crt/graph_arena.h>
#include <tvm/runtime/platform.h>

static uint8_t arena[4096] __attribute__((aligned(16)));
static uint8_t workspace[4096] __attribute__((aligned(16)));
static char json[8192], params[4096];

static size_t read_file(const char* path, char* out, size_t room) {
  FILE* file = fopen(path, "rb");
  size_t size = file == NULL ? 0 : fread(out, 1, room, file);
  if (file != NULL) (void)fclose(file);
  return size;
}

static int run(TVMGraphExecutor* ex, size_t params_bytes, DLTensor* x) {
  const DLTensor* z;
  int i;
  int rc = TVMGraphExecutor_LoadParams(ex, params, (uint32_t)params_bytes);
  if (rc == 0) rc = TVMGraphExecutor_SetInput(ex, "x", x);
  if (rc == 0) rc = TVMGraphExecutor_Run(ex);
  if (rc != 0) return rc;
  z = tvmrt_graph_output(ex, 0);
  for (i = 0; i < 6; ++i) printf("%g%c", ((const float*)z->data)[i], i == 5 ? '\n' : ' ');
  return 0;
}

int main(int argc, char** argv) {
  float values[6] = {1, -2, 3, 0.5f, 100, -7};
  int64_t shape[2] = {2, 3};
  DLTensor x = {values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMGraphExecutor* ex = NULL;
  size_t json_bytes;
  size_t params_bytes;
  int rc;
  if (argc != 3) return 1;
  tvmrt_workspace_init(workspace, sizeof(workspace));
  json_bytes = read_file(argv[1], json, sizeof(json));
  params_bytes = read_file(argv[2], params, sizeof(params));
  rc = tvmrt_graph_create(json, json_bytes, TVMSystemLibEntryPoint(), arena, sizeof(arena), &ex,
                          NULL);
  if (rc == 0) rc = run(ex, params_bytes, &x);
  if (rc != 0) printf("code 0x%04x\n", (unsigned)rc);
  return TVMGraphExecutor_Release(&ex);
}
