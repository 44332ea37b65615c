/* Counts the blocks that a device has allocated and not freed. The judge reads the number. */
#include <stdatomic.h>

int allocated_blocks(void);

static atomic_int num_blocks;
int allocated_blocks(void) { return atomic_load(&num_blocks); }

static void* count_block(void* block) {
  if (block != NULL) atomic_fetch_add(&num_blocks, 1);
  return block;
}
static void free_counted(void* block) {
  if (block != NULL) atomic_fetch_sub(&num_blocks, 1);
  free(block);
}
static int align_counted(void** out, size_t align, size_t bytes) {
  const int rc = posix_memalign(out, align, bytes);
  if (rc == 0) (void)count_block(*out);
  return rc;
}
#define calloc(count, bytes) count_block(calloc(count, bytes))
#define malloc(bytes) count_block(malloc(bytes))
#define posix_memalign(out, align, bytes) align_counted(out, align, bytes)
#define free(block) free_counted(block)
