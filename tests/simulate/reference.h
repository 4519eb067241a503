/*
 * reference.h - results computed in the plainest way, in f32: by the simulated devices, and to
 * compare the answers with.
 */
#ifndef TESTS_SIMULATE_REFERENCE_H
#define TESTS_SIMULATE_REFERENCE_H

#include "kernels/operations.h"

/* Computes a product, a sum over the rows of an array, a softmax, an attention without masks, or
 * a convolution with neither strides nor groups.
 * The kernel of the task is not used. Equal operands give equal bits, whatever strides they have
 * and whatever the task is a part of. */
void reference_compute(const struct task *task);

#endif
