/*
 * device_attention.h - an attention of tests/product on the device: operands up, kernel, O and lse
 * down.
 */
#ifndef TESTS_GPU_DEVICE_ATTENTION_H
#define TESTS_GPU_DEVICE_ATTENTION_H

#include "tests/product/attention_sample.h"

enum {
    DEVICE_ATTENTION_LENGTHS = ATTENTION_PARTS,
    DEVICE_ATTENTION_MASK,
    DEVICE_ATTENTION_SLOPES,
    DEVICE_ATTENTION_SINKS,
    DEVICE_ATTENTION_PARTS
};

struct device_attention {
    struct attention_problem problem; /* with device pointers */
    void *memory[DEVICE_ATTENTION_PARTS];
    void *stream; /* a cudaStream_t, the caller's */
};

/* Copies the operands. `exact` leaves their guard zones on the host, so that a memory checker sees
 * the first byte that is read beyond them. Prints what failed. */
bool device_attention_create(struct device_attention *device, const struct attention_sample *sample,
                             bool exact, void *stream);
void device_attention_destroy(struct device_attention *device);

/* Moves K and V to where their rows are `row` elements apart, which must be of one head of one
 * entry. Prints what failed. */
bool device_attention_spread(struct device_attention *device, uint64_t row);

/* Poisons O and lse, runs the kernel in a poisoned workspace, and copies both and what surrounds
 * them into `sample`. The kernel runs in about `launches` launches (kernels/launch_cut.h), if it
 * has parts. False with the reason in `text` if something failed or the kernel wrote
 * beyond its workspace. */
bool device_attention_run(struct device_attention *device, struct attention_sample *sample,
                          const struct operation_kernel *kernel, struct gemm_context *context,
                          uint32_t launches, char *text, uint64_t size);

/* The same in one launch for each of a few parts (operation->divide), one after another. */
bool device_attention_run_divided(struct device_attention *device, struct attention_sample *sample,
                                  const struct operation_kernel *kernel,
                                  struct gemm_context *context, char *text, uint64_t size);

/* The same for up to ATTENTION_GROUP_MAX of them that run as one group, on the first's stream. */
bool device_attention_run_group(struct device_attention devices[],
                                struct attention_sample samples[], uint32_t count,
                                const struct operation_kernel *kernel, struct gemm_context *context,
                                char *text, uint64_t size);

#endif
