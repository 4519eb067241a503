/* input.h - the pieces of a harness's input, each in heap memory of exactly its length, so that
 * AddressSanitizer notices a read past the end. The caller frees each piece. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* The part of the input that has not been taken yet. */
struct fuzz_input {
    const uint8_t *bytes; /* borrowed */
    size_t length;
};

/* Takes one byte; 0 at the end of the input. */
uint8_t input_byte(struct fuzz_input *input);
/* Takes everything up to the next `mark`, and the mark, as a terminated text that ends at its first
 * zero byte. Takes the whole rest if there is no mark. */
char *input_text(struct fuzz_input *input, char mark);
/* Takes the first `length` bytes, or the whole rest if that is shorter; `*taken` is the number. */
uint8_t *input_take(struct fuzz_input *input, size_t length, size_t *taken);

/* A file in memory that holds the bytes and that only its owner may read. Returns its descriptor,
 * which the caller closes, and writes a path that opens the file. */
enum { INPUT_PATH_MAX = 32 };
int input_file(const uint8_t *bytes, size_t length, char path[INPUT_PATH_MAX]);

#endif
