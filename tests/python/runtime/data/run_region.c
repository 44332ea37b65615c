/* Run Relu in a region on the device named by the argument; exit code 0 on success. */
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device.h>

static const char text[] =
    "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"%s\", \"regions\": [{"
    "\"symbol\": \"r\", \"tensors\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\":"
    " [2]}, {\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\": [{\"op\":"
    " \"relu\", \"inputs\": [0], \"outputs\": [1]}], \"inputs\": [0], \"outputs\": [1]}]}";

int main(int argc, char** argv) {
  char json[1000];
  float x[2] = {-1, 2}, y[2] = {7, 7};
  int64_t shape = 2;
  DLDevice cpu = {kDLCPU, 0};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLTensor in = {x, cpu, 1, f32, &shape, NULL, 0}, out = {y, cpu, 1, f32, &shape, NULL, 0};
  TVMFunctionHandle load = NULL, run = NULL;
  TVMByteArray none = {"", 0};
  TVMValue args[2], ret;
  int text_codes[2] = {kTVMStr, kTVMBytes}, codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  int code;
  if (argc != 2) return 2;
  snprintf(json, sizeof(json), text, argv[1]);
  args[0].v_str = json;
  args[1].v_handle = &none;
  if (TVMFuncGetGlobal("tvmrt.device.load_regions", &load) != 0 ||
      TVMFuncCall(load, args, text_codes, 2, &ret, &code) != 0 ||
      TVMModGetFunction(ret.v_handle, "r", 0, &run) != 0) {
    fprintf(stderr, "%s\n", TVMGetLastError());
    return 1;
  }
  args[0].v_handle = &in;
  args[1].v_handle = &out;
  if (TVMFuncCall(run, args, codes, 2, &ret, &code) != 0) return 1;
  return y[0] == 0 && y[1] == 2 ? 0 : 1;
}
