/*
 * call_residents.h - the resident tensors of a POST /gemm, its a=, b= and store=, or of a
 * POST /attention, its k= and v=.
 *
 * They are in use from call_residents_acquire or call_residents_reserve on, so that they stay
 * whatever becomes of their names; the operands until the work is over (call_residents_finish), the
 * stored result until the answer is made (call_residents_close). One thread at a time.
 */
#ifndef SERVER_API_COMPUTE_CALL_RESIDENTS_H
#define SERVER_API_COMPUTE_CALL_RESIDENTS_H

#include <stdint.h>

#include "proto/attention_request.h"
#include "proto/gemm_request.h"
#include "server/device/work.h"
#include "server/tensors/tensor_store.h"

struct pool_cache;

/* All zero at first. */
struct call_residents {
    const char *tenant;              /* borrowed */
    struct resident *a, *b, *stored; /* NULL: there is none */
    unsigned char *mirror;           /* pinned: copies of them for the check on the host */
    uint64_t mirror_bytes;
};

/* Finds the operands that the parameters name and settles the request with them
 * (gemm_request_settle_residents). GEMMD_ERR_NOT_FOUND and GEMMD_ERR_FORBIDDEN name the parameter.
 */
enum gemmd_error call_residents_acquire(struct call_residents *residents,
                                        struct gemm_request *request, struct tensor_store *store,
                                        const char *tenant, struct fault *fault);
/* The same of an attention's K and V, which are its a and b. */
enum gemmd_error call_residents_acquire_kv(struct call_residents *residents,
                                           struct attention_request *request,
                                           struct tensor_store *store, const char *tenant,
                                           struct fault *fault);
/* Takes memory for the result, `c` by type and shape, under the request's `store`. */
enum gemmd_error call_residents_reserve(struct call_residents *residents,
                                        const struct gemm_request *request, const struct tensor *c,
                                        struct tensor_store *store, struct fault *fault);
/* Points the problem at what there is, with the distances between rows that it has. */
void call_residents_place(const struct call_residents *residents, struct gemm_problem *problem);
/* Their bytes as a tenant's share counts them: the result's, and those of operands; of an operand
 * with which few rows are multiplied (`rows_on_a`, `rows_on_b`) a part, since the device reads it
 * where it is, many times as fast as it could be brought. */
uint64_t call_residents_work_bytes(const struct call_residents *residents, uint64_t rows_on_a,
                                   uint64_t rows_on_b);
/* Makes the work bring copies of them to the host, which cannot read the device's memory, for the
 * check. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error call_residents_mirror(struct call_residents *residents, struct work *work,
                                       struct pool_cache *memory, struct fault *fault);
/* Undoes call_residents_reserve and call_residents_mirror. */
void call_residents_undo(struct call_residents *residents, struct work *work,
                         struct tensor_store *store, struct pool_cache *memory);
/* The result is there: gives it its name. `*description` is the JSON to answer with (201), for the
 * caller to free. */
enum gemmd_error call_residents_publish(struct call_residents *residents,
                                        struct tensor_store *store, char **description,
                                        struct fault *fault);
void call_residents_finish(struct call_residents *residents, struct tensor_store *store,
                           struct pool_cache *memory);
void call_residents_close(struct call_residents *residents, struct tensor_store *store);

#endif
