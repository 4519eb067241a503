#include "client/shape_text.h"

#include <inttypes.h>
#include <stdio.h>

enum gemmd_error shape_check_rank(uint32_t rank, struct fault *fault)
{
    if (rank >= 1 && rank <= 8)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, "rank",
                     "rank is %" PRIu32 "; it must be from 1 to 8", rank);
}

const char *shape_text(uint32_t rank, const uint64_t dims[8], char out[SHAPE_TEXT_BYTES])
{
    int length = snprintf(out, SHAPE_TEXT_BYTES, "%s", rank == 0 || rank > 8 ? "none" : "");
    for (uint32_t i = 0; rank <= 8 && i < rank; i++)
        length += snprintf(out + length, (size_t)(SHAPE_TEXT_BYTES - length), "%s%" PRIu64,
                           i > 0 ? "," : "", dims[i]);
    return out;
}
