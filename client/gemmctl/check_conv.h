/*
 * check_conv.h - compares a convolution with a reference that is computed here; check_epilogue.h
 * says how far an element may be away.
 */
#ifndef GEMMCTL_CHECK_CONV_H
#define GEMMCTL_CHECK_CONV_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/progress.h"
#include "proto/conv2d_request.h"

/* Compares the result `y` of a request with bound operands, none of which is resident. A row is a
 * row of pixels of one channel of Y. If the convolution has more than 2^32 multiply-adds, only rows
 * at equal distances are compared, which have about 2^32 multiply-adds. Stops early if the user
 * interrupts. GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_CANCELLED. */
enum gemmd_error check_conv(const struct conv2d_request *request,
                            const struct conv2d_operands *operands, const void *y,
                            struct progress_line *line, struct check *check);

#endif
