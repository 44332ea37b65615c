/*
 * Run a compiled network from plain C: load the library, make an executor, set inputs, run, read
 * outputs. Needs libtvm_runtime and nothing else of this project.
 *
 *     run_network LIBRARY.so [INPUT=FILE ...] [--module NAME] [--repeat N]
 *
 * FILE holds the input's elements as raw bytes in row-major order; inputs without a file are zero.
 * Outputs are printed: name, type, shape and the first values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/c_runtime_api.h>

enum { SHOWN_VALUES = 8 };

/* Every function of the runtime returns 0, or an error whose text TVMGetLastError() has. */
static int check(int rc, const char* what) {
  if (rc != 0) fprintf(stderr, "run_network: %s: %s\n", what, TVMGetLastError());
  return rc;
}

/* Call a function of a module. A returned handle is the caller's to free. */
static int call(TVMModuleHandle module, const char* name, TVMValue* args, int* codes, int num_args,
                TVMValue* ret, int* ret_code) {
  TVMFunctionHandle function;
  int rc = check(TVMModGetFunction(module, name, 0, &function), name);
  if (rc != 0) return rc;
  if (function == NULL) {
    fprintf(stderr, "run_network: the library has no function '%s'\n", name);
    return -1;
  }
  rc = check(TVMFuncCall(function, args, codes, num_args, ret, ret_code), name);
  (void)TVMFuncFree(function);
  return rc;
}

/* The library's root is a factory: its function named after the network makes an executor. */
static int make_executor(const char* library, const char* network, TVMModuleHandle* out) {
  TVMModuleHandle factory;
  TVMValue cpu;
  TVMValue ret;
  int code = kDLDevice;
  int ret_code;
  int rc = check(TVMModLoadFromFile(library, "so", &factory), library);
  if (rc != 0) return rc;
  cpu.v_device.device_type = kDLCPU;
  cpu.v_device.device_id = 0;
  rc = call(factory, network, &cpu, &code, 1, &ret, &ret_code);
  (void)TVMModFree(factory); /* the executor keeps the library open */
  *out = rc == 0 ? ret.v_handle : NULL;
  return rc;
}

static int64_t ask_count(TVMModuleHandle executor, const char* function) {
  TVMValue ret;
  int code;
  return call(executor, function, NULL, NULL, 0, &ret, &code) == 0 ? ret.v_int64 : -1;
}

/* The tensor of input or output `index`; released by TVMArrayFree(). */
static DLTensor* get_tensor(TVMModuleHandle executor, const char* function, int64_t index) {
  TVMValue arg;
  TVMValue ret;
  int code = kTVMArgInt;
  int ret_code;
  arg.v_int64 = index;
  if (call(executor, function, &arg, &code, 1, &ret, &ret_code) != 0) return NULL;
  return ret_code == kTVMNDArrayHandle ? ret.v_handle : NULL;
}

static size_t num_elements(const DLTensor* t) {
  size_t count = 1;
  for (int i = 0; i < t->ndim; ++i) count *= (size_t)t->shape[i];
  return count;
}

static size_t num_bytes(const DLTensor* t) {
  return num_elements(t) * ((t->dtype.bits * t->dtype.lanes + 7u) / 8u);
}

/* The tensor is the executor's own memory: writing it sets the input, without a copy. */
static int fill_from_file(DLTensor* t, const char* name, const char* path) {
  FILE* file = fopen(path, "rb");
  size_t num_read;
  if (file == NULL) {
    fprintf(stderr, "run_network: cannot open '%s' for input '%s'\n", path, name);
    return -1;
  }
  num_read = fread(t->data, 1, num_bytes(t), file);
  if (num_read == num_bytes(t) && fgetc(file) != EOF) num_read = 0; /* longer than the input */
  (void)fclose(file);
  if (num_read == num_bytes(t)) return 0;
  fprintf(stderr, "run_network: '%s' must hold %zu bytes for input '%s'\n", path, num_bytes(t),
          name);
  return -1;
}

static int set_input(TVMModuleHandle executor, const char* assignment) {
  char name[256];
  const char* equals = strchr(assignment, '=');
  TVMValue arg;
  TVMValue ret;
  int code = kTVMStr;
  int ret_code;
  int rc;
  if (equals == NULL || (size_t)(equals - assignment) >= sizeof(name)) {
    fprintf(stderr, "run_network: '%s' is not INPUT=FILE\n", assignment);
    return -1;
  }
  memcpy(name, assignment, (size_t)(equals - assignment));
  name[equals - assignment] = '\0';
  arg.v_str = name;
  if (call(executor, "get_input", &arg, &code, 1, &ret, &ret_code) != 0) return -1;
  if (ret_code != kTVMNDArrayHandle) {
    fprintf(stderr, "run_network: the network has no input '%s'\n", name);
    return -1;
  }
  rc = fill_from_file(ret.v_handle, name, equals + 1);
  (void)TVMArrayFree(ret.v_handle);
  return rc;
}

static double element(const DLTensor* t, size_t i) {
  switch (t->dtype.code * 256 + t->dtype.bits) {
    case kDLFloat * 256 + 32:
      return (double)((const float*)t->data)[i];
    case kDLFloat * 256 + 64:
      return ((const double*)t->data)[i];
    case kDLInt * 256 + 8:
      return ((const int8_t*)t->data)[i];
    case kDLInt * 256 + 16:
      return ((const int16_t*)t->data)[i];
    case kDLInt * 256 + 32:
      return ((const int32_t*)t->data)[i];
    case kDLInt * 256 + 64:
      return (double)((const int64_t*)t->data)[i];
    case kDLUInt * 256 + 16:
      return ((const uint16_t*)t->data)[i];
    default:
      return ((const uint8_t*)t->data)[i]; /* uint8 and bool; others byte by byte */
  }
}

static void print_tensor(int64_t index, const DLTensor* t) {
  static const char* const kinds[] = {"int", "uint", "float", "handle", "bfloat"};
  size_t shown = num_elements(t) < SHOWN_VALUES ? num_elements(t) : SHOWN_VALUES;
  printf("output %lld: %s%d (", (long long)index, t->dtype.code < 5 ? kinds[t->dtype.code] : "?",
         t->dtype.bits);
  for (int i = 0; i < t->ndim; ++i) printf("%s%lld", i == 0 ? "" : ", ", (long long)t->shape[i]);
  printf(")");
  for (size_t i = 0; i < shown; ++i) printf(" %g", element(t, i));
  printf("%s\n", shown < num_elements(t) ? " ..." : "");
}

static int print_outputs(TVMModuleHandle executor) {
  int64_t count = ask_count(executor, "get_num_outputs");
  for (int64_t i = 0; i < count; ++i) {
    DLTensor* t = get_tensor(executor, "get_output", i);
    if (t == NULL) return -1;
    print_tensor(i, t);
    (void)TVMArrayFree(t);
  }
  return count < 0 ? -1 : 0;
}

static double milliseconds(void) {
  struct timespec now;
#if defined(__MINGW32__) && !defined(TIME_UTC)
  (void)clock_gettime(CLOCK_REALTIME, &now); /* the older C library of Windows has no C11 */
#else
  (void)timespec_get(&now, TIME_UTC);
#endif
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Look `run` up once: only the network runs in the loop. */
static int run(TVMModuleHandle executor, int repeat) {
  TVMFunctionHandle function;
  TVMValue ret;
  int code;
  double start;
  int rc = check(TVMModGetFunction(executor, "run", 0, &function), "run");
  if (rc != 0) return rc;
  start = milliseconds();
  for (int i = 0; i < repeat && rc == 0; ++i) {
    rc = check(TVMFuncCall(function, NULL, NULL, 0, &ret, &code), "run");
  }
  if (rc == 0)
    printf("%d run%s, %.3f ms each\n", repeat, repeat == 1 ? "" : "s",
           (milliseconds() - start) / repeat);
  (void)TVMFuncFree(function);
  return rc;
}

/* Read the options, each with a value; -1 where one is not known or its value is none. */
static int read_options(int argc, char** argv, const char** network, int* repeat) {
  for (int i = 2; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strncmp(argv[i], "--", 2) != 0) continue;
    if (strcmp(argv[i], "--module") == 0 && value[0] != '\0') {
      *network = value;
    } else if (strcmp(argv[i], "--repeat") == 0 && atoi(value) > 0) {
      *repeat = atoi(value);
    } else {
      fprintf(stderr, "run_network: '%s %s' is neither --module NAME nor --repeat N, N from 1\n",
              argv[i], value);
      return -1;
    }
    ++i; /* the value */
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* network = "default";
  TVMModuleHandle executor;
  int repeat = 1;
  int rc;
  if (argc < 2) {
    fprintf(stderr,
            "usage: run_network LIBRARY.so [INPUT=FILE ...] [--module NAME] [--repeat N]\n");
    return 2;
  }
  if (read_options(argc, argv, &network, &repeat) != 0) return 2;
  if (make_executor(argv[1], network, &executor) != 0) return 2;
  rc = 0;
  for (int i = 2; i < argc && rc == 0; ++i) {
    if (strncmp(argv[i], "--", 2) == 0) {
      ++i; /* the option's value */
    } else {
      rc = set_input(executor, argv[i]);
    }
  }
  if (rc == 0) rc = run(executor, repeat);
  if (rc == 0) rc = print_outputs(executor);
  (void)TVMModFree(executor);
  return rc == 0 ? 0 : 2;
}
