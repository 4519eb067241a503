/* The properties of an operation's problem, which do not depend on the kernel. */
#include <string.h>

#include "kernels/operation.h"

/* Multiplicative hashing: each word is mixed in, multiplied and folded. */
uint64_t operation_hash(const uint64_t *words, uint32_t count)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < count; i++) {
        key = (key ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
        key ^= key >> 32;
    }
    return key != 0 ? key : 1;
}

bool operation_is_small(const struct operation *operation, const struct operation_kernel *kernel,
                        const void *problem)
{
    return operation->is_small != NULL && kernel->run_group != NULL && operation->is_small(problem);
}

uint32_t operation_group_units(const struct operation *operation, const void *problem)
{
    return operation->group_units != NULL ? operation->group_units(problem) : 1;
}

bool operation_can_group(const struct operation *operation, const struct operation_kernel *kernel,
                         const void *problem)
{
    return operation->group_traits != NULL && kernel->run_group != NULL &&
           operation_group_units(operation, problem) <= kernel->group_units;
}

bool operation_same_group(const struct operation *operation, const struct operation_kernel *kernel,
                          const void *problem, const struct operation_kernel *other_kernel,
                          const void *other)
{
    if (kernel != other_kernel)
        return false;
    const struct operation_traits one = operation->group_traits(problem),
                                  two = operation->group_traits(other);
    return memcmp(&one, &two, sizeof one) == 0;
}

uint64_t operation_group_key(const struct operation *operation,
                             const struct operation_kernel *kernel, const void *problem)
{
    const struct operation_traits traits = operation->group_traits(problem);
    const uint64_t words[] = {(uintptr_t)kernel, traits.words[0], traits.words[1]};
    return operation_hash(words, sizeof words / sizeof words[0]);
}

bool operation_parts(const struct operation *operation, const void *problem,
                     struct operation_part parts[OPERATION_PARTS_MAX])
{
    memset(parts, 0, OPERATION_PARTS_MAX * sizeof parts[0]);
    return operation->parts(problem, parts);
}

void *operation_pointer(const struct operation *operation, const void *problem, uint32_t part)
{
    void *pointer;
    memcpy(&pointer, (const char *)problem + operation->fields[part], sizeof pointer);
    return pointer;
}

void operation_point(const struct operation *operation, void *problem, uint32_t part, void *to)
{
    memcpy((char *)problem + operation->fields[part], &to, sizeof to);
}

bool operation_no_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
}
