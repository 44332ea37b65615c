/* cuBLAS: products of matrices by plain loops. */
#include "stand_in.h"

enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7 };

typedef struct {
  void* stream;
} handle;

EXPORT int cublasCreate_v2(handle** out) {
  FAIL_IF_ASKED();
  *out = calloc(1, sizeof(**out));
  return *out == NULL ? ALLOC_FAILED : 0;
}

EXPORT int cublasDestroy_v2(handle* h) {
  free(h);
  return 0;
}

EXPORT int cublasSetStream_v2(handle* h, void* stream) {
  FAIL_IF_ASKED();
  h->stream = stream;
  return 0;
}

/* All column-major. */
typedef struct {
  int transa, transb, m, n, k, lda, ldb, ldc, count;
  long long int stridea, strideb, stridec;
  float alpha, beta;
  const float *a, *b;
  float* c;
} product;

static void run(void* bytes) {
  const product* p = bytes;
  for (int i = 0; i < p->count; ++i) {
    const float* a = p->a + i * p->stridea;
    const float* b = p->b + i * p->strideb;
    for (int column = 0; column < p->n; ++column) {
      for (int row = 0; row < p->m; ++row) {
        float* c = &p->c[i * p->stridec + (long long int)column * p->ldc + row];
        float sum = 0;
        for (long long int r = 0; r < p->k; ++r) {
          const float left = a[p->transa ? row * (long long int)p->lda + r : r * p->lda + row];
          const float right =
              b[p->transb ? r * p->ldb + column : column * (long long int)p->ldb + r];
          sum += left * right;
        }
        *c = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *c);
      }
    }
  }
}

EXPORT int cublasSgemmStridedBatched(handle* h, int transa, int transb, int m, int n, int k,
                                     const float* alpha, const float* a, int lda,
                                     long long int stridea, const float* b, int ldb,
                                     long long int strideb, const float* beta, float* c, int ldc,
                                     long long int stridec, int count) {
  const product p = {transa,  transb,  m,       n,      k,     lda, ldb, ldc, count,
                     stridea, strideb, stridec, *alpha, *beta, a,   b,   c};
  FAIL_IF_ASKED();
  if (h == NULL || h->stream == NULL) return NOT_INITIALIZED;
  if (m < 1 || n < 1 || k < 1 || lda < (transa ? k : m) || ldb < (transb ? n : k) || ldc < m) {
    return INVALID_VALUE;
  }
  return stand_in_enqueue(h->stream, run, &p, sizeof(p)) == 0 ? 0 : ALLOC_FAILED;
}
