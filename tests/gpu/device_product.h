/*
 * device_product.h - a product of tests/product on the device: operands up, kernel, result down.
 */
#ifndef TESTS_GPU_DEVICE_PRODUCT_H
#define TESTS_GPU_DEVICE_PRODUCT_H

#include "kernels/operations.h"
#include "tests/product/product.h"

struct device_product {
    struct gemm_problem problem; /* with device pointers */
    void *memory[PRODUCT_PARTS];
    void *stream; /* a cudaStream_t, the caller's */
};

/* Copies the operands. `exact` leaves the guard zones of the operands on the host, so that a
 * memory checker sees the first piece of 16 bytes that is read beyond them. Prints what failed. */
bool device_product_create(struct device_product *device, const struct product *product, bool exact,
                           void *stream);
void device_product_destroy(struct device_product *device);

/* Poisons C, runs the kernel in a poisoned workspace, and copies C and what surrounds it
 * into `product`. The kernel runs in about `launches` launches (kernels/launch_cut.h), if the
 * product can be cut into so many. False with the reason in `text` if something failed or the
 * kernel wrote beyond its workspace. */
bool device_product_run(struct device_product *device, struct product *product,
                        const struct operation_kernel *kernel, struct gemm_context *context,
                        uint32_t launches, char *text, uint64_t size);

#endif
