/*
 * compute.h - what asking for a product and asking for an attention have in common: a POST with
 * the operands as its body, whose answer is the result or the id of a job.
 */
#ifndef CLIENT_COMPUTE_H
#define CLIENT_COMPUTE_H

#include "client/client.h"
#include "proto/operands.h"
#include "proto/tensor.h"

/* A request whose answer is a result as request->expected describes it, with tensors beside it
 * (`tensors`: it comes as a safetensors file, see unpack.h) or not. */
const struct operation *compute_operation(bool job, bool tensors);

/* `accept` of an answer to what was handed in as a job. A daemon that takes no jobs answers with
 * the result instead (RFC 7240). */
enum gemmd_error compute_accept_taken(struct gemmd_request *request, const struct answer *answer);

/* An operand is either in memory or a resident tensor, of which `data` and `tensor` are NULL where
 * it is not. GEMMD_ERR_USAGE with the name of the operand if it is neither, or both. */
enum gemmd_error compute_check_operand(const char *name, const void *data, const char *tensor,
                                       struct gemmd_error_info *error);
/* Makes the body of the operands that are not NULL, in the table's order; `asked` is the table's
 * request. GEMMD_ERR_USAGE, with that field, if they are too much. */
enum gemmd_error compute_write_body(struct gemmd_request *request,
                                    const struct operand_table *table, const void *asked,
                                    const void *const operands[OPERAND_TABLE_MAX],
                                    const char *field, struct gemmd_error_info *error);
/* Sets request->expected. GEMMD_ERR_USAGE, with the field `name`, if there is a buffer and it has
 * too little room. */
enum gemmd_error compute_expect(struct gemmd_request *request, const struct tensor *result,
                                const void *buffer, uint64_t room, const char *name,
                                struct gemmd_error_info *error);

#endif
