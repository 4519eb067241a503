/*
 * call_residents.h - the resident tensors of a request: at most two operands, such as a and b of
 * POST /gemm, or a sequence, and the result that is stored.
 *
 * A struct call_residents holds references to the tensors, so that a tensor stays in memory even if
 * its name is deleted. References to operands are held from call_residents_acquire until
 * call_residents_finish, when the work is done. The reference to the stored result is held from
 * call_residents_reserve until call_residents_close, when the request has been answered. One thread
 * at a time may use a struct call_residents.
 */
#ifndef SERVER_API_COMPUTE_CALL_RESIDENTS_H
#define SERVER_API_COMPUTE_CALL_RESIDENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"
#include "server/tensors/sequence.h"
#include "server/tensors/tensor_store.h"

/* Zeroed at first. */
struct call_residents {
    const char *tenant;              /* borrowed */
    struct resident *a, *b, *stored; /* references; NULL: the request has no such tensor */
    /* The caller owns the reference to b, and releases it after the call ends. */
    bool b_is_borrowed;
    /* Copies of a and b on the device that computes, if they lie on another; references. */
    struct resident_copy {
        struct resident *copy; /* NULL: the operand itself is used */
        bool is_new;           /* the request's work makes the copy */
    } a_copy, b_copy;
    struct resident *sequence; /* a reference; NULL: the request names no sequence */
    struct sequence_use use;   /* of the sequence (call_sequence.h) */
    const uint64_t *lengths;   /* of its layers, while the request is settled; borrowed */
};

/* A result that is to be stored; borrowed for the call. */
struct stored_result {
    const char *name;
    const struct tensor *tensor; /* type and shape */
    bool contiguous;             /* as in struct tensor_offer */
};

/* Whether the request has a resident tensor. */
static inline bool call_residents_any(const struct call_residents *residents)
{
    return residents->a != NULL || residents->b != NULL || residents->stored != NULL ||
           residents->sequence != NULL;
}

/* Acquires the resident operand that the parameter `field` names, for call_residents.a or b.
 * Errors: GEMMD_ERR_NOT_FOUND and GEMMD_ERR_FORBIDDEN, with the parameter in fault->field. */
enum gemmd_error call_residents_acquire(struct tensor_store *store, const char *field,
                                        const char *name, const char *tenant,
                                        struct resident **resident, struct fault *fault);
/* The type and shape of an operand that was acquired, and of its scales (resident_scale); NULL:
 * `resident` is NULL. */
const struct tensor *call_residents_tensor(const struct resident *resident);
const struct tensor *call_residents_scale(const struct resident *resident);
/* The bytes of the operands that would have to be copied to a device. UINT64_MAX: another request
 * is copying one of them to that device already, and a second copy would be a waste. */
uint64_t call_residents_missing(const struct call_residents *residents, uint32_t device);
/* Makes the operands available on a device: acquires their copies there, or takes memory for new
 * copies, which the work makes before it computes (first_copies). GEMMD_ERR_OUT_OF_MEMORY: there is
 * no room. */
enum gemmd_error call_residents_bring(struct call_residents *residents, struct tensor_store *store,
                                      uint32_t device, struct work *work, struct fault *fault);
/* Takes memory on a device for a result that is to be stored. */
enum gemmd_error call_residents_reserve(struct call_residents *residents,
                                        const struct stored_result *result,
                                        struct tensor_store *store, uint32_t device,
                                        struct fault *fault);
/* The operands that the computing device reads: `a` and `b`, or their copies on that device. NULL:
 * the operand is not resident. */
const struct resident *call_residents_a(const struct call_residents *residents);
const struct resident *call_residents_b(const struct call_residents *residents);
/* The number of elements from one matrix of a resident batch to the next. */
uint64_t call_residents_stride(const struct resident *resident);
/* The bytes of the resident tensors that count towards the tenant's fair share. An operand that
 * only few rows are multiplied with (`rows_on_a`, `rows_on_b`) counts with a part of its bytes,
 * because the device reads a resident operand many times as fast as one that it has to copy. */
uint64_t call_residents_work_bytes(const struct call_residents *residents, uint64_t rows_on_a,
                                   uint64_t rows_on_b);
/* Publishes the stored result under its name, after the work has succeeded. `*description` is then
 * the JSON document of the answer (201), which the caller frees. */
enum gemmd_error call_residents_publish(struct call_residents *residents,
                                        struct tensor_store *store, char **description,
                                        struct fault *fault);
/* Releases the operands, after the work is done. `copied`: the work has made the copies that
 * call_residents_bring added to it, which are kept for further requests. */
void call_residents_finish(struct call_residents *residents, struct tensor_store *store,
                           bool copied);
/* Releases the copies that call_residents_bring acquired or added to a work, and keeps the
 * operands. `copied` as for call_residents_finish. */
void call_residents_end_copies(struct call_residents *residents, struct tensor_store *store,
                               bool copied);
/* Releases the stored result, or undoes call_residents_reserve and call_residents_bring. */
void call_residents_close(struct call_residents *residents, struct tensor_store *store);

#endif
