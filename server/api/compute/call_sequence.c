#include "server/api/compute/call_sequence.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/services.h"

enum gemmd_error call_sequence_begin(struct compute_call *call, struct services *services,
                                     const union call_request *request, struct fault *fault)
{
    struct call_residents *residents = &call->residents;
    struct sequence_want want;
    call->operation->sequence.want(request, &want);
    const enum gemmd_error code =
        sequence_use_begin(services->tensors, residents->sequence, &want, &residents->use, fault);
    if (code == GEMMD_OK && (residents->use.kind != SEQUENCE_READ || residents->use.gathered))
        call->work.copies_sequence = true;
    return code;
}

/* Takes the memory into which the rows of a repeated append are read back. */
static enum gemmd_error take_read_back(struct compute_call *call, struct fault *fault)
{
    const struct call_appended *appended = &call->appended;
    call->read_back_bytes = appended->k.bytes + appended->v.bytes; /* both are in the body */
    call->read_back = pool_alloc(call->memory, call->read_back_bytes, fault);
    return call->read_back != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
}

enum gemmd_error call_sequence_bind(struct compute_call *call, union call_operands *operands,
                                    struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    const struct sequence_use *use = &call->residents.use;
    struct tensor *k = &operands->all[operation->sequence.k];
    struct tensor *v = &operands->all[operation->sequence.v];
    struct sequence_arrays arrays = {.heads_first =
                                         operation->sequence.heads_first(&call->request)};
    struct work_copy *copies;
    if (use->kind == SEQUENCE_READ && !use->gathered)
        return GEMMD_OK;
    call->appended = (struct call_appended){*k, *v};
    if (use->kind == SEQUENCE_REPEAT) {
        const enum gemmd_error code = take_read_back(call, fault);
        if (code != GEMMD_OK)
            return code;
        arrays.k = call->read_back;
        arrays.v = call->read_back + k->bytes;
    } else if (use->kind == SEQUENCE_APPEND) {
        arrays.k = (void *)(uintptr_t)k->data;
        arrays.v = (void *)(uintptr_t)v->data;
    }
    if (!sequence_use_copies(call->residents.sequence, use,
                             use->kind != SEQUENCE_READ ? &arrays : NULL, &copies,
                             &call->work.sequence_copy_count))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the list of copies");
    call->sequence_copies = copies;
    call->work.sequence_copies = copies;
    k->rank = v->rank = 0; /* the problem's keys and values are in the sequence */
    return GEMMD_OK;
}

/* Whether the rows that a repeated append names are those of the sequence. */
static bool is_same(const struct compute_call *call)
{
    const struct tensor *k = &call->appended.k, *v = &call->appended.v;
    return memcmp(call->read_back, k->data, k->bytes) == 0 &&
           memcmp(call->read_back + k->bytes, v->data, v->bytes) == 0;
}

void call_sequence_commit(struct compute_call *call, struct services *services)
{
    struct call_residents *residents = &call->residents;
    struct work *work = &call->work;
    if (residents->sequence == NULL || work->status != GEMMD_OK || work->launch_works == 0)
        return;
    if (residents->use.kind == SEQUENCE_APPEND)
        sequence_use_commit(services->tensors, residents->sequence, &residents->use);
    else if (residents->use.kind == SEQUENCE_REPEAT && !is_same(call))
        work->status = sequence_fail_repeat(&residents->use, &work->fault);
}

void call_sequence_end(struct compute_call *call)
{
    free(call->sequence_copies);
    call->sequence_copies = NULL;
    pool_free(call->memory, call->read_back, call->read_back_bytes);
    call->read_back = NULL;
}
