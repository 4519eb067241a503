#include "client/gemmctl/terminal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/utf8.h"

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

int terminal_control(const char *text, uint32_t *length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const bool is_c1 = bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0;
    *length = utf8_length(text, strnlen(text, 4));
    if (is_c1)
        return bytes[1];
    if (*length > 0 && bytes[0] >= ' ' && bytes[0] != 0x7f)
        return -1;
    *length = 1;
    return bytes[0];
}

enum { VISIBLE_MAX = 8 };

/* Writes the character at `*text`, or the character's code, to `out`, and moves `*text` behind the
 * character. Returns the number of bytes written. */
static size_t next_visible(const char **text, char out[VISIBLE_MAX])
{
    uint32_t length;
    const int code = terminal_control(*text, &length);
    const char *from = *text;
    *text += length;
    if (code >= 0)
        return (size_t)snprintf(out, VISIBLE_MAX, "\\x%02x", (unsigned)code);
    memcpy(out, from, length);
    return length;
}

size_t terminal_put(const char *text, FILE *to)
{
    char visible[VISIBLE_MAX];
    size_t bytes = 0;
    while (*text != '\0') {
        const size_t part = next_visible(&text, visible);
        bytes += fwrite(visible, 1, part, to);
    }
    return bytes;
}

void terminal_put_lines(const char *text, FILE *to)
{
    while (*text != '\0') {
        char visible[VISIBLE_MAX] = "\n";
        size_t part = 1;
        if (*text == '\n')
            text++;
        else
            part = next_visible(&text, visible);
        (void)fwrite(visible, 1, part, to);
    }
}

char *terminal_visible(const char *text)
{
    enum { LONGEST = 4 }; /* a byte becomes "\xNN" at most */
    char *out = malloc(strlen(text) * LONGEST + VISIBLE_MAX);
    size_t bytes = 0;
    if (out == NULL)
        return NULL;
    while (*text != '\0')
        bytes += next_visible(&text, out + bytes);
    out[bytes] = '\0';
    return out;
}
