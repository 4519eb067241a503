#include <math.h>
#include <stdlib.h>

#include "kernels/freivalds_parts.h"

/* Everything here is unsigned, which is arithmetic modulo 2^32. */

struct vectors {
    uint32_t *r;        /* [n], odd: no nonzero difference times an odd number is 0 */
    uint32_t *br;       /* [k], op(B) * r */
    uint32_t *expected; /* [m] */
};

/* out += (x * v) for x of `lines` x `length` elements if !across, else out += (transpose of x) * v.
 */
static void accumulate(const int8_t *x, uint64_t ld, uint64_t lines, uint64_t length, bool across,
                       const uint32_t *v, uint32_t *out)
{
    for (uint64_t i = 0; i < lines; i++) {
        const int8_t *line = x + i * ld;
        uint32_t sum = 0;
        if (across)
            for (uint64_t j = 0; j < length; j++)
                out[j] += (uint32_t)line[j] * v[i];
        else
            for (uint64_t j = 0; j < length; j++)
                sum += (uint32_t)line[j] * v[j];
        if (!across)
            out[i] += sum;
    }
}

static double check_one(const struct gemm_problem *p, uint64_t index, const struct vectors *v)
{
    const int8_t *a = (const int8_t *)p->a + index * p->stride_a;
    const int8_t *b = (const int8_t *)p->b + index * p->stride_b;
    const uint32_t *c = (const uint32_t *)p->c + index * p->stride_c;
    const uint32_t *c0 = p->beta != 0 ? (const uint32_t *)p->c0 + index * p->stride_c0 : NULL;
    const uint32_t *bias = p->bias;
    const uint32_t alpha = (uint32_t)(int64_t)p->alpha, beta = (uint32_t)(int64_t)p->beta;
    double worst = 0;

    for (uint64_t i = 0; i < p->k; i++)
        v->br[i] = 0;
    for (uint64_t i = 0; i < p->m; i++)
        v->expected[i] = 0;
    accumulate(b, p->ldb, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->transb, v->r, v->br);
    accumulate(a, p->lda, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->transa, v->br,
               v->expected);
    for (uint64_t i = 0; i < p->m; i++) {
        uint32_t difference = (uint32_t)0 - alpha * v->expected[i];
        for (uint64_t j = 0; j < p->n; j++) {
            uint32_t added =
                (c0 != NULL ? beta * c0[i * p->ldc0 + j] : 0) + (bias != NULL ? bias[j] : 0);
            difference += (c[i * p->ldc + j] - added) * v->r[j];
        }
        /* Half of 1 is the bound: rounding explains nothing here. */
        worst = fmax(worst, 2 * fabs((double)(int32_t)difference));
    }
    return worst;
}

enum gemmd_error freivalds_check_i32(const struct gemm_problem *p, uint64_t seed, double *residual)
{
    struct vectors v = {
        .r = calloc(p->n, sizeof *v.r),
        .br = calloc(p->k, sizeof *v.br),
        .expected = calloc(p->m, sizeof *v.expected),
    };
    enum gemmd_error code = GEMMD_ERR_OUT_OF_MEMORY;
    if (v.r == NULL || v.br == NULL || v.expected == NULL)
        goto out;
    for (uint64_t j = 0; j < p->n; j++)
        v.r[j] = freivalds_r_i32(seed, j);
    *residual = 0;
    for (uint64_t index = 0; index < p->batch; index++)
        *residual = fmax(*residual, check_one(p, index, &v));
    code = GEMMD_OK;
out:
    free(v.r);
    free(v.br);
    free(v.expected);
    return code;
}
