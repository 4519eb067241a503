#include "client/gemmctl/bench_subject.h"

#include <stdlib.h>

#include "client/gemmctl/random_operands.h"
#include "proto/size.h"

static const struct bench_operation *const operations[] = {
    &bench_product, &bench_attention, &bench_conv, &bench_reduce, &bench_softmax};

enum gemmd_error bench_subject_read(struct bench_subject *subject,
                                    const struct arguments *arguments, struct fault *fault)
{
    size_t which = 0; /* every command of bench.c is an entry of the list */
    while (operations[which]->taker != arguments->command->taker)
        which++;
    *subject = (struct bench_subject){.operation = operations[which]};
    enum gemmd_error code = subject->operation->read(subject, arguments, fault);
    bool fits = true;
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        fits =
            fits && size_add(subject->body_bytes, subject->operands[i].bytes, &subject->body_bytes);
    return code != GEMMD_OK || fits ? code
                                    : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                                                "the operands have more than 2^63 bytes");
}

enum gemmd_error bench_subject_fill(struct bench_subject *subject, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t i = 0; i < TENSOR_FILES_MAX && code == GEMMD_OK; i++)
        if (subject->operands[i].rank > 0)
            code = random_fill(&subject->operands[i], i, fault);
    if (code == GEMMD_OK)
        subject->operation->prepare(subject);
    return code;
}

void bench_subject_free(struct bench_subject *subject)
{
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        free((void *)subject->operands[i].data);
}

struct gemmd_request *bench_subject_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error)
{
    return subject->operation->submit(subject, client, out, user, error);
}

void bench_subject_print(const struct bench_subject *subject)
{
    subject->operation->print(subject);
}

void bench_subject_describe(const struct bench_subject *subject, json_t *object)
{
    json_t *members = subject->operation->describe(subject);
    json_object_update(object, members);
    json_decref(members);
}
