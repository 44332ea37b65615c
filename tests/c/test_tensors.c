/* Tensors, DLPack, data types, params files, devices and workspaces. */
#include "support.h"

static const int64_t shape23[] = {2, 3};
static const float values[] = {1, 2, 3, 4, 5, 6};

static void test_alloc_is_aligned_and_compact(void** state) {
  DLTensor* t = make_tensor(2, shape23, values);
  (void)state;
  assert_int_equal((uintptr_t)t->data % 128, 0);
  assert_null(t->strides);
  assert_int_equal(t->byte_offset, 0);
  assert_int_equal(t->shape[1], 3);
  TVMArrayFree(t);
}

static void test_alloc_refuses(void** state) {
  static const int64_t negative[] = {2, -1};
  static const int64_t huge[] = {INT64_MAX / 2, INT64_MAX / 2};
  DLTensor* t;
  (void)state;
  assert_fails(TVMArrayAlloc(negative, 2, kDLFloat, 32, 1, kDLCPU, 0, &t), "dimension 1");
  assert_null(t);
  assert_fails(TVMArrayAlloc(huge, 2, kDLFloat, 32, 1, kDLCPU, 0, &t), "more memory");
  assert_fails(TVMArrayAlloc(shape23, 2, kDLFloat, 32, 1, kDLCUDA, 0, &t), "type cuda (2)");
  assert_fails(TVMArrayAlloc(shape23, 2, kDLFloat, 0, 1, kDLCPU, 0, &t), "0 bits");
  assert_fails(TVMArrayAlloc(shape23, -1, kDLFloat, 32, 1, kDLCPU, 0, &t), "got -1");
}

static void test_bytes_round_trip(void** state) {
  DLTensor* t = make_tensor(2, shape23, NULL);
  float out[6];
  (void)state;
  assert_ok(TVMArrayCopyFromBytes(t, (void*)(uintptr_t)values, sizeof(values)));
  assert_ok(TVMArrayCopyToBytes(t, out, sizeof(out)));
  assert_memory_equal(out, values, sizeof(values));
  assert_fails(TVMArrayCopyToBytes(t, out, 20), "takes 24 bytes, got 20");
  TVMArrayFree(t);
}

static void test_copy_between_tensors(void** state) {
  static const int64_t shape6[] = {6};
  static const int64_t shape5[] = {5};
  DLTensor* from = make_tensor(2, shape23, values);
  DLTensor* to = make_tensor(1, shape6, NULL);
  DLTensor* other = make_tensor(1, shape5, NULL);
  (void)state;
  assert_ok(TVMArrayCopyFromTo(from, to, NULL));
  assert_floats(to, 6, values);
  assert_fails(TVMArrayCopyFromTo(from, other, NULL), "float32 (2, 3) to float32 (5)");
  TVMArrayFree(from);
  TVMArrayFree(to);
  TVMArrayFree(other);
}

typedef struct producer {
  DLManagedTensor managed;
  int64_t shape[2];
  int64_t strides[2];
  int deleted;
} producer;

static void delete_producer(DLManagedTensor* self) { ++((producer*)(void*)self)->deleted; }

static void fill(producer* p, void* data) {
  memset(p, 0, sizeof(*p));
  p->shape[0] = 2;
  p->shape[1] = 3;
  p->managed.dl_tensor.data = data;
  p->managed.dl_tensor.device.device_type = kDLCPU;
  p->managed.dl_tensor.ndim = 2;
  p->managed.dl_tensor.dtype.code = kDLFloat;
  p->managed.dl_tensor.dtype.bits = 32;
  p->managed.dl_tensor.dtype.lanes = 1;
  p->managed.dl_tensor.shape = p->shape;
  p->managed.deleter = delete_producer;
}

static void test_dlpack_import_shares_memory_and_deletes_once(void** state) {
  _Alignas(64) float data[8] = {1, 2, 3, 4, 5, 6};
  producer p;
  DLTensor* t;
  DLManagedTensor* again;
  (void)state;
  fill(&p, data);
  p.strides[0] = 3;
  p.strides[1] = 1;
  p.managed.dl_tensor.strides = p.strides;
  assert_ok(TVMArrayFromDLPack(&p.managed, &t));
  assert_ptr_equal(t->data, data);
  assert_null(t->strides);
  assert_ok(TVMArrayToDLPack(t, &again));
  assert_ok(TVMArrayFree(t));
  assert_int_equal(p.deleted, 0);
  assert_ptr_equal(again->dl_tensor.data, data);
  TVMDLManagedTensorCallDeleter(again);
  assert_int_equal(p.deleted, 1);
}

static void test_dlpack_import_refuses_strides_and_misalignment(void** state) {
  _Alignas(64) float data[12] = {0};
  producer p;
  DLTensor* t;
  (void)state;
  fill(&p, data + 1);
  assert_fails(TVMArrayFromDLPack(&p.managed, &t), "not aligned to 64 bytes");
  assert_null(t);
  fill(&p, data);
  p.strides[0] = 1;
  p.strides[1] = 2;
  p.managed.dl_tensor.strides = p.strides;
  assert_fails(TVMArrayFromDLPack(&p.managed, &t), "strides that are not compact");
  assert_int_equal(p.deleted, 0); /* a refused tensor stays the caller's */
}

static void test_bool_is_converted_by_dlpack(void** state) {
  static const int64_t shape[] = {4};
  DLTensor* t;
  DLTensor* back;
  DLManagedTensor* managed;
  (void)state;
  assert_ok(TVMArrayAlloc(shape, 1, kDLUInt, 1, 1, kDLCPU, 0, &t));
  assert_ok(TVMArrayToDLPack(t, &managed));
  assert_int_equal(managed->dl_tensor.dtype.code, kDLBool);
  assert_int_equal(managed->dl_tensor.dtype.bits, 8);
  assert_ok(TVMArrayFromDLPack(managed, &back));
  assert_int_equal(back->dtype.code, kDLUInt);
  assert_int_equal(back->dtype.bits, 1);
  TVMArrayFree(back);
  TVMArrayFree(t);
}

static void test_view_shares_and_checks(void** state) {
  DLTensor* t = make_tensor(2, shape23, values);
  call shape = {0};
  call c = {0};
  call bad_shape = {0};
  call bad = {0};
  (void)state;
  arg_int(&shape, 6);
  assert_ok(call_global(&shape, "runtime.ShapeTuple"));
  arg_handle(&c, kTVMNDArrayHandle, t);
  arg_handle(&c, kTVMObjectHandle, shape.ret.v_handle);
  assert_ok(call_global(&c, "runtime.TVMArrayCreateView"));
  TVMArrayFree(t);
  assert_floats(c.ret.v_handle, 6, values);
  arg_int(&bad_shape, 7);
  assert_ok(call_global(&bad_shape, "runtime.ShapeTuple"));
  arg_handle(&bad, kTVMNDArrayHandle, c.ret.v_handle);
  arg_handle(&bad, kTVMObjectHandle, bad_shape.ret.v_handle);
  assert_fails(call_global(&bad, "runtime.TVMArrayCreateView"),
               "would occupy bytes 0 <= i_byte < 28");
  TVMArrayFree(c.ret.v_handle);
  TVMObjectFree(shape.ret.v_handle);
  TVMObjectFree(bad_shape.ret.v_handle);
}

/* Data types as read back from a view. */
static void check_dtype(const char* text, int code, int bits, int lanes) {
  static const int64_t shape[] = {0};
  DLTensor* t = make_tensor(1, shape, NULL);
  call tuple = {0};
  call c = {0};
  arg_int(&tuple, 0);
  assert_ok(call_global(&tuple, "runtime.ShapeTuple"));
  arg_handle(&c, kTVMNDArrayHandle, t);
  arg_handle(&c, kTVMObjectHandle, tuple.ret.v_handle);
  arg_str(&c, text);
  assert_ok(call_global(&c, "runtime.TVMArrayCreateView"));
  assert_int_equal(((DLTensor*)c.ret.v_handle)->dtype.code, code);
  assert_int_equal(((DLTensor*)c.ret.v_handle)->dtype.bits, bits);
  assert_int_equal(((DLTensor*)c.ret.v_handle)->dtype.lanes, lanes);
  TVMArrayFree(c.ret.v_handle);
  TVMObjectFree(tuple.ret.v_handle);
  TVMArrayFree(t);
}

static void test_data_types_are_read(void** state) {
  (void)state;
  check_dtype("float32", kDLFloat, 32, 1);
  check_dtype("float", kDLFloat, 32, 1);
  check_dtype("int8x4", kDLInt, 8, 4);
  check_dtype("uint16", kDLUInt, 16, 1);
  check_dtype("bool", kDLUInt, 1, 1);
  check_dtype("bfloat16", kDLBfloat, 16, 1);
  check_dtype("handle", kDLOpaqueHandle, 64, 1);
  check_dtype("custom[130]16", 130, 16, 1);
  check_dtype("e4m3_float8", 6, 8, 1);
}

static void test_bad_data_types_are_refused(void** state) {
  static const char* const bad[] = {"flaot32",  "float32x", "float0",     "float999",
                                    "int8x0",   "bool8",    "custom[1]",  "int8x70000",
                                    "float32 ", "int256",   "int8x65536", "custom[256]"};
  static const int64_t shape[] = {0};
  (void)state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    DLTensor* t = make_tensor(1, shape, NULL);
    call tuple = {0};
    call c = {0};
    assert_ok(call_global(&tuple, "runtime.ShapeTuple"));
    arg_handle(&c, kTVMNDArrayHandle, t);
    arg_handle(&c, kTVMObjectHandle, tuple.ret.v_handle);
    arg_str(&c, bad[i]);
    assert_fails(call_global(&c, "runtime.TVMArrayCreateView"), "not a data type");
    TVMObjectFree(tuple.ret.v_handle);
    TVMArrayFree(t);
  }
}

/* The file of {"w": float32 (2,)} with values 1 and 2, byte by byte from the format's description. */
static const unsigned char
    params_file[] = {0xb7, 0x9c, 0x04, 0x05, 0x4f, 0x8d, 0xe5, 0xf7, 0,
                     0,    0,    0,    0,    0,    0,    0, /* magic, reserved */
                     1,    0,    0,    0,    0,    0,    0,    0,    1,
                     0,    0,    0,    0,    0,    0,    0,    'w', /* names */
                     1,    0,    0,    0,    0,    0,    0,    0,   /* count */
                     0x3f, 0xa1, 0xb4, 0x96, 0xf0, 0x40, 0x5e, 0xdd, 0,
                     0,    0,    0,    0,    0,    0,    0, /* tensor */
                     1,    0,    0,    0,    0,    0,    0,    0,    1,
                     0,    0,    0,    2,    32,   1,    0, /* device, ndim, dtype */
                     2,    0,    0,    0,    0,    0,    0,    0,    8,
                     0,    0,    0,    0,    0,    0,    0, /* shape, bytes */
                     0,    0,    0x80, 0x3f, 0,    0,    0,    0x40};

static int load_params(const void* data, size_t size, call* c) {
  TVMByteArray bytes;
  memset(c, 0, sizeof(*c));
  bytes.data = data;
  bytes.size = size;
  arg_handle(c, kTVMBytes, &bytes);
  return call_global(c, "runtime.LoadParams");
}

static void test_params_are_read_and_written_byte_for_byte(void** state) {
  const float expected[] = {1, 2};
  call loaded;
  call get = {0};
  call saved = {0};
  const TVMByteArray* bytes;
  (void)state;
  assert_ok(load_params(params_file, sizeof(params_file), &loaded));
  arg_handle(&get, kTVMObjectHandle, loaded.ret.v_handle);
  arg_str(&get, "w");
  assert_ok(call_global(&get, "runtime.MapGetItem"));
  assert_int_equal(get.ret_code, kTVMNDArrayHandle);
  assert_floats(get.ret.v_handle, 2, expected);
  arg_handle(&saved, kTVMObjectHandle, loaded.ret.v_handle);
  assert_ok(call_global(&saved, "runtime.SaveParams"));
  bytes = saved.ret.v_handle;
  assert_int_equal(bytes->size, sizeof(params_file));
  assert_memory_equal(bytes->data, params_file, sizeof(params_file));
  TVMArrayFree(get.ret.v_handle);
  TVMObjectFree(loaded.ret.v_handle);
}

/* Each byte truncated, zeroed or set to its maximum: an error or a valid result, never a crash. */
static void test_damaged_params_are_refused_or_read(void** state) {
  call c;
  (void)state;
  for (size_t size = 0; size < sizeof(params_file); ++size) {
    unsigned char* exact = malloc(size + 1); /* so that sanitizers see an overrun */
    unsigned char* end = exact + 1;
    memcpy(end, params_file, size);
    assert_fails(load_params(end, size, &c), "damaged");
    free(exact);
  }
  for (size_t at = 0; at < sizeof(params_file); ++at) {
    static const unsigned char replacements[] = {0, 0xff, 0x7f, 0x80};
    for (size_t r = 0; r < sizeof(replacements); ++r) {
      unsigned char copy[sizeof(params_file)];
      memcpy(copy, params_file, sizeof(copy));
      copy[at] = replacements[r];
      if (load_params(copy, sizeof(copy), &c) == 0) TVMObjectFree(c.ret.v_handle);
    }
  }
}

static void test_workspace_is_reused(void** state) {
  void* a = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  void* b = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  (void)state;
  assert_non_null(a);
  assert_int_equal((uintptr_t)a % 64, 0);
  assert_ptr_not_equal(a, b);
  assert_ok(TVMBackendFreeWorkspace(kDLCPU, 0, a));
  assert_fails(TVMBackendFreeWorkspace(kDLCPU, 0, a), "free already");
  assert_ptr_equal(TVMBackendAllocWorkspace(kDLCPU, 0, 4000, kDLFloat, 32), a);
  assert_ok(TVMBackendFreeWorkspace(kDLCPU, 0, a));
  assert_ok(TVMBackendFreeWorkspace(kDLCPU, 0, b));
  assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, UINT64_MAX, kDLFloat, 32));
}

static void test_device_functions_of_the_cpu(void** state) {
  DLDevice cpu = {kDLCPU, 0};
  DLDataType byte = {kDLUInt, 8, 1};
  TVMStreamHandle stream = &cpu;
  void* memory;
  call c = {0};
  (void)state;
  assert_ok(TVMStreamCreate(kDLCPU, 0, &stream));
  assert_null(stream);
  assert_ok(TVMSynchronize(kDLCPU, 0, NULL));
  assert_ok(TVMStreamStreamSynchronize(kDLCPU, 0, NULL, NULL));
  assert_ok(TVMStreamFree(kDLCPU, 0, NULL));
  assert_fails(TVMSynchronize(kDLVulkan, 0, NULL), "vulkan");
  assert_ok(TVMDeviceAllocDataSpace(cpu, 10, 256, byte, &memory));
  assert_int_equal((uintptr_t)memory % 256, 0);
  assert_ok(TVMDeviceFreeDataSpace(cpu, memory));
  assert_fails(TVMDeviceAllocDataSpace(cpu, 10, 3, byte, &memory), "power of two");
  assert_fails(TVMDeviceAllocDataSpaceWithScope(cpu, 2, shape23, byte, "texture", &memory),
               "memory scope 'texture'");
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  arg_int(&c, 0);
  assert_ok(call_global(&c, "runtime.GetDeviceAttr"));
  assert_int_equal(c.ret.v_int64, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alloc_is_aligned_and_compact),
      cmocka_unit_test(test_alloc_refuses),
      cmocka_unit_test(test_bytes_round_trip),
      cmocka_unit_test(test_copy_between_tensors),
      cmocka_unit_test(test_dlpack_import_shares_memory_and_deletes_once),
      cmocka_unit_test(test_dlpack_import_refuses_strides_and_misalignment),
      cmocka_unit_test(test_bool_is_converted_by_dlpack),
      cmocka_unit_test(test_view_shares_and_checks),
      cmocka_unit_test(test_data_types_are_read),
      cmocka_unit_test(test_bad_data_types_are_refused),
      cmocka_unit_test(test_params_are_read_and_written_byte_for_byte),
      cmocka_unit_test(test_damaged_params_are_refused_or_read),
      cmocka_unit_test(test_workspace_is_reused),
      cmocka_unit_test(test_device_functions_of_the_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
