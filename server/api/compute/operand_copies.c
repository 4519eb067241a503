#include "server/api/compute/operand_copies.h"

#include <string.h>

#include "proto/dtype.h"
#include "proto/size.h"
#include "server/api/services.h"

/* The alignment of the copies of operands in `scratch`. */
enum { COPY_ALIGNMENT = 64 };

/* Whether the kernel reads the operands in host memory, without a copy to the device. */
static bool is_read_in_place(const struct compute_call *call)
{
    return call->work.shared_launch ||
           device_info(call->executor->device)->backend == GEMM_BACKEND_CPU;
}

/* Takes memory for copies of operands, unless the call has as much already. */
static enum gemmd_error take_scratch(struct compute_call *call, uint64_t bytes, struct fault *fault)
{
    if (bytes <= call->scratch_bytes)
        return GEMMD_OK;
    pool_free(call->memory, call->scratch, call->scratch_bytes);
    call->scratch_bytes = bytes;
    call->scratch = pool_alloc(call->memory, bytes, fault);
    if (call->scratch == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    return GEMMD_OK;
}

/* The bytes that copies of a raw body's unaligned operands take. */
static uint64_t unaligned_bytes(const struct compute_call *call)
{
    const struct operand_layout *layout = &call->layout;
    uint64_t total = 0; /* all sizes together are below 2^64 */
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct tensor *operand = &layout->tensors[i];
        const uint64_t at = call->client_memory.operands[i] != NULL
                                ? (uintptr_t)call->client_memory.operands[i]
                                : layout->offsets[i];
        if (operand->rank == 0 || at % dtype_size(operand->dtype) == 0)
            continue;
        total += operand->bytes;
        (void)size_align(total, COPY_ALIGNMENT, &total);
    }
    return total;
}

enum gemmd_error operand_copies_open(struct compute_call *call, struct fault *fault)
{
    return is_read_in_place(call) ? take_scratch(call, unaligned_bytes(call), fault) : GEMMD_OK;
}

/* Copies to a GPU take operands of any alignment, so that only kernels that read operands in place
 * need aligned elements. */
uint32_t operand_copies_needed(const struct compute_call *call, const union call_operands *operands)
{
    const bool in_place = is_read_in_place(call);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < call->operation->operands->count; i++) {
        const struct tensor *operand = &operands->all[i];
        if (operand->rank > 0 &&
            (operand->fortran ||
             (in_place && (uintptr_t)operand->data % dtype_size(operand->dtype) != 0)))
            copies |= 1u << i;
    }
    return copies;
}

enum gemmd_error operand_copies_make(struct compute_call *call, union call_operands *operands,
                                     struct fault *fault)
{
    const uint32_t copies = operand_copies_needed(call, operands);
    const uint32_t count = call->operation->operands->count;
    uint64_t total = 0, offset = 0;
    if (copies == 0)
        return GEMMD_OK;
    for (uint32_t i = 0; i < count; i++)
        if ((copies & 1u << i) != 0 && (!size_add(total, operands->all[i].bytes, &total) ||
                                        !size_align(total, COPY_ALIGNMENT, &total)))
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the operands' size overflows");
    const enum gemmd_error code = take_scratch(call, total, fault);
    if (code != GEMMD_OK)
        return code;
    for (uint32_t i = 0; i < count; i++) {
        struct tensor *operand = &operands->all[i];
        unsigned char *copy = call->scratch + offset;
        if ((copies & 1u << i) == 0)
            continue;
        if (operand->fortran)
            tensor_copy_row_major(operand, copy);
        else
            memcpy(copy, operand->data, operand->bytes);
        operand->fortran = false;
        operand->data = copy;
        offset += operand->bytes;
        (void)size_align(offset, COPY_ALIGNMENT, &offset); /* checked above */
    }
    return GEMMD_OK;
}
