/* The regions of oneDNN whose allocations fail, see test_out_of_memory_devices.c. */
#define PRECISION NULL
#define DENSE "\"borders\": \"dense\""
#define REGIONS                                                                                \
  REGION("r", T("[2, 3]") ", " T("[2, 3]"), NODE("relu", "[0]", "[1]", DENSE), "[0]", "[1]")   \
  ", " REGION("m",                                                                             \
              T("[1, 2, 3, 3]") ", " W("[2, 2, 1, 1]", 0, 16) ", " W(                          \
                  "[2]", 64, 8) ", " T("[1, 2, 3, 3]") ", " T("[1, 2, 3, 3]"),                 \
              NODE("conv", "[0, 1, 2]", "[3]", DENSE ", " WINDOW ", \"groups\": 1") ", " NODE( \
                  "add", "[3, 0]", "[4]", DENSE),                                              \
              "[0]", "[4]") ", " REGION("n",                                                   \
                                        T("[2, 4]") ", " W("[4, 3]", 0, 48) ", " W(            \
                                            "[3]", 0, 12) ", " T("[2, 3]") ", " T("[2, 3]"),   \
                                        NODE("matmul", "[0, 1]", "[3]", DENSE) ", " NODE(      \
                                            "add", "[3, 2]", "[4]", DENSE),                    \
                                        "[0]", "[4]")
