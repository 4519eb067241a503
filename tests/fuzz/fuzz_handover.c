/* The handover between two daemons: the description of the sockets in the environment, a zero byte,
 * and what the new process says, which is text. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "input.h"
#include "server/base/inherited_sockets.h"
#include "server/net/handover.h"

static void check_sockets(const char *value)
{
    setenv(INHERITED_VARIABLE, value, 1);
    const uint32_t count = inherited_sockets();
    uint32_t of_manager = 0, lines = 0;
    const char *line = strchr(value, '\n');
    MUST(inherited_news_fd() >= -1);
    for (; line != NULL; line = strchr(line + 1, '\n')) {
        const size_t length = strcspn(line + 1, "\n");
        char *address = strndup(line + 1, length);
        MUST(address != NULL && inherited_is_for(lines, address));
        of_manager += length == 0;
        free(address);
        lines++;
    }
    if (lines > 0) {
        MUST(count == lines && inherited_manager_sockets() == of_manager);
        MUST(!inherited_is_for(count, "127.0.0.1:1"));
    }
    unsetenv(INHERITED_VARIABLE);
}

/* The new process says the bytes in one piece or in two, and ends. */
static void check_news(const char *bytes, size_t length, size_t first)
{
    enum { PIPE_BYTES = 65536 };
    int news[2];
    struct fault fault = {.code = GEMMD_OK};
    struct handover handover = {.state = HANDOVER_STARTING,
                                .pid = INT_MAX, /* not a child, so it counts as ended */
                                .deadline_ns = UINT64_MAX};
    if (length > PIPE_BYTES)
        return;
    MUST(pipe2(news, O_NONBLOCK | O_CLOEXEC) == 0);
    handover.news_fd = news[0];
    MUST(handover_look(&handover, 1, &fault) == GEMMD_OK);
    MUST(handover.state == HANDOVER_STARTING);
    MUST(write(news[1], bytes, first) == (ssize_t)first);
    MUST(handover_look(&handover, 2, &fault) == GEMMD_OK || handover.state == HANDOVER_NONE);
    if (handover.state != HANDOVER_READY)
        MUST(write(news[1], bytes + first, length - first) == (ssize_t)(length - first));
    close(news[1]);
    enum gemmd_error code = GEMMD_OK;
    for (size_t i = 0; i < length + 4 && code == GEMMD_OK && handover.state != HANDOVER_READY; i++)
        code = handover_look(&handover, 3, &fault);
    MUST((handover.state == HANDOVER_READY) == (length > 0 && bytes[0] == '\n'));
    if (handover.state != HANDOVER_READY)
        MUST(handover.state == HANDOVER_NONE && fault.detail[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    char *value = input_text(&input, '\0'), *news = input_text(&input, '\0');
    const size_t length_of_news = strlen(news);
    check_sockets(value);
    check_news(news, length_of_news, length_of_news);
    check_news(news, length_of_news, length_of_news / 2);
    free(news);
    free(value);
    return 0;
}
