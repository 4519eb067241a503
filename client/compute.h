/*
 * compute.h - the common part of requests for products and other operations: a POST whose body is
 * the operands, and whose answer is the result or the id of a job.
 */
#ifndef CLIENT_COMPUTE_H
#define CLIENT_COMPUTE_H

#include "client/client.h"
#include "proto/operands.h"
#include "proto/tensor.h"

/* A request for an operation. The strings are borrowed. */
struct compute {
    struct gemmd_call call; /* for a job, timeout_ms is the job's deadline */
    bool job;               /* hand the request in as a job */
    bool tensors;           /* the answer is a safetensors file (payload.h) */
    const char *store;      /* name under which the result is stored; NULL: the answer has it */
    const char *result; /* name of the result if it lies in shared memory; NULL: it never does */
    /* Writes the target, the body and the expected result of the public structure `asked`. Returns
     * GEMMD_OK, or an error code with `error` filled in. */
    enum gemmd_error (*write)(struct gemmd_request *request, const void *asked,
                              struct gemmd_error_info *error);
};

/* Makes and submits a request. Returns NULL with `error` filled in on failure. */
struct gemmd_request *compute_submit(struct gemmd_client *client, const struct compute *compute,
                                     const void *asked, struct gemmd_error_info *error);

/* Checks that an operand is either in memory (`data`) or a resident tensor (`tensor`, its name).
 * GEMMD_ERR_USAGE, with the operand's name as the field, if neither or both are set. */
enum gemmd_error compute_check_operand(const char *name, const void *data, const char *tensor,
                                       struct gemmd_error_info *error);
/* Makes the request's body of the operands that are not NULL, in the table's order; `asked` is the
 * table's request. GEMMD_ERR_USAGE, with the field `field`, if the body would be too large. */
enum gemmd_error compute_write_body(struct gemmd_request *request,
                                    const struct operand_table *table, const void *asked,
                                    const void *const operands[OPERAND_TABLE_MAX],
                                    const char *field, struct gemmd_error_info *error);
/* Sets request->expected to the shape, type and length of `result`. GEMMD_ERR_USAGE, with the field
 * `name`, if `buffer` is not NULL and its `room` bytes are too few. */
enum gemmd_error compute_expect(struct gemmd_request *request, const struct tensor *result,
                                const void *buffer, uint64_t room, const char *name,
                                struct gemmd_error_info *error);

/* A `conclude` of struct exchange: fills in type, shape and entity tag of the tensor, and the
 * effect of the request (enum gemmd_put), in `answer`. GEMMD_ERR_PROTOCOL if neither the request
 * nor the document has the shape. */
enum gemmd_error compute_conclude_stored(struct gemmd_request *request, struct answer *answer,
                                         const char *document, size_t bytes);

#endif
