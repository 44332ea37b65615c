/* Statuses of libcuda. */
#ifndef TESTS_C_CUDA_STAND_IN_DRIVER_H_
#define TESTS_C_CUDA_STAND_IN_DRIVER_H_

enum {
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_IMAGE = 200,
  NOT_FOUND = 500,
  NOT_READY = 600
};

#endif
