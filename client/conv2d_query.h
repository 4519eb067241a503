/*
 * conv2d_query.h - the path and query of a request for a convolution.
 */
#ifndef CLIENT_CONV2D_QUERY_H
#define CLIENT_CONV2D_QUERY_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/conv2d_request.h"

/* Writes "/conv2d?channels=..." to `out` of `room` bytes, with the rules of gemm_query_write
 * (gemm_query.h). `asked` becomes the parsed request. */
enum gemmd_error conv2d_query_write(const struct gemmd_conv2d *conv2d, char *out, size_t room,
                                    struct conv2d_request *asked, struct fault *fault);

#endif
