#include "input.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

uint8_t input_byte(struct fuzz_input *input)
{
    if (input->length == 0)
        return 0;
    input->length--;
    return *input->bytes++;
}

uint8_t *input_take(struct fuzz_input *input, size_t length, size_t *taken)
{
    *taken = length < input->length ? length : input->length;
    uint8_t *copy = malloc(*taken > 0 ? *taken : 1);
    MUST(copy != NULL);
    memcpy(copy, input->bytes, *taken);
    input->bytes += *taken;
    input->length -= *taken;
    return copy;
}

char *input_text(struct fuzz_input *input, char mark)
{
    const uint8_t *end = input->length > 0 ? memchr(input->bytes, mark, input->length) : NULL;
    const size_t length = end == NULL ? input->length : (size_t)(end - input->bytes);
    const size_t text_length = length > 0 ? strnlen((const char *)input->bytes, length) : 0;
    char *copy = malloc(text_length + 1);
    MUST(copy != NULL);
    memcpy(copy, input->bytes, text_length);
    copy[text_length] = '\0';
    input->bytes += length + (end != NULL);
    input->length -= length + (end != NULL);
    return copy;
}

int input_file(const uint8_t *bytes, size_t length, char path[INPUT_PATH_MAX])
{
    const int fd = memfd_create("input", MFD_CLOEXEC);
    MUST(fd >= 0 && fchmod(fd, 0600) == 0);
    MUST(write(fd, bytes, length) == (ssize_t)length && lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, INPUT_PATH_MAX, "/proc/self/fd/%d", fd);
    return fd;
}
