/*
 * replay.c - runs a harness over a corpus and over mutations of it, the same every time.
 *
 *   fuzz_x CORPUS_DIRECTORY MUTATIONS
 *
 * The files of the corpus share the mutations evenly; each has at least one.
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

enum { INPUT_MAX = 16384 };

struct input {
    uint8_t bytes[INPUT_MAX];
    size_t length;
};

/* xorshift64 (G. Marsaglia, 2003): the state is the only randomness there is. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t below(uint64_t *state, size_t bound)
{
    return (size_t)(next(state) % bound);
}

/* Puts `count` bytes in at `place`, as far as there is room. */
static void insert(struct input *input, size_t place, const void *bytes, size_t count)
{
    if (count > INPUT_MAX - input->length)
        return;
    memmove(input->bytes + place + count, input->bytes + place, input->length - place);
    memmove(input->bytes + place, bytes, count);
    input->length += count;
}

/* One change of the kind that finds faults in parsers: bits, numbers, brackets, lengths. */
static void mutate(struct input *input, uint64_t *state)
{
    static const char *const words[] = {"0",
                                        "-1",
                                        "4294967296",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "1e999",
                                        "nan",
                                        "{",
                                        "[",
                                        "(",
                                        "}",
                                        "]",
                                        ")",
                                        "\"",
                                        "'",
                                        "\\",
                                        ",",
                                        ":",
                                        "=",
                                        "&",
                                        "None",
                                        "%00",
                                        "\xFF",
                                        "\xED\xA0\x80"};
    size_t place = input->length > 0 ? below(state, input->length) : 0;
    if (input->length == 0) {
        insert(input, 0, "\0", 1);
        return;
    }
    switch (below(state, 6)) {
    case 0:
        input->bytes[place] ^= (uint8_t)(1u << below(state, 8));
        break;
    case 1:
        input->bytes[place] = (uint8_t)next(state);
        break;
    case 2: { /* a number of digits or brackets */
        const char *word = words[below(state, sizeof words / sizeof words[0])];
        insert(input, place, word, strlen(word));
        break;
    }
    case 3: { /* cut a piece out */
        size_t count = 1 + below(state, input->length - place);
        memmove(input->bytes + place, input->bytes + place + count, input->length - place - count);
        input->length -= count;
        break;
    }
    case 4: { /* a piece twice */
        uint8_t piece[64];
        size_t count = 1 + below(state, input->length - place);
        count = count < sizeof piece ? count : sizeof piece;
        memcpy(piece, input->bytes + place, count);
        insert(input, below(state, input->length), piece, count);
        break;
    }
    default: /* cut the end off */
        input->length = place;
        break;
    }
}

/* In memory of exactly its length, so that a sanitizer sees any read past the end. */
static void run(const struct input *input)
{
    uint8_t *exact = malloc(input->length > 0 ? input->length : 1);
    MUST(exact != NULL);
    memcpy(exact, input->bytes, input->length);
    LLVMFuzzerTestOneInput(exact, input->length);
    free(exact);
}

static void replay(const char *path, unsigned long mutations)
{
    static struct input seed, input;
    FILE *file = fopen(path, "rb");
    MUST(file != NULL);
    seed.length = fread(seed.bytes, 1, sizeof seed.bytes, file);
    fclose(file);
    run(&seed);
    uint64_t state = 88172645463325252u;
    for (unsigned long i = 0; i < mutations; i++) {
        input.length = seed.length;
        memcpy(input.bytes, seed.bytes, seed.length);
        for (size_t changes = 1 + below(&state, 4); changes > 0; changes--)
            mutate(&input, &state);
        run(&input);
    }
}

int main(int argc, char *argv[])
{
    struct dirent **names;
    if (argc != 3) {
        fprintf(stderr, "usage: %s CORPUS_DIRECTORY MUTATIONS\n", argv[0]);
        return EXIT_FAILURE;
    }
    int count = scandir(argv[1], &names, NULL, alphasort), files = 0;
    MUST(count >= 0);
    const unsigned long mutations = strtoul(argv[2], NULL, 10) / (unsigned long)(count + 1) + 1;
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        if (names[i]->d_name[0] != '.') {
            replay(path, mutations);
            files++;
        }
        free(names[i]);
    }
    free(names);
    MUST(files > 0);
    printf("%d files, each with %lu mutations\n", files, mutations);
    return EXIT_SUCCESS;
}
