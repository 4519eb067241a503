/* freivalds: the size of the workspace. */
#include "kernels/cuda/freivalds/freivalds.h"

#include "proto/size.h"

bool freivalds_workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    const bool integers = p->out == GEMMD_I32;
    uint64_t k, m, count;
    return size_mul(p->k, p->batch, &k) && size_mul(k, integers ? 1 : 3, &k) &&
           size_mul(p->m, p->batch, &m) && size_mul(m, integers ? 1 : 2, &m) &&
           size_add(k, m, &count) && size_add(count, p->n, &count) &&
           size_mul(count, integers ? sizeof(uint32_t) : sizeof(double), &count) &&
           size_add(count, FREIVALDS_HEADER_BYTES, out);
}
