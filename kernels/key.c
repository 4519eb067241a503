#include "kernels/key.h"

/* Multiplicative hashing: each word is mixed in, multiplied and folded. */
uint64_t key_of_words(const uint64_t *words, uint32_t count)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < count; i++) {
        key = (key ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
        key ^= key >> 32;
    }
    return key != 0 ? key : 1;
}
