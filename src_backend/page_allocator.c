/* Backend library: a page allocator in a block of memory; blocks may be freed in any order.
 *
 * The block holds the manager, one number per page, and the pages. The number of an allocated
 * block's first page is its length in pages; other pages of the block and free pages have 0. */
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "mem_functions.h"

typedef struct page_manager {
  MemoryManagerInterface interface; /* first: programs hold its address */
  uint32_t* lengths;
  uint8_t* pages;
  size_t num_pages;
  size_t page_log2;
} page_manager;

int vleak_size = 0; /* allocated blocks of all managers; TVM's name */

/* First of `count` consecutive free pages; num_pages if there are none. First fit. An allocated
 * block is skipped by its length in one step, so only its first number is set and freeing it is one
 * store. */
static size_t find_free(const page_manager* m, size_t count) {
  size_t first = 0;
  size_t i = 0;
  while (i < m->num_pages && i - first < count) {
    if (m->lengths[i] != 0) {
      i += m->lengths[i];
      first = i;
    } else {
      ++i;
    }
  }
  return i - first >= count && count != 0 ? first : m->num_pages;
}

/* An empty block takes a page too, so that it has a unique address for release(). */
static tvm_crt_error_t allocate(MemoryManagerInterface* interface, size_t num_bytes, DLDevice dev,
                                void** out_ptr) {
  page_manager* m = (page_manager*)(void*)interface;
  size_t page = (size_t)1 << m->page_log2;
  size_t count = num_bytes / page + (num_bytes % page != 0 || num_bytes == 0);
  size_t first = find_free(m, count);
  (void)dev;
  if (first >= m->num_pages) return kTvmErrorPlatformNoMemory;
  m->lengths[first] = (uint32_t)count;
  *out_ptr = m->pages + (first << m->page_log2);
  ++interface->vleak_size;
  ++vleak_size;
  return kTvmErrorNoError;
}

/* Refuse addresses that were not allocated: outside of the pages, inside of a page, or of a page
 * that begins no block. Nothing is changed then, so a double free is reported and harmless. */
static tvm_crt_error_t release(MemoryManagerInterface* interface, void* ptr, DLDevice dev) {
  page_manager* m = (page_manager*)(void*)interface;
  uint8_t* block = (uint8_t*)ptr;
  size_t offset;
  (void)dev;
  if (block < m->pages || block >= m->pages + (m->num_pages << m->page_log2)) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  offset = (size_t)(block - m->pages);
  if ((offset & (((size_t)1 << m->page_log2) - 1)) != 0 ||
      m->lengths[offset >> m->page_log2] == 0) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  m->lengths[offset >> m->page_log2] = 0;
  --interface->vleak_size;
  --vleak_size;
  return kTvmErrorNoError;
}

/* Callers include the padding in their sizes; `align` is a power of two. */
static uint8_t* align_up(uint8_t* p, size_t align) { return p + (-(uintptr_t)p & (align - 1)); }

tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes,
                                        size_t page_size_bytes_log2) {
  uint8_t* end = memory_pool + memory_pool_size_bytes;
  uint8_t* at = align_up(memory_pool, TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES);
  page_manager* m = (page_manager*)(void*)at;
  size_t head = sizeof(page_manager) + 2 * TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES;
  *manager = NULL;
  /* Page sizes above 16 MiB are an error of the caller; below that nothing here overflows. */
  if (page_size_bytes_log2 > 24 || memory_pool_size_bytes < head + (size_t)(at - memory_pool)) {
    return kTvmErrorPlatformNoMemory;
  }
  memset(m, 0, sizeof(*m));
  m->page_log2 = page_size_bytes_log2;
  m->num_pages = (memory_pool_size_bytes - head - (size_t)(at - memory_pool)) /
                 (((size_t)1 << page_size_bytes_log2) + sizeof(uint32_t));
  m->lengths = (uint32_t*)(void*)(at + sizeof(page_manager));
  m->pages = align_up((uint8_t*)(m->lengths + m->num_pages), TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES);
  if (m->num_pages == 0 || m->pages + (m->num_pages << m->page_log2) > end) {
    return kTvmErrorPlatformNoMemory;
  }
  memset(m->lengths, 0, m->num_pages * sizeof(*m->lengths));
  m->interface.Allocate = allocate;
  m->interface.Free = release;
  *manager = &m->interface;
  return kTvmErrorNoError;
}
