/* The program around a bundle: linked with it, or handed its library, which it opens by itself. */
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>

typedef void* create_function(const char* json, const char* params, uint32_t num_bytes);
typedef void tensor_function(void* bundle, const char* name, DLTensor* tensor);
typedef void output_function(void* bundle, int32_t index, DLTensor* tensor);
typedef void bundle_function(void* bundle);
typedef int failing_function(void);

#ifdef OPENED
#include <dlfcn.h>
#define FIND(type, name) type* name = (type*)dlsym(library, #name)
#else
create_function bundle_create;
tensor_function bundle_set_input;
bundle_function bundle_run, bundle_destroy;
output_function bundle_get_output;
failing_function bundle_call_that_fails;
#endif

static char json[8192], params[4096];

static uint32_t read_file(const char* path, char* out, size_t room) {
  FILE* file = fopen(path, "rb");
  size_t size = file == NULL ? 0 : fread(out, 1, room, file);
  if (file != NULL) (void)fclose(file);
  return (uint32_t)size;
}

int main(int argc, char** argv) {
  float x_values[6] = {1, -2, 3, 0.5f, 100, -7}, z_values[6] = {0};
  int64_t shape[2] = {2, 3};
  DLTensor x = {x_values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  DLTensor z = {z_values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  uint32_t num_bytes;
  void* bundle;
  int i;
#ifdef OPENED
  void* library = argc == 4 ? dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return 1;
  FIND(create_function, bundle_create);
  FIND(tensor_function, bundle_set_input);
  FIND(bundle_function, bundle_run);
  FIND(bundle_function, bundle_destroy);
  FIND(output_function, bundle_get_output);
  FIND(failing_function, bundle_call_that_fails);
#endif
  if (argc < 3 || read_file(argv[1], json, sizeof(json) - 1) == 0) return 1;
  num_bytes = read_file(argv[2], params, sizeof(params));
  bundle = bundle_create(json, params, num_bytes);
  bundle_set_input(bundle, "x", &x);
  bundle_run(bundle);
  bundle_get_output(bundle, 0, &z);
  bundle_destroy(bundle);
  for (i = 0; i < 6; ++i) printf("%g ", z_values[i]);
  printf("%s\n", bundle_call_that_fails() ? "refused" : "taken");
  return 0;
}
