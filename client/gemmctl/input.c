#include "client/gemmctl/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIPE_STEP = 1024 * 1024 };

static enum gemmd_error unreadable(const struct input *input, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%.128s cannot be read: %s", input->name,
                     strerror(errno));
}

static enum gemmd_error read_pipe(struct input *input, int fd, struct fault *fault)
{
    unsigned char *data = NULL;
    uint64_t room = 0, bytes = 0;
    while (true) {
        if (bytes == room) {
            room = room * 2 + PIPE_STEP;
            unsigned char *larger = realloc(data, room);
            if (larger == NULL) {
                free(data);
                return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                                 "there is no memory for the %llu bytes of %.128s",
                                 (unsigned long long)room, input->name);
            }
            data = larger;
        }
        ssize_t got = read(fd, data + bytes, room - bytes);
        if (got == 0)
            break;
        if (got > 0)
            bytes += (uint64_t)got;
        else if (errno != EINTR) {
            free(data);
            return unreadable(input, fault);
        }
    }
    input->data = data;
    input->bytes = bytes;
    return GEMMD_OK;
}

static enum gemmd_error map_file(struct input *input, int fd, uint64_t bytes, struct fault *fault)
{
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return unreadable(input, fault);
    madvise(data, bytes, MADV_SEQUENTIAL);
    input->data = data;
    input->bytes = bytes;
    input->mapped = true;
    return GEMMD_OK;
}

enum gemmd_error input_open(struct input *input, const char *path, struct fault *fault)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat about;
    *input = (struct input){.name = standard ? "standard input" : path};
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        enum gemmd_error code = unreadable(input, fault);
        if (fd >= 0 && !standard)
            close(fd);
        return code;
    }
    enum gemmd_error code;
    /* Standard input may be a file whose read position is not at the start, so it is not mapped. */
    if (S_ISREG(about.st_mode) && about.st_size > 0 && !standard)
        code = map_file(input, fd, (uint64_t)about.st_size, fault);
    else
        code = read_pipe(input, fd, fault);
    if (!standard)
        close(fd);
    return code;
}

void input_close(struct input *input)
{
    if (input->mapped)
        munmap(input->data, input->bytes);
    else
        free(input->data);
    *input = (struct input){0};
}

bool format_of_path(const char *path, enum format *format)
{
    static const struct {
        const char *suffix;
        enum format format;
    } suffixes[] = {{".npy", FORMAT_NPY},
                    {".safetensors", FORMAT_SAFETENSORS},
                    {".bin", FORMAT_RAW},
                    {".raw", FORMAT_RAW}};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t part = strlen(suffixes[i].suffix);
        if (length > part && strcmp(path + length - part, suffixes[i].suffix) == 0) {
            *format = suffixes[i].format;
            return true;
        }
    }
    return false;
}

bool format_from_name(const char *name, enum format *format)
{
    static const char *const names[] = {
        [FORMAT_RAW] = "raw", [FORMAT_NPY] = "npy", [FORMAT_SAFETENSORS] = "safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *format = (enum format)i;
            return true;
        }
    }
    return false;
}
