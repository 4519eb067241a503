#include "server/base/option_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum gemmd_error unreadable(const struct option_file *file, int error, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_IO, file->option, "%.120s cannot be read: %s (--%s)",
                     file->path, strerror(error), file->option);
}

static enum gemmd_error check_status(const struct option_file *file, const struct stat *status,
                                     struct fault *fault)
{
    if (S_ISDIR(status->st_mode))
        return fault_set(fault, GEMMD_ERR_IO, file->option, "%.120s is a directory (--%s)",
                         file->path, file->option);
    if (!S_ISREG(status->st_mode) && !file->may_wait)
        return fault_set(fault, GEMMD_ERR_IO, file->option, "%.120s is not a regular file (--%s)",
                         file->path, file->option);
    if (file->is_private && (status->st_mode & (S_IROTH | S_IWOTH)) != 0)
        return fault_set(fault, GEMMD_ERR_USAGE, file->option,
                         "--%s %.120s can be %s by every user of this host; chmod it to 0640 or "
                         "0600",
                         file->option, file->path, status->st_mode & S_IWOTH ? "written" : "read");
    return GEMMD_OK;
}

/* Opens the file, and closes it again if it is of the wrong kind. */
static enum gemmd_error open_file(const struct option_file *file, int *out, struct fault *fault)
{
    struct stat status;
    const int fd =
        open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (file->may_wait ? 0 : O_NONBLOCK));
    if (fd < 0)
        return unreadable(file, errno, fault);
    const enum gemmd_error code = fstat(fd, &status) != 0 ? unreadable(file, errno, fault)
                                                          : check_status(file, &status, fault);
    if (code != GEMMD_OK)
        close(fd);
    else
        *out = fd;
    return code;
}

enum gemmd_error option_file_check(const struct option_file *file, struct fault *fault)
{
    int fd = -1;
    const enum gemmd_error code = open_file(file, &fd, fault);
    if (code == GEMMD_OK)
        close(fd);
    return code;
}

enum gemmd_error option_file_read(const struct option_file *file, struct option_text *text,
                                  struct fault *fault)
{
    /* One byte more than may be read tells a file that is too long, and is the zero byte else. */
    enum { ROOM = OPTION_FILE_BYTES_MAX + 1 };
    int fd = -1;
    ssize_t got = 1;
    *text = (struct option_text){.bytes = NULL};
    enum gemmd_error code = open_file(file, &fd, fault);
    if (code != GEMMD_OK)
        return code;
    text->bytes = malloc(ROOM);
    if (text->bytes == NULL) {
        code = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, file->option, "no memory for %.120s",
                         file->path);
        goto close_file;
    }
    while (text->length < ROOM &&
           ((got = read(fd, text->bytes + text->length, ROOM - text->length)) > 0 ||
            (got < 0 && errno == EINTR)))
        text->length += got > 0 ? (size_t)got : 0;
    if (got < 0)
        code = unreadable(file, errno, fault);
    else if (text->length == ROOM)
        code = fault_set(fault, GEMMD_ERR_USAGE, file->option, "%.120s is longer than 1 MiB (--%s)",
                         file->path, file->option);
    if (code == GEMMD_OK)
        text->bytes[text->length] = '\0';
    else
        option_text_free(text);

close_file:
    close(fd);
    return code;
}

void option_text_free(struct option_text *text)
{
    if (text->bytes != NULL)
        explicit_bzero(text->bytes, text->length);
    free(text->bytes);
    *text = (struct option_text){.bytes = NULL};
}

char *option_text_line(struct option_text *text, size_t *length)
{
    if (text->read_so_far == text->length)
        return NULL;
    char *line = text->bytes + text->read_so_far;
    const size_t left = text->length - text->read_so_far;
    const char *end = memchr(line, '\n', left);
    *length = end != NULL ? (size_t)(end - line) : left;
    text->read_so_far += end != NULL ? *length + 1 : *length;
    while (*length > 0 && line[*length - 1] == '\r')
        (*length)--;
    line[*length] = '\0';
    return line;
}
