/* The regions of OpenCL whose allocations fail, see test_out_of_memory_devices.c. */
#define PRECISION "float16"
#define KERNEL                                                                                  \
  "\"build_options\": \"\", \"function\": \"f\", \"global_size\": [64], \"local_size\": [64], " \
  "\"operator\": \"f\", \"scalar_types\": \"int float\", \"scalars\": [1.0, 2.0], \"source\": " \
  "\"__kernel void f(__global const float *x, __global const float *w, __global float *y, "     \
  "const int a, const float b) { y[get_global_id(0) % 6] = b; }\", \"types\": \"float32:2x3\""
#define REGIONS                                                                               \
  REGION("r", T("[2, 3]") ", " T("[2, 3]"), NODE("identity", "[0]", "[1]", ""), "[0]", "[1]") \
  ", " OPEN_REGION("o", NODE("identity", "[0]", "[1]", "")) ", " REGION(                      \
      "m", T("[2, 3]") ", " W("[2, 3]", 0, 24) ", " T("[2, 3]"),                              \
      NODE("custom_opencl", "[0, 1]", "[2]", KERNEL), "[0]", "[2]")
