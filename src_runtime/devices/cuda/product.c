/* Products of matrices by cuBLAS. Its matrices are column-major: of row-major ones it computes the
 * transposed product, whose operands have changed places. */
#include <pthread.h>

#include "plan.h"

static const char* const NO_FIT = "a product reaches beyond a tensor";

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Two plans may be made at once: the library is loaded by one of them. The struct of functions is
 * filled once and read without the lock from then on: whoever gets here has passed it. */
static int load_library(cuda_context* c) {
  int rc = 0;
  (void)pthread_mutex_lock(&loading);
  if (!c->has_products) rc = cuda_products_load(&c->products);
  c->has_products |= rc == 0;
  (void)pthread_mutex_unlock(&loading);
  return rc;
}

/* A handle for each plan: one serves a stream at a time. Its workspace of some megabytes is made
 * with it, so plans without products have none. On failure cuda_products_free() takes what was
 * made. */
static int create_handle(cuda_plan* p) {
  const cuda_products* calls = &p->context->products;
  int status;
  if (p->handle != NULL) return 0;
  if (load_library(p->context) != 0) return -1;
  status = calls->cublasCreate_v2(&p->handle);
  if (status != 0) {
    p->handle = NULL;
    return device_fail("cublasCreate failed with status %d", status);
  }
  status = calls->cublasSetStream_v2(p->handle, p->stream);
  return status == 0 ? 0 : device_fail("cublasSetStream failed with status %d", status);
}

/* Four numbers from `least` to INT32_MAX, which also bounds the products of two of them below
 * 2^63. */
static int read_numbers(const tvmrt_region_node* node, const char* key, int64_t least,
                        int64_t* out) {
  int32_t count = 0, i;
  const int64_t* given = tvmrt_node_ints(node, key, &count);
  if (count != 4) return device_fail("a product has no four numbers in %s", key);
  for (i = 0; i < 4; ++i) {
    if (given[i] < least || given[i] > INT32_MAX) return device_fail("%s", NO_FIT);
    out[i] = given[i];
  }
  return 0;
}

/* The last element that the product reads must lie within the tensor; `lead` must not let rows
 * overlap. Nothing of the node is trusted: cuBLAS reads where it is told to. */
static int read_matrix(const cuda_plan* p, const tvmrt_region_node* node, int32_t operand,
                       const char* key, const int64_t extents[2], int64_t count, matrix* out) {
  const int32_t tensor = node->inputs[operand];
  int64_t numbers[4] = {0, 0, 0, 0}, rows, columns, last;
  if (read_numbers(node, key, 0, numbers) != 0) return -1;
  out->offset = numbers[0];
  /* elements from a row to the next, and below from a matrix to the next */
  out->lead = numbers[1];
  out->step = numbers[2];
  out->transposed = numbers[3] != 0;
  rows = extents[out->transposed];
  columns = extents[!out->transposed];
  last = out->offset + (count - 1) * out->step + (rows - 1) * out->lead + columns;
  if (tensor < 0 || out->lead < columns || last > tvmrt_region_size(p->region, tensor)) {
    return device_fail("%s", NO_FIT);
  }
  return 0;
}

/* The result is written without gaps, so its size must agree exactly. Sizes of at least 1: an
 * empty product has nothing to be launched. */
int cuda_product_create(cuda_plan* p, const tvmrt_region_node* node, step* out) {
  int64_t sizes[4] = {0, 0, 0, 0}, of_a[2], of_b[2];
  int32_t k;
  if (node->num_inputs != 2 || node->num_outputs != 1) {
    return device_fail("a product has no two operands, or no result");
  }
  if (read_numbers(node, "sizes", 1, sizes) != 0) return -1;
  out->count = sizes[0];
  out->rows = sizes[1];
  out->columns = sizes[2];
  out->inner = sizes[3];
  of_a[0] = out->rows;
  of_a[1] = out->inner;
  of_b[0] = out->inner;
  of_b[1] = out->columns;
  if (read_matrix(p, node, 0, "a", of_a, out->count, &out->a) != 0) return -1;
  if (read_matrix(p, node, 1, "b", of_b, out->count, &out->b) != 0) return -1;
  if (out->rows * out->columns > INT32_MAX ||
      out->count * out->rows * out->columns != tvmrt_region_size(p->region, node->outputs[0])) {
    return device_fail("%s", NO_FIT);
  }
  for (k = 0; k < 3; ++k) {
    const int32_t tensor = k < 2 ? node->inputs[k] : node->outputs[0];
    const DLDataType type = p->region->tensors[tensor].dtype;
    if (type.code != kDLFloat || type.bits != 32) return device_fail("a product is not of float32");
  }
  return create_handle(p);
}

/* An address of the GPU's, which nobody reads here. */
static const float* begin(const cuda_plan* p, int32_t tensor, int64_t offset) {
  return (const float*)(uintptr_t)cuda_address(p, tensor) + offset;
}

/* Queued on the plan's stream; errors of the computation come with the run's end. Steps of 0 read
 * one matrix again and again, as broadcasting wants it. */
int cuda_product_launch(cuda_plan* p, const step* s) {
  static const float one = 1.0f, zero = 0.0f;
  const tvmrt_region_node* node = &p->region->nodes[s->node];
  const int status = p->context->products.cublasSgemmStridedBatched(
      /* operands in changed places, as the file's head says */
      p->handle, s->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
      s->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)s->columns, (int)s->rows, (int)s->inner,
      &one, begin(p, node->inputs[1], s->b.offset), (int)s->b.lead, s->b.step,
      begin(p, node->inputs[0], s->a.offset), (int)s->a.lead, s->a.step, &zero,
      (float*)(uintptr_t)cuda_address(p, node->outputs[0]), (int)s->columns, s->rows * s->columns,
      (int)s->count);
  return status == 0 ? 0 : device_fail("cublasSgemmStridedBatched failed with status %d", status);
}

/* With the context entered, behind the stream's last work. */
void cuda_products_free(cuda_plan* p) {
  if (p->handle != NULL) (void)p->context->products.cublasDestroy_v2(p->handle);
}
