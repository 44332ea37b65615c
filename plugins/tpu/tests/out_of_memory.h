/* The regions of the simulated accelerator whose allocations fail, see test_out_of_memory_devices.c. */
#define PRECISION "float16"
#define REGIONS                                                                              \
  REGION("r", T("[2, 3]") ", " T("[2, 3]"), NODE("relu", "[0]", "[1]", ""), "[0]", "[1]")    \
  ", " REGION(                                                                               \
      "m",                                                                                   \
      T("[1, 2, 3, 3]") ", " W("[2, 2, 1, 1]", 0, 16) ", " W(                                \
          "[2]", 64, 8) ", " T("[1, 2, 3, 3]") ", " T("[1, 2, 3, 3]"),                       \
      NODE("conv", "[0, 1, 2]", "[3]",                                                       \
           "\"precision\": \"int8\", " WINDOW                                                \
           ", \"groups\": 1") ", " NODE("tanh", "[3]", "[4]", "\"precision\": \"float16\""), \
      "[0]", "[4]")
