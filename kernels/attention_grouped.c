#include "kernels/attention_grouped.h"

#include <math.h>

enum { UNIT_FLOPS = 1000000, LENGTH_CLASSES = 40 };

uint32_t attention_group_units(const void *problem)
{
    const double units = ceil(attention_flops(problem) / UNIT_FLOPS);
    return units < 1 ? 1 : units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

struct operation_traits attention_group_traits(const void *problem)
{
    const struct attention_problem *p = problem;
    const uint64_t masks = (uint64_t)p->causal | (uint64_t)p->windowed << 1 |
                           (uint64_t)(p->softcap > 0) << 2 | (uint64_t)(p->mask != NULL) << 3;
    /* Head sizes are at most ATTENTION_WIDTH_MAX. */
    return (struct operation_traits){
        {(uint64_t)p->dtype << 40 | p->d << 24 | p->dv << 8 | masks, 0}};
}

/* A class of the number of keys that a row sees at most; the class with the most keys is 0. */
static uint32_t attention_group_length_class(const struct attention_problem *p)
{
    const uint64_t reach = p->windowed && p->causal ? p->window : p->skv;
    uint64_t keys = reach < p->skv ? reach + 1 : p->skv;
    uint32_t class = LENGTH_CLASSES - 1;
    for (; keys > 1 && class > 0; keys /= 2)
        class --;
    return class;
}

void attention_group_order(const struct operation_member members[], uint32_t count,
                           struct attention_member ordered[])
{
    uint32_t places[LENGTH_CLASSES + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        places[attention_group_length_class(members[i].problem) + 1]++;
    for (uint32_t i = 0; i < LENGTH_CLASSES; i++)
        places[i + 1] += places[i];
    for (uint32_t i = 0; i < count; i++)
        ordered[places[attention_group_length_class(members[i].problem)]++] =
            (struct attention_member){members[i].problem, members[i].workspace};
}
