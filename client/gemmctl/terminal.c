#include "client/gemmctl/terminal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct terminal terminal_look(bool no_color)
{
    const char *term = getenv("TERM"), *wish = getenv("NO_COLOR");
    bool dumb = term == NULL || strcmp(term, "dumb") == 0;
    bool color = !dumb && !no_color && (wish == NULL || wish[0] == '\0');
    struct terminal terminal = {
        .out_is_tty = isatty(STDOUT_FILENO) == 1,
        .err_is_tty = isatty(STDERR_FILENO) == 1,
    };
    terminal.out_color = terminal.out_is_tty && color;
    terminal.err_color = terminal.err_is_tty && color;
    terminal.moves = terminal.err_is_tty && !dumb;
    return terminal;
}

bool terminal_reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

const char *terminal_bold(bool color)
{
    return color ? "\033[1m" : "";
}

const char *terminal_red(bool color)
{
    return color ? "\033[1;31m" : "";
}

const char *terminal_plain(bool color)
{
    return color ? "\033[0m" : "";
}
