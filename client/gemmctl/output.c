#include "client/gemmctl/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/size.h"

static enum gemmd_error unwritable(const struct output *output, int number, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_IO, NULL, "%.128s cannot be written: %s", output->name,
                     strerror(number));
}

static uint32_t write_header(enum format format, const struct safetensors_entry *entries,
                             uint32_t count, char out[SAFETENSORS_HEADER_MAX])
{
    switch (format) {
    case FORMAT_NPY:
        return npy_header(&entries[0].tensor, out);
    case FORMAT_SAFETENSORS:
        return safetensors_header(entries, count, out);
    case FORMAT_RAW:
        break;
    }
    return 0;
}

/* Returns the mode of the file that is replaced, or the mode of a new file. */
static mode_t mode_for(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return about.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static enum gemmd_error open_temporary(struct output *output, const char *path, struct fault *fault)
{
    /* If `path` is a symbolic link, the link stays, and the file that it names is replaced. */
    output->path = realpath(path, NULL);
    if (output->path == NULL)
        output->path = strdup(path);
    if (output->path == NULL || asprintf(&output->temporary, "%s.XXXXXX", output->path) < 0) {
        output->temporary = NULL;
        return unwritable(output, ENOMEM, fault);
    }
    output->fd = mkostemp(output->temporary, O_CLOEXEC);
    if (output->fd < 0) {
        int number = errno;
        free(output->temporary);
        output->temporary = NULL;
        return unwritable(output, number, fault);
    }
    if (fchmod(output->fd, mode_for(output->path)) != 0)
        return unwritable(output, errno, fault);
    /* The space is reserved now, so that a full disk is an error here and not a SIGBUS later. */
    int number = posix_fallocate(output->fd, 0, (off_t)output->bytes);
    if (number != 0)
        return unwritable(output, number, fault);
    void *data = mmap(NULL, output->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, output->fd, 0);
    if (data == MAP_FAILED)
        return unwritable(output, errno, fault);
    output->data = data;
    output->mapped = true;
    return GEMMD_OK;
}

static enum gemmd_error open_stream(struct output *output, const char *path, struct fault *fault)
{
    output->fd = strcmp(path, "-") == 0 ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CLOEXEC);
    if (output->fd < 0)
        return unwritable(output, errno, fault);
    output->data = malloc(output->bytes);
    return output->data != NULL ? GEMMD_OK : unwritable(output, ENOMEM, fault);
}

/* Opens a file that begins with a header and has room for `bytes` more. */
static enum gemmd_error open_bytes(struct output *output, const char *path, const char *header,
                                   uint64_t header_bytes, uint64_t bytes, struct fault *fault)
{
    struct stat about;
    bool standard = strcmp(path, "-") == 0;
    *output = (struct output){
        .name = standard ? "standard output" : path, .fd = -1, .header_bytes = header_bytes};
    if (!size_add(header_bytes, bytes, &output->bytes) || output->bytes > INT64_MAX)
        return unwritable(output, EFBIG, fault);
    bool renames = !standard && (stat(path, &about) != 0 || S_ISREG(about.st_mode));
    enum gemmd_error code =
        renames ? open_temporary(output, path, fault) : open_stream(output, path, fault);
    if (code == GEMMD_OK)
        memcpy(output->data, header, header_bytes);
    return code;
}

/* Opens a file of one array, or a safetensors file of several. */
static enum gemmd_error open_entries(struct output *output, const char *path, enum format format,
                                     const struct safetensors_entry *entries, uint32_t count,
                                     struct fault *fault)
{
    char header[SAFETENSORS_HEADER_MAX];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!size_add(bytes, entries[i].tensor.bytes, &bytes))
            bytes = UINT64_MAX; /* open_bytes refuses the sum */
    return open_bytes(output, path, header, write_header(format, entries, count, header), bytes,
                      fault);
}

enum gemmd_error output_open_text(struct output *output, const char *path, const char *text,
                                  uint64_t bytes, struct fault *fault)
{
    return open_bytes(output, path, text, bytes, 0, fault);
}

enum gemmd_error output_open(struct output *output, const char *path, enum format format,
                             const char *tensor_name, const struct tensor *result,
                             struct fault *fault)
{
    struct safetensors_entry entry = {.tensor = *result};
    snprintf(entry.name, sizeof entry.name, "%s", tensor_name);
    return open_entries(output, path, format, &entry, 1, fault);
}

enum gemmd_error output_open_scaled(struct output *output, const char *path,
                                    const struct tensor *scale, const struct tensor *tensor,
                                    struct fault *fault)
{
    /* The scales come first, so that both are aligned to their elements. */
    const struct safetensors_entry entries[] = {{.name = "scale", .tensor = *scale},
                                                {.name = "tensor", .tensor = *tensor}};
    return open_entries(output, path, FORMAT_SAFETENSORS, entries, 2, fault);
}

void *output_data(struct output *output)
{
    return output->data + output->header_bytes;
}

static enum gemmd_error write_all(struct output *output, struct fault *fault)
{
    for (uint64_t done = 0; done < output->bytes;) {
        ssize_t written = write(output->fd, output->data + done, output->bytes - done);
        if (written >= 0)
            done += (uint64_t)written;
        else if (errno != EINTR)
            return unwritable(output, errno, fault);
    }
    return GEMMD_OK;
}

enum gemmd_error output_commit(struct output *output, struct fault *fault)
{
    if (!output->mapped)
        return write_all(output, fault);
    if (rename(output->temporary, output->path) != 0)
        return unwritable(output, errno, fault);
    free(output->temporary);
    output->temporary = NULL;
    return GEMMD_OK;
}

void output_close(struct output *output)
{
    if (output->mapped)
        munmap(output->data, output->bytes);
    else
        free(output->data);
    if (output->temporary != NULL)
        unlink(output->temporary);
    if (output->fd >= 0)
        close(output->fd);
    free(output->temporary);
    free(output->path);
}
