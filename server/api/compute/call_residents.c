#include "server/api/compute/call_residents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/tensors/resident_copy.h"
#include "server/tensors/tensor_describe.h"

enum gemmd_error call_residents_acquire(struct tensor_store *store, const char *field,
                                        const char *name, const char *tenant,
                                        struct resident **resident, struct fault *fault)
{
    enum gemmd_error code = tensor_store_acquire(store, name, tenant, resident, fault);
    tensor_store_count_use(store, code == GEMMD_OK);
    if (code != GEMMD_OK)
        snprintf(fault->field, sizeof fault->field, "%s", field);
    return code;
}

const struct tensor *call_residents_tensor(const struct resident *resident)
{
    return resident != NULL ? resident_tensor(resident) : NULL;
}

const struct tensor *call_residents_scale(const struct resident *resident)
{
    return resident != NULL ? resident_scale(resident) : NULL;
}

/* The bytes of one operand that would have to be copied to a device (call_residents_missing). */
static uint64_t missing_bytes(const struct resident *resident, uint32_t device)
{
    if (resident == NULL || resident_is_on(resident, device))
        return 0;
    return resident_is_arriving(resident, device) ? UINT64_MAX : resident_memory_bytes(resident);
}

uint64_t call_residents_missing(const struct call_residents *residents, uint32_t device)
{
    const uint64_t a = missing_bytes(residents->a, device);
    const uint64_t b = missing_bytes(residents->b, device);
    return a == UINT64_MAX || b == UINT64_MAX ? UINT64_MAX : a + b;
}

/* Makes one operand available on a device: sets `here` to its copy there, unless the device has the
 * tensor itself. */
static enum gemmd_error bring(struct resident *resident, struct resident_copy *here,
                              struct tensor_store *store, uint32_t device, struct work *work,
                              struct fault *fault)
{
    if (resident_device(resident) == device)
        return GEMMD_OK;
    here->copy = tensor_store_acquire_copy(store, resident, device);
    if (here->copy != NULL)
        return GEMMD_OK;
    const enum gemmd_error code =
        tensor_store_reserve_copy(store, resident, device, &here->copy, fault);
    if (code != GEMMD_OK)
        return code;
    here->is_new = true;
    work->first_copy_count +=
        resident_copies_between(resident, here->copy, work->first_copies + work->first_copy_count);
    work->own_launch = true;
    return GEMMD_OK;
}

enum gemmd_error call_residents_bring(struct call_residents *residents, struct tensor_store *store,
                                      uint32_t device, struct work *work, struct fault *fault)
{
    work->first_copy_count = 0;
    enum gemmd_error code = GEMMD_OK;
    if (residents->a != NULL)
        code = bring(residents->a, &residents->a_copy, store, device, work, fault);
    if (code == GEMMD_OK && residents->b != NULL)
        code = bring(residents->b, &residents->b_copy, store, device, work, fault);
    return code;
}

const struct resident *call_residents_a(const struct call_residents *residents)
{
    return residents->a_copy.copy != NULL ? residents->a_copy.copy : residents->a;
}

const struct resident *call_residents_b(const struct call_residents *residents)
{
    return residents->b_copy.copy != NULL ? residents->b_copy.copy : residents->b;
}

enum gemmd_error call_residents_reserve(struct call_residents *residents,
                                        const struct stored_result *result,
                                        struct tensor_store *store, uint32_t device,
                                        struct fault *fault)
{
    const struct tensor_offer offer = {.name = result->name,
                                       .tenant = residents->tenant,
                                       .tensor = result->tensor,
                                       .contiguous = result->contiguous,
                                       .device = (int32_t)device};
    enum gemmd_error code = tensor_store_reserve(store, &offer, &residents->stored, fault);
    if (code == GEMMD_ERR_FORBIDDEN)
        snprintf(fault->field, sizeof fault->field, "store");
    return code;
}

uint64_t call_residents_stride(const struct resident *resident)
{
    const struct tensor *tensor = resident_tensor(resident);
    return tensor->dims[tensor->rank - 2] * resident_leading(resident);
}

/* The number of rows from which on the time of a product with a resident matrix is that of the
 * multiplications, and not that of reading the matrix. */
enum { ROWS_MANY = 128 };

static uint64_t work_bytes(uint64_t bytes, uint64_t rows)
{
    return rows >= ROWS_MANY ? bytes : bytes / ROWS_MANY * rows;
}

static uint64_t resident_work_bytes(const struct resident *resident, uint64_t rows)
{
    return work_bytes(resident_tensor(resident)->bytes, rows);
}

uint64_t call_residents_work_bytes(const struct call_residents *residents, uint64_t rows_on_a,
                                   uint64_t rows_on_b)
{
    uint64_t bytes = 0;
    if (residents->a != NULL)
        bytes += resident_work_bytes(residents->a, rows_on_a);
    if (residents->b != NULL)
        bytes += resident_work_bytes(residents->b, rows_on_b);
    if (residents->sequence != NULL)
        bytes += work_bytes((residents->use.position + residents->use.count) *
                                sequence_position_bytes(sequence_shape_of(residents->sequence)),
                            rows_on_a);
    if (residents->stored != NULL)
        bytes += resident_work_bytes(residents->stored, ROWS_MANY);
    return bytes;
}

enum gemmd_error call_residents_publish(struct call_residents *residents,
                                        struct tensor_store *store, char **description,
                                        struct fault *fault)
{
    static const struct tensor_condition none;
    bool replaced;
    char *text = tensor_describe(residents->stored);
    if (text == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    enum gemmd_error code = tensor_store_publish(store, residents->stored, &none, &replaced, fault);
    if (code == GEMMD_OK)
        *description = text;
    else
        free(text);
    return code;
}

static void end_copy(struct resident_copy *here, struct resident *resident,
                     struct tensor_store *store, bool copied)
{
    if (here->is_new)
        tensor_store_end_copy(store, resident, here->copy, copied);
    else
        tensor_store_release(store, here->copy);
    *here = (struct resident_copy){.copy = NULL};
}

void call_residents_end_copies(struct call_residents *residents, struct tensor_store *store,
                               bool copied)
{
    if (residents->a_copy.copy != NULL)
        end_copy(&residents->a_copy, residents->a, store, copied);
    if (residents->b_copy.copy != NULL)
        end_copy(&residents->b_copy, residents->b, store, copied);
}

void call_residents_finish(struct call_residents *residents, struct tensor_store *store,
                           bool copied)
{
    call_residents_end_copies(residents, store, copied);
    if (residents->a != NULL)
        tensor_store_release(store, residents->a);
    if (residents->b != NULL && !residents->b_is_borrowed)
        tensor_store_release(store, residents->b);
    residents->a = residents->b = NULL;
    if (residents->sequence != NULL) {
        sequence_use_end(store, residents->sequence, &residents->use);
        tensor_store_release(store, residents->sequence);
    }
    residents->sequence = NULL;
}

void call_residents_close(struct call_residents *residents, struct tensor_store *store)
{
    call_residents_end_copies(residents, store, false);
    if (residents->sequence != NULL)
        sequence_use_end(store, residents->sequence, &residents->use);
    if (residents->stored != NULL)
        tensor_store_release(store, residents->stored);
    residents->stored = NULL;
}
