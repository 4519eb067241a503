#include "client/gemmctl/check.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

struct check_rounding check_rounding_of(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return (struct check_rounding){0x1p-53, DBL_MIN, DBL_MAX};
    case GEMMD_F32:
        return (struct check_rounding){0x1p-24, FLT_MIN, FLT_MAX};
    case GEMMD_F16:
        return (struct check_rounding){0x1p-11, 0x1p-25, 65504};
    case GEMMD_BF16:
        return (struct check_rounding){0x1p-8, FLT_MIN, FLT_MAX};
    default:
        return (struct check_rounding){0, 0, DBL_MAX};
    }
}

void check_element(struct check *check, uint64_t at, double found, double expected, double allowed,
                   double limit)
{
    const double error = found == expected ? 0 : fabs(found - expected);
    check->elements++;
    if (error <= allowed) {
        if (allowed > 0)
            check->largest = fmax(check->largest, error / allowed);
        return;
    }
    const bool overflows =
        isinf(found) && fabs(expected) + allowed >= limit && signbit(found) == signbit(expected);
    if (overflows || check->wrong++ > 0)
        return;
    check->at = at;
    check->found = found;
    check->expected = expected;
    check->allowed = allowed;
}

uint64_t check_stride(double work)
{
    return work > CHECK_WORK_MAX ? (uint64_t)ceil(work / CHECK_WORK_MAX) : 1;
}
