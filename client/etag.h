/*
 * etag.h - the entity tag of a tensor with scales, which gemmd_tensor_etag() leaves out.
 */
#ifndef CLIENT_ETAG_H
#define CLIENT_ETAG_H

#include "proto/tensor.h"

/* Computes the tag of a tensor and its scales (NULL: no scales) as PROTOCOL.md says, 66 characters
 * and a NUL. Both are row-major and have their data. Any thread. */
void etag_compute(const struct tensor *tensor, const struct tensor *scale, char out[72]);

#endif
