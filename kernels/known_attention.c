#include "kernels/known_attention.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/known_answer.h"
#include "proto/dtype.h"

/* There are fewer keys than D, the number of orthogonal rows. The queries of both heads are few
 * enough for kernels that take only few queries. */
enum { BATCH = 2, HEADS = 2, SQ = 16, SKV = 36, D = 64 };
enum {
    Q_BYTES = BATCH * HEADS * SQ * D * 8,
    K_BYTES = BATCH * SKV * D * 8
}; /* in f64, the widest type */

static int key_at(int key, int column)
{
    return __builtin_parity((unsigned)(key & column)) ? -1 : 1;
}

static int value_at(int entry, int key, int column)
{
    return (3 * key + 7 * column + key * column + entry) % 5 - 2;
}

/* The last key that a causal mask lets a query see. */
static int last_key(int query)
{
    return query + SKV - SQ;
}

/* The key that a query equals. */
static int matching_key(int entry, int head, int query)
{
    return (7 * query + 5 * head + 11 * entry + 3) % (last_key(query) + 1);
}

static int query_at(int entry, int head, int query, int column, bool causal)
{
    const int hidden = last_key(query) + 1 + query % 3;
    int value = key_at(matching_key(entry, head, query), column);
    if (causal && hidden < SKV)
        value += 2 * key_at(hidden, column);
    return value;
}

void known_attention_init(struct attention_problem *problem, enum gemmd_dtype dtype, bool causal,
                          void *memory)
{
    unsigned char *q = memory, *k = q + Q_BYTES, *v = k + K_BYTES, *o = v + K_BYTES;
    const uint64_t size = dtype_size(dtype);
    _Static_assert(2 * Q_BYTES + 2 * K_BYTES <= KNOWN_ATTENTION_BYTES, "operands and result fit");
    _Static_assert(Q_BYTES % 256 == 0 && K_BYTES % 256 == 0, "every part is aligned");

    *problem = (struct attention_problem){
        .dtype = dtype,
        .batch = BATCH,
        .heads = HEADS,
        .kv_heads = 1,
        .sq = SQ,
        .skv = SKV,
        .d = D,
        .dv = D,
        .causal = causal,
        .scale = 8, /* exp of minus 8 * 64 is 0 in f32 */
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .q_strides = attention_strides(ATTENTION_BHSD, HEADS, SQ, D),
        .k_strides = attention_strides(ATTENTION_BHSD, 1, SKV, D),
        .v_strides = attention_strides(ATTENTION_BHSD, 1, SKV, D),
        .o_strides = attention_strides(ATTENTION_BHSD, HEADS, SQ, D),
    };
    for (int i = 0; i < BATCH * HEADS * SQ * D; i++)
        known_answer_store(
            q + (uint64_t)i * size,
            query_at(i / D / SQ / HEADS, i / D / SQ % HEADS, i / D % SQ, i % D, causal), dtype);
    for (int i = 0; i < BATCH * SKV * D; i++) {
        known_answer_store(k + (uint64_t)i * size, key_at(i / D % SKV, i % D), dtype);
        known_answer_store(v + (uint64_t)i * size, value_at(i / D / SKV, i / D % SKV, i % D),
                           dtype);
    }
    memset(o, 0xff, BATCH * HEADS * SQ * D * size);
}

/* A kernel divides by a sum of weights that is only nearly 1, so that an element comes only close
 * to the integer. */
static bool is_close(double value, int expected)
{
    return fabs(value - expected) <= 0x1p-10;
}

bool known_attention_check(const void *of, uint64_t *row, uint64_t *column)
{
    const struct attention_problem *problem = of;
    const uint64_t size = dtype_size(problem->dtype);
    for (int i = 0; i < BATCH * HEADS * SQ * D; i++) {
        const int entry = i / D / SQ / HEADS, head = i / D / SQ % HEADS, query = i / D % SQ;
        double value;
        convert_to_f64(problem->dtype, (const char *)problem->o + (uint64_t)i * size, &value, 1);
        if (!is_close(value, value_at(entry, matching_key(entry, head, query), i % D))) {
            *row = (uint64_t)(i / D);
            *column = (uint64_t)(i % D);
            return false;
        }
    }
    return true;
}
