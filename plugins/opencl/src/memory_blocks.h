/* Memory blocks that a device has allocated for tensors, found by address. */
#ifndef TVMRT_DEVICES_OPENCL_MEMORY_BLOCKS_H_
#define TVMRT_DEVICES_OPENCL_MEMORY_BLOCKS_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  char* address;
  size_t bytes;
  void* handle; /* the device's own */
} memory_block;

/* Initialise with BLOCKS_INIT; thread-safe. */
typedef struct {
  pthread_mutex_t lock;
  struct block* first;
} memory_blocks;

#define BLOCKS_INIT \
  { PTHREAD_MUTEX_INITIALIZER, NULL }

/* -1 with the error text set. */
int blocks_add(memory_blocks* blocks, const memory_block* added);
/* Remove the block that begins at an address, or any block for NULL; false if there is none. */
bool blocks_take(memory_blocks* blocks, const void* address, memory_block* out);
/* Find the block that contains an address. */
bool blocks_find(memory_blocks* blocks, const void* address, memory_block* out);

#endif
