/*
 * check_product.h - compares a product with a reference that is computed here; check_epilogue.h
 * says how far an element may be away.
 */
#ifndef GEMMCTL_CHECK_PRODUCT_H
#define GEMMCTL_CHECK_PRODUCT_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/progress.h"
#include "proto/gemm_request.h"

/* Compares the result `c` of a request with bound operands, none of which is resident. If the
 * product has more than 2^32 multiply-adds, only rows at equal distances are compared, so many that
 * they have about 2^32 multiply-adds, and at least one. Stops early if the user interrupts.
 * GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_CANCELLED. */
enum gemmd_error check_product(const struct gemm_request *request,
                               const struct gemm_operands *operands, const void *c,
                               struct progress_line *line, struct check *check);

#endif
