/*
 * operand_copies.h - copies on the host of operands that the device cannot use where they lie.
 *
 * Two kinds of operands are copied: batches and C0 in column-major order, and operands whose
 * elements are not aligned, if the kernel reads operands in place. The copies lie in call->scratch,
 * which compute_call_finish frees. All functions run on the thread that uses the call.
 */
#ifndef SERVER_API_COMPUTE_OPERAND_COPIES_H
#define SERVER_API_COMPUTE_OPERAND_COPIES_H

#include <stdint.h>

#include "server/api/compute/compute_call.h"

/* Takes the memory for the copies of a raw body's operands at the request's headers, where the
 * layout is known. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error operand_copies_open(struct compute_call *call, struct fault *fault);
/* The operands that must be copied: bit i for operand i. */
uint32_t operand_copies_needed(const struct compute_call *call,
                               const union call_operands *operands);
/* Copies the operands that must be copied, and points their data at the copies.
 * GEMMD_ERR_OUT_OF_MEMORY or GEMMD_ERR_TOO_LARGE. */
enum gemmd_error operand_copies_make(struct compute_call *call, union call_operands *operands,
                                     struct fault *fault);

#endif
