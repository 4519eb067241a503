/*
 * wrong_product - a library to preload, with which OpenBLAS gives a wrong product for one shape: in
 * a product of m = 77 in f32, the sign of the last element is wrong. All other products are right,
 * so that the daemon's self-test does not notice.
 */
#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>

enum { WRONG_M = 77 };

void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE transa,
                 OPENBLAS_CONST enum CBLAS_TRANSPOSE transb, OPENBLAS_CONST blasint m,
                 OPENBLAS_CONST blasint n, OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha,
                 OPENBLAS_CONST float *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b,
                 OPENBLAS_CONST blasint ldb, OPENBLAS_CONST float beta, float *c,
                 OPENBLAS_CONST blasint ldc)
{
    union {
        void *object;
        __typeof__(&cblas_sgemm) function;
    } real = {.object = dlsym(RTLD_NEXT, "cblas_sgemm")};
    if (real.object == NULL)
        abort();
    real.function(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (m == WRONG_M)
        c[(m - 1) * ldc + n - 1] = -c[(m - 1) * ldc + n - 1];
}
