/* A host without Python: LIBONNXRUNTIME PLUGIN MODEL. The model has an input x of 5 x 16 floats and
 * an output y of 5 x 8. Twice: register the plug-in, open two sessions, run each with 0, 1, 2, ... / 80,
 * a wrong shape, again; print the results of the last run; close everything and unregister. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_positions.h"

typedef struct base {
  const void* (*get_api)(uint32_t version);
  const char* (*get_version)(void);
} base;

static HostApi api;

static void check(ort_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  exit(1);
}

static int run(void* session, const void* memory, int64_t columns, float* out) {
  float data[5 * 16];
  const int64_t extents[2] = {5, columns};
  const char *inputs[] = {"x"}, *outputs[] = {"y"};
  ort_value *value = NULL, *result = NULL;
  void* results = NULL;
  ort_status* status;
  for (int i = 0; i < 80; ++i) data[i] = (float)i / 80;
  check(api.CreateTensorWithDataAsOrtValue(memory, data, sizeof(float) * 5 * (size_t)columns,
                                           extents, 2, 1, &value));
  status = api.Run(session, NULL, inputs, (const ort_value* const*)&value, 1, outputs, 1, &result);
  api.ReleaseValue(value);
  if (status != NULL) {
    api.ReleaseStatus(status);
    return -1;
  }
  check(api.GetTensorMutableData(result, &results));
  memcpy(out, results, 40 * sizeof(float));
  api.ReleaseValue(result);
  return 0;
}

static void once(void* env, const char* plugin, const char* model, float* out) {
  static const char *const keys[] = {"allow_compiled"}, *const values[] = {"1"};
  const ort_device *const *devices, *ours = NULL;
  size_t count = 0;
  void *options = NULL, *memory = NULL, *sessions[2] = {NULL, NULL};
  check(api.RegisterLibrary(env, "tvmrt", plugin));
  check(api.GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(api.EpName(devices[i]), "tvmrt") == 0) ours = devices[i];
  }
  if (ours == NULL) exit(2);
  check(api.CreateSessionOptions(&options));
  check(api.AppendDevices(options, env, &ours, 1, keys, values, 1));
  check(api.CreateCpuMemoryInfo(0, 0, &memory));
  for (int i = 0; i < 2; ++i) check(api.CreateSession(env, model, options, &sessions[i]));
  for (int i = 0; i < 2; ++i) {
    if (run(sessions[i], memory, 16, out) != 0 || run(sessions[i], memory, 15, out) == 0) exit(3);
    if (run(sessions[i], memory, 16, out) != 0) exit(4);
  }
  for (int i = 0; i < 2; ++i) api.ReleaseSession(sessions[i]);
  api.ReleaseMemoryInfo(memory);
  api.ReleaseSessionOptions(options);
  check(api.UnregisterLibrary(env, "tvmrt"));
}

int main(int argc, char** argv) {
  float out[40] = {0};
  void *env = NULL, *library = argc < 4 ? NULL : dlopen(argv[1], RTLD_NOW);
  const base* (*get_base)(void);
  if (library == NULL) return 5;
  *(void**)&get_base = dlsym(library, "OrtGetApiBase");
  HostApi_load(&api, get_base()->get_api(24));
  check(api.CreateEnv(3, "host", &env));
  for (int i = 0; i < 2; ++i) once(env, argv[2], argv[3], out);
  api.ReleaseEnv(env);
  for (int i = 0; i < 40; ++i) printf("%.6f\n", (double)out[i]);
  return 0;
}
