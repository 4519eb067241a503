#include "tests/bench/tile_name.h"

#include <stdlib.h>
#include <string.h>

/* Reads two numbers with an x between them. Returns the end, or NULL if there are none. */
static const char *read_pair(const char *text, uint32_t *first, uint32_t *second)
{
    char *end;
    *first = (uint32_t)strtoul(text, &end, 10);
    if (end == text || *end != 'x')
        return NULL;
    text = end + 1;
    *second = (uint32_t)strtoul(text, &end, 10);
    return end == text ? NULL : end;
}

static bool is_word(const char *word, size_t length, const char *other)
{
    return length == strlen(other) && memcmp(word, other, length) == 0;
}

/* The words of a name after its sizes. False: another word is there. */
static bool read_words(const char *word, struct sm90_kernel *kernel)
{
    while (*word == '_') {
        const size_t length = strcspn(++word, "_");
        if (is_word(word, length, "pp"))
            kernel->pingpong = true;
        else if (is_word(word, length, "chunks"))
            kernel->chunks = true;
        else if (is_word(word, length, "split"))
            kernel->chunks = kernel->split = true;
        else if (is_word(word, length, "swapped"))
            kernel->swapped = true;
        else if (read_pair(word, &kernel->cluster_m, &kernel->cluster_n) != word + length)
            return false;
        word += length;
    }
    return *word == '\0';
}

bool bench_tile_of(const char *name, enum gemmd_dtype dtype, struct sm90_kernel *kernel)
{
    enum { K_BYTES = 128, ROWS = 64 }; /* of a step of k, and of a wgmma */
    *kernel = (struct sm90_kernel){.name = name, .cluster_m = 1, .cluster_n = 1};
    const char *words = read_pair(name, &kernel->tile_m, &kernel->tile_n);
    if (words == NULL || !read_words(words, kernel))
        return false;
    const uint32_t left = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    if (left == 0 || left % ROWS != 0)
        return false;
    kernel->tile_k = K_BYTES / (uint32_t)dtype_size(dtype);
    kernel->consumers = left == 3 * ROWS ? 3 : left == ROWS ? 1 : 2;
    /* HALF_BOX and HALVES of gemm.cuh. The kernels of f8 add chains of products. */
    kernel->half_box = kernel->tile_n % 64 != 0 && kernel->tile_m < 256;
    const uint32_t rows = kernel->pingpong ? left : left / kernel->consumers;
    kernel->halves = rows == 2 * ROWS && kernel->cluster_m * kernel->cluster_n == 1 &&
                     !kernel->swapped && !kernel->chunks && dtype != GEMMD_F8_E4M3;
    return true;
}
